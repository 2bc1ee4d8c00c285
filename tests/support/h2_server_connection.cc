#include "tests/support/h2_server_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/log.h"

namespace headrace::http {

struct H2ServerCallbacks {
  static H2ServerConnection* Self(void* user) { return static_cast<H2ServerConnection*>(user); }

  static int BeginHeaders(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
    H2ServerConnection* self = Self(user);
    auto stream = std::make_unique<H2ServerConnection::Stream>();
    stream->connection = self;
    stream->id = frame->hd.stream_id;
    self->streams_[frame->hd.stream_id] = std::move(stream);
    const int open = static_cast<int>(self->streams_.size());
    self->Count([open](TestServerStats* stats) {
      stats->max_streams = std::max(stats->max_streams, open);
    });
    return 0;
  }

  static int Header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                    size_t name_size, const uint8_t* value, size_t value_size, uint8_t flags,
                    void* user) {
    H2ServerConnection* self = Self(user);
    const absl::string_view key(reinterpret_cast<const char*>(name), name_size);
    if (key == "expect") self->Count([](TestServerStats* stats) { ++stats->expect_headers; });
    H2ServerConnection::Stream* stream = self->Find(frame->hd.stream_id);
    if (key == ":path" && stream != nullptr) {
      stream->path.assign(reinterpret_cast<const char*>(value), value_size);
    }
    return 0;
  }

  static int FrameReceived(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    H2ServerConnection* self = Self(user);
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
      self->Count([](TestServerStats* stats) { ++stats->pings; });
      return 0;
    }
    if (frame->hd.type == NGHTTP2_RST_STREAM) {
      self->Count([](TestServerStats* stats) { ++stats->resets; });
      if (++self->resets_ > self->shared_->options.max_resets_per_connection) {
        nghttp2_session_terminate_session(session, NGHTTP2_ENHANCE_YOUR_CALM);
      }
      return 0;
    }
    H2ServerConnection::Stream* stream = self->Find(frame->hd.stream_id);
    if (stream == nullptr) return 0;
    const bool whole = (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0;
    if (whole && (frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA)) {
      stream->body_whole = true;
      self->Count([](TestServerStats* stats) { ++stats->bodies; });
    }
    if (frame->hd.type == NGHTTP2_HEADERS) self->OnRequest(stream);
    if (whole) Schedule(stream);
    return 0;
  }

  // Plays on in the next turn: steps flush, which nghttp2 forbids inside its callbacks.
  static void Schedule(H2ServerConnection::Stream* stream) {
    Reactor* reactor = stream->connection->reactor_;
    if (stream->timer.armed() && stream->timer.when() > reactor->Now()) return;  // a delay runs
    reactor->Arm(&stream->timer, reactor->Now(), &OnTimer, stream);
  }
  static void OnTimer(void* context) {
    auto* stream = static_cast<H2ServerConnection::Stream*>(context);
    stream->connection->Play(stream->id);
  }

  static int FrameSent(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_RST_STREAM &&
        frame->rst_stream.error_code == NGHTTP2_REFUSED_STREAM) {
      Self(user)->Count([](TestServerStats* stats) { ++stats->refused; });
    }
    return 0;
  }

  static int StreamClosed(nghttp2_session* session, int32_t id, uint32_t code, void* user) {
    H2ServerConnection* self = Self(user);
    H2ServerConnection::Stream* stream = self->Find(id);
    if (stream == nullptr) return 0;
    self->reactor_->Cancel(&stream->timer);
    self->streams_.erase(id);
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session* session, int32_t id, uint8_t* buffer, size_t size,
                          uint32_t* flags, nghttp2_data_source* source, void* user) {
    H2ServerConnection::Stream* stream = Self(user)->Find(id);
    if (stream == nullptr || (stream->out.empty() && !stream->end)) return NGHTTP2_ERR_DEFERRED;
    const size_t count = std::min(size, stream->out.size());
    memcpy(buffer, stream->out.data(), count);
    stream->out.erase(0, count);
    if (stream->end && stream->out.empty()) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }

  static nghttp2_session* NewSession(H2ServerConnection* self) {
    nghttp2_session_callbacks* callbacks = nullptr;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, &BeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &Header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &FrameReceived);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, &FrameSent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &StreamClosed);
    nghttp2_option* option = nullptr;
    nghttp2_option_new(&option);
    nghttp2_option_set_no_auto_window_update(option,
                                             self->shared_->options.updates_windows ? 0 : 1);
    nghttp2_option_set_no_auto_ping_ack(option, self->shared_->extras.answers_pings ? 0 : 1);
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_send_header_block_length(option, 1 << 20);
    nghttp2_option_set_max_outbound_ack(option, 1 << 20);
    // Broken answers (a body short of its content-length) must be possible.
    nghttp2_option_set_no_http_messaging(option, 1);
    nghttp2_session* session = nullptr;
    HR_CHECK(nghttp2_session_server_new2(&session, callbacks, self, option) == 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    return session;
  }
};

H2ServerConnection::H2ServerConnection(Reactor* reactor, H2ServerShared* shared,
                                       net::Transport transport)
    : reactor_(reactor), shared_(shared), transport_(std::move(transport)) {
  session_ = H2ServerCallbacks::NewSession(this);
  Count([](TestServerStats* stats) {
    ++stats->connections;
    ++stats->open_connections;
  });
}

H2ServerConnection::~H2ServerConnection() {
  Close(false);
  nghttp2_session_del(session_);
}

void H2ServerConnection::Start() {
  if (!shared_->extras.shakes_hands) return;
  const auto streams = static_cast<uint32_t>(shared_->options.max_concurrent_streams);
  const auto window = static_cast<uint32_t>(shared_->options.initial_window);
  const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, streams},
                                             {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window}};
  nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, settings, 2);
  if (shared_->options.updates_windows) {
    nghttp2_session_set_local_window_size(session_, NGHTTP2_FLAG_NONE, 0, 16 << 20);
  }
  for (int i = 0; i < shared_->extras.pings_on_connect; ++i) {
    nghttp2_submit_ping(session_, NGHTTP2_FLAG_NONE, nullptr);
  }
  HR_CHECK(reactor_->Watch(transport_.fd(), EPOLLIN, this).ok());
  watched_ = true;
  Flush();
}

H2ServerConnection::Stream* H2ServerConnection::Find(int32_t id) {
  auto it = streams_.find(id);
  return it == streams_.end() ? nullptr : it->second.get();
}

void H2ServerConnection::OnRequest(Stream* stream) {
  absl::MutexLock lock(&shared_->mutex);
  ++shared_->stats.requests;
  auto it = shared_->scripts.find(stream->path);
  if (it == shared_->scripts.end() || it->second.scripts.empty()) {
    stream->script = {step::Headers(404), step::End()};
  } else {
    H2ServerShared::PathScripts& path = it->second;
    stream->script = path.scripts[std::min(path.next++, path.scripts.size() - 1)];
  }
  H2ServerCallbacks::Schedule(stream);
}

void H2ServerConnection::Play(int32_t id) {
  while (!closed_ && !black_hole_) {
    // A step may end the stream.
    Stream* stream = Find(id);
    if (stream == nullptr || stream->next_step >= stream->script.size()) return;
    const Step step = stream->script[stream->next_step];
    if (step.kind == Step::Kind::kAwaitBody && !stream->body_whole) return;
    ++stream->next_step;
    if (!PlayStep(stream, step)) return;
  }
}

bool H2ServerConnection::PlayStep(Stream* stream, const Step& step) {
  switch (step.kind) {
    case Step::Kind::kAwaitBody:
      return true;
    case Step::Kind::kDelay:
      reactor_->Arm(&stream->timer, reactor_->Now() + step.delay, &H2ServerCallbacks::OnTimer,
                    stream);
      return false;
    case Step::Kind::kHeaders: {
      const std::string status = absl::StrCat(step.status);
      std::vector<nghttp2_nv> fields;
      const auto add = [&fields](absl::string_view name, absl::string_view value) {
        fields.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                          reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                          value.size(), NGHTTP2_NV_FLAG_NONE});
      };
      add(":status", status);
      for (const auto& [name, value] : step.headers) add(name, value);
      if (step.status < 200) {
        nghttp2_submit_headers(session_, NGHTTP2_FLAG_NONE, stream->id, nullptr, fields.data(),
                               fields.size(), nullptr);
      } else {
        nghttp2_data_provider provider;
        provider.source.ptr = nullptr;
        provider.read_callback = &H2ServerCallbacks::ReadBody;
        nghttp2_submit_response(session_, stream->id, fields.data(), fields.size(), &provider);
      }
      break;
    }
    case Step::Kind::kData:
      stream->out += step.text;
      nghttp2_session_resume_data(session_, stream->id);
      break;
    case Step::Kind::kEnd:
      stream->end = true;
      nghttp2_session_resume_data(session_, stream->id);
      break;
    case Step::Kind::kReset:
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream->id, step.code);
      break;
    case Step::Kind::kGoAway:
      if (step.last == Step::Last::kAll) {
        nghttp2_submit_shutdown_notice(session_);
      } else {
        int32_t last = 0;
        if (step.last == Step::Last::kThis) last = stream->id;
        if (step.last == Step::Last::kPrevious) last = std::max(0, stream->id - 2);
        nghttp2_submit_goaway(session_, NGHTTP2_FLAG_NONE, last, step.code, nullptr, 0);
      }
      break;
    case Step::Kind::kFin:
      Close(false);
      return false;
    case Step::Kind::kTcpReset:
      Close(true);
      return false;
    case Step::Kind::kBlackHole:
      black_hole_ = true;
      if (std::exchange(watched_, false)) reactor_->Unwatch(transport_.fd());
      return false;
  }
  Flush();
  return true;
}

void H2ServerConnection::OnFdReady(uint32_t events) {
  if ((events & EPOLLOUT) != 0) Flush();
  if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) Read();
}

void H2ServerConnection::Read() {
  char buffer[16 * 1024];
  while (!closed_) {
    size_t count = 0;
    const net::Transport::Io io = transport_.Read(buffer, sizeof(buffer), &count);
    if (io == net::Transport::Io::kWouldBlock) break;
    if (io != net::Transport::Io::kOk) return Close(false);
    if (nghttp2_session_mem_recv(session_, reinterpret_cast<uint8_t*>(buffer), count) < 0) {
      return Close(false);
    }
  }
  reactor_->RequestEndOfTurn(this);
}

void H2ServerConnection::OnEndOfTurn() { Flush(); }

void H2ServerConnection::Flush() {
  if (closed_ || black_hole_) return;
  while (true) {
    while (!blocked_.empty()) {
      size_t count = 0;
      const net::Transport::Io io = transport_.Write(blocked_.data(), blocked_.size(), &count);
      if (io == net::Transport::Io::kWouldBlock) {
        // During a handshake it waits for the client's word, not for room to write.
        const bool handshake = transport_.tls() && !transport_.ready();
        return reactor_->Rewatch(transport_.fd(), handshake ? EPOLLIN : EPOLLIN | EPOLLOUT, this);
      }
      if (io != net::Transport::Io::kOk) return Close(false);
      blocked_.erase(0, count);
    }
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(session_, &data);
    if (size <= 0) break;
    blocked_.assign(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  }
  if (!std::exchange(greeted_, true) && transport_.resumed()) {
    Count([](TestServerStats* stats) { ++stats->resumed_sessions; });
  }
  reactor_->Rewatch(transport_.fd(), EPOLLIN, this);
  if (nghttp2_session_want_read(session_) == 0 && nghttp2_session_want_write(session_) == 0) {
    Close(false);
  }
}

void H2ServerConnection::Close(bool with_reset) {
  if (std::exchange(closed_, true)) return;
  for (auto& [id, stream] : streams_) reactor_->Cancel(&stream->timer);
  if (std::exchange(watched_, false)) reactor_->Unwatch(transport_.fd());
  if (with_reset) {
    const linger abort{1, 0};
    setsockopt(transport_.fd(), SOL_SOCKET, SO_LINGER, &abort, sizeof(abort));
  }
  transport_.Close();
  Count([](TestServerStats* stats) { --stats->open_connections; });
}

}  // namespace headrace::http
