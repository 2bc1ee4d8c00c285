// HTTP/2 on libnghttp2, the server's side.
#include <nghttp2/nghttp2.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <utility>

#include "common/async/list.h"
#include "simulator/connection.h"

namespace headrace::simulator {
namespace {

// Windows for request bodies. Chosen, not measured.
constexpr uint32_t kStreamWindow = 1 << 20;
constexpr int32_t kConnectionWindow = 16 << 20;
// Headers of one response at most.
constexpr size_t kMaxResponseHeaders = 32;

class H2Session;

class H2Stream final : public Responder, public ListNode<H2Stream> {
 public:
  H2Stream(H2Session* session, int32_t id) : session_(session), id_(id) {}
  ~H2Stream() override { Unlink(); }

  void SendHead(const ResponseHead& head) override;
  void Wake() override;
  void SendEnd() override;
  void ResetStream(uint32_t h2_error) override;
  void CloseConnection(bool reset) override;
  void GoAway(GoAwayKind kind) override;

  // nghttp2_data_source_read_callback.
  ssize_t ReadBody(uint8_t* buffer, size_t length, uint32_t* flags);

  H2Session* const session_;
  const int32_t id_;
  size_t head_bytes_ = 0;
  bool ended_ = false;
  bool deferred_ = false;
  Request request_;
  std::unique_ptr<Call> call_;
};

class H2Session final : public Session {
 public:
  explicit H2Session(Connection* connection);
  ~H2Session() override;

  bool Receive(absl::string_view bytes) override;
  void Produce(std::string* out, size_t limit) override;
  bool Ended() const override;
  void PeerGone(Gone how) override;

  static int OnBeginHeaders(nghttp2_session* h2, const nghttp2_frame* frame, void* self);
  static int OnHeader(nghttp2_session* h2, const nghttp2_frame* frame, const uint8_t* name,
                      size_t name_size, const uint8_t* value, size_t value_size, uint8_t flags,
                      void* self);
  static int OnData(nghttp2_session* h2, uint8_t flags, int32_t id, const uint8_t* data,
                    size_t size, void* self);
  static int OnFrame(nghttp2_session* h2, const nghttp2_frame* frame, void* self);
  static int OnClose(nghttp2_session* h2, int32_t id, uint32_t error, void* self);

  Connection* const connection_;
  nghttp2_session* h2_ = nullptr;
  bool draining_ = false;  // GOAWAY sent: ends with its last stream
  bool broken_ = false;
  List<H2Stream> streams_;
};

nghttp2_session_callbacks* Callbacks() {
  static nghttp2_session_callbacks* const callbacks = [] {
    nghttp2_session_callbacks* made = nullptr;
    nghttp2_session_callbacks_new(&made);
    nghttp2_session_callbacks_set_on_begin_headers_callback(made, H2Session::OnBeginHeaders);
    nghttp2_session_callbacks_set_on_header_callback(made, H2Session::OnHeader);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(made, H2Session::OnData);
    nghttp2_session_callbacks_set_on_frame_recv_callback(made, H2Session::OnFrame);
    nghttp2_session_callbacks_set_on_stream_close_callback(made, H2Session::OnClose);
    return made;
  }();
  return callbacks;
}

H2Stream* GetStream(nghttp2_session* h2, int32_t id) {
  return static_cast<H2Stream*>(nghttp2_session_get_stream_user_data(h2, id));
}

// `name` must be a literal.
nghttp2_nv StaticName(absl::string_view name, absl::string_view value, uint8_t flags) {
  nghttp2_nv nv;
  nv.name = reinterpret_cast<uint8_t*>(const_cast<char*>(name.data()));
  nv.namelen = name.size();
  nv.value = reinterpret_cast<uint8_t*>(const_cast<char*>(value.data()));
  nv.valuelen = value.size();
  nv.flags = flags;
  return nv;
}

// ------------------------------------------------------------------------------------ stream

void H2Stream::SendHead(const ResponseHead& head) {
  std::array<nghttp2_nv, kMaxResponseHeaders> nvs;
  char status[24];
  char length[24];
  size_t count = 0;
  const auto digits = [](uint64_t number, char* buffer) {
    return absl::string_view(buffer, std::to_chars(buffer, buffer + 24, number).ptr - buffer);
  };
  nvs[count++] = StaticName(":status", digits(static_cast<uint64_t>(head.status), status),
                            NGHTTP2_NV_FLAG_NO_COPY_NAME);
  nvs[count++] = StaticName("server", "headrace-simulator",
                            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE);
  nvs[count++] = StaticName("content-type", head.content_type, NGHTTP2_NV_FLAG_NO_COPY_NAME);
  if (head.content_length.has_value()) {
    nvs[count++] = StaticName("content-length", digits(*head.content_length, length),
                              NGHTTP2_NV_FLAG_NO_COPY_NAME);
  }
  for (const auto& [name, value] : head.headers) {
    if (count == nvs.size()) break;
    // Values that change with every response would only churn the peer's header table.
    nvs[count++] = StaticName(name, value, NGHTTP2_NV_FLAG_NO_INDEX);
  }
  nghttp2_data_provider provider;
  provider.source.ptr = this;
  provider.read_callback = [](nghttp2_session*, int32_t, uint8_t* buffer, size_t size,
                              uint32_t* flags, nghttp2_data_source* source, void*) -> ssize_t {
    return static_cast<H2Stream*>(source->ptr)->ReadBody(buffer, size, flags);
  };
  nghttp2_submit_response(session_->h2_, id_, nvs.data(), count, &provider);
  session_->connection_->RequestFlush();
}

ssize_t H2Stream::ReadBody(uint8_t* buffer, size_t length, uint32_t* flags) {
  const size_t ready = body_.size() - body_sent_;
  if (ready == 0 && !ended_) {
    deferred_ = true;
    return NGHTTP2_ERR_DEFERRED;
  }
  const size_t size = std::min(one_byte_ ? std::min<size_t>(length, 1) : length, ready);
  memcpy(buffer, body_.data() + body_sent_, size);
  body_sent_ += size;
  if (body_sent_ == body_.size()) {
    body_.clear();
    body_sent_ = 0;
    if (ended_) *flags |= NGHTTP2_DATA_FLAG_EOF;
  }
  return static_cast<ssize_t>(size);
}

void H2Stream::Wake() {
  if (std::exchange(deferred_, false)) nghttp2_session_resume_data(session_->h2_, id_);
  session_->connection_->RequestFlush();
}

void H2Stream::SendEnd() {
  ended_ = true;
  Wake();
}

void H2Stream::ResetStream(uint32_t h2_error) {
  nghttp2_submit_rst_stream(session_->h2_, NGHTTP2_FLAG_NONE, id_, h2_error);
  session_->connection_->RequestFlush();
}

void H2Stream::CloseConnection(bool reset) { session_->connection_->CloseAfterFlush(reset); }

void H2Stream::GoAway(GoAwayKind kind) {
  const int32_t last = nghttp2_session_get_last_proc_stream_id(session_->h2_);
  session_->draining_ = true;
  switch (kind) {
    case GoAwayKind::kGraceful:
      nghttp2_submit_goaway(session_->h2_, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, nullptr, 0);
      break;
    case GoAwayKind::kHard:
      // nghttp2 closes the streams above as refused when the frame has been sent.
      nghttp2_submit_goaway(session_->h2_, NGHTTP2_FLAG_NONE, std::max(id_ - 2, 0),
                            NGHTTP2_NO_ERROR, nullptr, 0);
      break;
    case GoAwayKind::kCalm: {
      static constexpr absl::string_view kWhy = "too_many_resets";
      nghttp2_submit_goaway(session_->h2_, NGHTTP2_FLAG_NONE, last, NGHTTP2_ENHANCE_YOUR_CALM,
                            reinterpret_cast<const uint8_t*>(kWhy.data()), kWhy.size());
      session_->connection_->CloseAfterFlush(/*reset=*/false);
      break;
    }
  }
  session_->connection_->RequestFlush();
}

// ----------------------------------------------------------------------------------- session

H2Session::H2Session(Connection* connection) : connection_(connection) {
  nghttp2_option* option = nullptr;
  nghttp2_option_new(&option);
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_session_server_new2(&h2_, Callbacks(), this, option);
  nghttp2_option_del(option);
  const nghttp2_settings_entry settings[] = {
      {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
       static_cast<uint32_t>(connection->service()->options().max_streams)},
      {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, kStreamWindow},
      {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, static_cast<uint32_t>(kMaxRequestHead)},
      // RFC 9218: no dependency tree, which costs time for nothing here.
      {NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES, 1},
  };
  nghttp2_submit_settings(h2_, NGHTTP2_FLAG_NONE, settings, std::size(settings));
  nghttp2_session_set_local_window_size(h2_, NGHTTP2_FLAG_NONE, 0, kConnectionWindow);
  connection_->RequestFlush();
}

H2Session::~H2Session() {
  while (H2Stream* stream = streams_.PopFront()) delete stream;
  nghttp2_session_del(h2_);
}

bool H2Session::Receive(absl::string_view bytes) {
  const ssize_t taken =
      nghttp2_session_mem_recv(h2_, reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
  connection_->RequestFlush();
  return taken >= 0;
}

void H2Session::Produce(std::string* out, size_t limit) {
  while (out->size() < limit && !broken_) {
    const uint8_t* data = nullptr;
    const ssize_t size = nghttp2_session_mem_send(h2_, &data);
    if (size < 0) broken_ = true;
    if (size <= 0) return;
    out->append(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
  }
}

bool H2Session::Ended() const {
  if (broken_ || (draining_ && const_cast<List<H2Stream>&>(streams_).empty())) return true;
  return nghttp2_session_want_read(h2_) == 0 && nghttp2_session_want_write(h2_) == 0;
}

void H2Session::PeerGone(Gone how) {
  for (H2Stream* stream = streams_.front(); stream != nullptr; stream = streams_.Next(stream)) {
    if (stream->call_ != nullptr) stream->call_->PeerGone(how);
  }
}

int H2Session::OnBeginHeaders(nghttp2_session* h2, const nghttp2_frame* frame, void* self) {
  if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST) return 0;
  auto* session = static_cast<H2Session*>(self);
  auto* stream = new H2Stream(session, frame->hd.stream_id);  // owned by streams_
  stream->request_.is_h2 = true;
  session->streams_.PushBack(stream);
  nghttp2_session_set_stream_user_data(h2, frame->hd.stream_id, stream);
  return 0;
}

int H2Session::OnHeader(nghttp2_session* h2, const nghttp2_frame* frame, const uint8_t* name_data,
                        size_t name_size, const uint8_t* value_data, size_t value_size, uint8_t,
                        void*) {
  H2Stream* stream = GetStream(h2, frame->hd.stream_id);
  if (stream == nullptr || frame->hd.type != NGHTTP2_HEADERS) return 0;
  const absl::string_view name(reinterpret_cast<const char*>(name_data), name_size);
  const absl::string_view value(reinterpret_cast<const char*>(value_data), value_size);
  stream->head_bytes_ += name_size + value_size;
  if (stream->head_bytes_ > kMaxRequestHead) return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
  if (name == ":method") {
    stream->request_.method.assign(value.data(), value.size());
  } else if (name == ":path") {
    stream->request_.SetTarget(value);
  } else {
    stream->request_.AddHeader(name, value);
  }
  return 0;
}

int H2Session::OnData(nghttp2_session* h2, uint8_t, int32_t id, const uint8_t* data, size_t size,
                      void*) {
  H2Stream* stream = GetStream(h2, id);
  if (stream == nullptr) return 0;
  std::string& body = stream->request_.body;
  if (body.size() + size > kMaxRequestBody) {
    stream->request_.body_too_large = true;
    return 0;
  }
  body.append(reinterpret_cast<const char*>(data), size);
  return 0;
}

int H2Session::OnFrame(nghttp2_session* h2, const nghttp2_frame* frame, void* self) {
  const bool may_end = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
  if (!may_end || (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
  H2Stream* stream = GetStream(h2, frame->hd.stream_id);
  if (stream == nullptr || stream->call_ != nullptr) return 0;
  Connection* const connection = static_cast<H2Session*>(self)->connection_;
  if (connection->CountRequest()) stream->GoAway(GoAwayKind::kGraceful);
  stream->call_ = connection->service()->Start(stream, std::move(stream->request_));
  return 0;
}

int H2Session::OnClose(nghttp2_session* h2, int32_t id, uint32_t error, void*) {
  H2Stream* stream = GetStream(h2, id);
  if (stream == nullptr) return 0;
  nghttp2_session_set_stream_user_data(h2, id, nullptr);
  if (stream->call_ != nullptr) {
    stream->call_->PeerGone(error == NGHTTP2_REFUSED_STREAM ? Gone::kOurs : Gone::kRstStream);
  }
  delete stream;
  return 0;
}

}  // namespace

std::unique_ptr<Session> MakeH2Session(Connection* connection) {
  return std::make_unique<H2Session>(connection);
}

}  // namespace headrace::simulator
