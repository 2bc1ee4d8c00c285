#include "worker/http/h2_callbacks.h"

#include <algorithm>

#include "absl/strings/string_view.h"
#include "worker/http/h2_call.h"
#include "worker/http/h2_connection.h"

namespace headrace::http {
namespace {

// Unanswered SETTINGS and PING acknowledgements that may queue up while the peer does not read
// (nghttp2's default is 1,000), and entries of one SETTINGS frame. Chosen.
constexpr size_t kMaxOutboundAcks = 200;
constexpr size_t kMaxSettings = 32;

absl::string_view View(const uint8_t* data, size_t size) {
  return absl::string_view(reinterpret_cast<const char*>(data), size);
}

}  // namespace

struct H2Callbacks {
  static H2Call* CallOf(nghttp2_session* session, int32_t stream_id) {
    return static_cast<H2Call*>(nghttp2_session_get_stream_user_data(session, stream_id));
  }

  static int BeforeFrameSend(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    if (H2Call* call = CallOf(session, frame->hd.stream_id)) call->OnOnWire();
    return 0;
  }

  static int FrameNotSent(nghttp2_session* session, const nghttp2_frame* frame, int error,
                          void* user) {
    if (frame->hd.type != NGHTTP2_HEADERS) return 0;
    auto* self = static_cast<H2Connection*>(user);
    // Rare (a GOAWAY met a request that was just queued), and the stream may not exist yet.
    for (H2Call* call = self->calls_.front(); call != nullptr; call = self->calls_.Next(call)) {
      if (call->stream_id() != frame->hd.stream_id) continue;
      call->OnConnectionLost(nghttp2_strerror(error));
      break;
    }
    return 0;
  }

  // Every frame but CONTINUATION, so that a header block without end is noticed by its bytes.
  static int BeginFrame(nghttp2_session* session, const nghttp2_frame_hd* head, void* user) {
    if (head->type != NGHTTP2_CONTINUATION) static_cast<H2Connection*>(user)->unframed_bytes_ = 0;
    return 0;
  }

  static int Header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name,
                    size_t name_size, const uint8_t* value, size_t value_size, uint8_t flags,
                    void* user) {
    H2Call* call = CallOf(session, frame->hd.stream_id);
    if (call != nullptr) call->OnHeader(View(name, name_size), View(value, value_size));
    return 0;
  }

  static int FrameReceived(nghttp2_session* session, const nghttp2_frame* frame, void* user) {
    auto* self = static_cast<H2Connection*>(user);
    switch (frame->hd.type) {
      case NGHTTP2_HEADERS:
        if (H2Call* call = CallOf(session, frame->hd.stream_id)) {
          call->OnHeadersComplete(self->now_);
        }
        [[fallthrough]];
      case NGHTTP2_DATA:
        if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) == 0) return 0;
        if (H2Call* call = CallOf(session, frame->hd.stream_id)) call->OnEndStream();
        return 0;
      case NGHTTP2_RST_STREAM:
        if (H2Call* call = CallOf(session, frame->hd.stream_id)) call->OnPeerReset();
        if (frame->rst_stream.error_code == NGHTTP2_ENHANCE_YOUR_CALM) self->host_->OnCalm();
        break;
      case NGHTTP2_SETTINGS:
        if ((frame->hd.flags & NGHTTP2_FLAG_ACK) != 0) return 0;
        self->OnSettings();
        break;
      case NGHTTP2_GOAWAY:
        self->OnGoAway(frame->goaway.error_code);
        break;
      case NGHTTP2_WINDOW_UPDATE:
        return 0;
      default:
        break;
    }
    return self->CountControlFrame() ? 0 : NGHTTP2_ERR_CALLBACK_FAILURE;
  }

  static int DataChunk(nghttp2_session* session, uint8_t flags, int32_t stream_id,
                       const uint8_t* data, size_t size, void* user) {
    auto* self = static_cast<H2Connection*>(user);
    if (H2Call* call = CallOf(session, stream_id)) call->OnData(View(data, size), self->now_);
    return 0;
  }

  static int StreamClosed(nghttp2_session* session, int32_t stream_id, uint32_t code, void* user) {
    if (H2Call* call = CallOf(session, stream_id)) call->OnStreamClosed(code);
    return 0;
  }

  static ssize_t ReadBody(nghttp2_session* session, int32_t stream_id, uint8_t* buffer, size_t size,
                          uint32_t* flags, nghttp2_data_source* source, void* user) {
    H2Call* call = CallOf(session, stream_id);
    // The call has ended and its reset is on its way.
    if (call == nullptr) return NGHTTP2_ERR_DEFERRED;
    bool end = false;
    const size_t count = call->ReadBody(reinterpret_cast<char*>(buffer), size, &end);
    if (end) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }

  static nghttp2_session_callbacks* Make() {
    nghttp2_session_callbacks* callbacks = nullptr;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) return nullptr;
    nghttp2_session_callbacks_set_before_frame_send_callback(callbacks, &BeforeFrameSend);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, &FrameNotSent);
    nghttp2_session_callbacks_set_on_begin_frame_callback(callbacks, &BeginFrame);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, &Header);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, &FrameReceived);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, &DataChunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, &StreamClosed);
    return callbacks;
  }
};

nghttp2_session* NewH2Session(H2Connection* connection) {
  nghttp2_session_callbacks* callbacks = H2Callbacks::Make();
  nghttp2_option* option = nullptr;
  if (callbacks == nullptr || nghttp2_option_new(&option) != 0) return nullptr;
  nghttp2_option_set_max_outbound_ack(option, kMaxOutboundAcks);
  nghttp2_option_set_max_settings(option, kMaxSettings);
  nghttp2_option_set_peer_max_concurrent_streams(option, H2Connection::kAssumedPeerStreams);
  // Closed streams are kept for priorities by default; nobody uses those any more.
  nghttp2_option_set_no_closed_streams(option, 1);
  nghttp2_session* session = nullptr;
  const int error = nghttp2_session_client_new2(&session, callbacks, connection, option);
  nghttp2_option_del(option);
  nghttp2_session_callbacks_del(callbacks);
  return error == 0 ? session : nullptr;
}

nghttp2_data_provider H2BodyProvider() {
  nghttp2_data_provider provider;
  provider.source.ptr = nullptr;
  provider.read_callback = &H2Callbacks::ReadBody;
  return provider;
}

}  // namespace headrace::http
