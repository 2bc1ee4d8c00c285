// The one ReplyReader of all dialects: takes a response in, streamed or not, and gives its meaning.
#ifndef HEADRACE_WORKER_PROVIDER_REPLY_READER_H_
#define HEADRACE_WORKER_PROVIDER_REPLY_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/secret.h"
#include "worker/http/http.h"
#include "worker/provider/answer.h"
#include "worker/provider/assembler.h"
#include "worker/provider/classify.h"
#include "worker/provider/codec.h"
#include "worker/provider/sse.h"

namespace headrace::provider {

// What all readers of a codec share; the codec owns it.
struct ReaderContext {
  Vendor vendor = Vendor::kAny;
  Secret key;       // to take it out of what a provider echoes
  std::string url;  // for the message of a 404
};

// Error bodies are kept up to this size (http.md 3.2).
inline constexpr size_t kMaxErrorBody = size_t{64} << 10;

class BodyReader : public ReplyReader {
 public:
  // `context` must outlive the reader.
  BodyReader(const ReaderContext* context, Api api, bool stream, int64_t choices);

  void OnHeaders(int status, http::Headers headers) override;
  http::BodyVerdict OnBody(absl::string_view piece) override;
  Reply Finish(const http::CallResult& result) override;

 private:
  enum class Mode {
    kSniff,   // nothing but white space so far
    kEvents,  // server-sent events
    kPlain,   // one JSON value, or whatever it is
    kError,   // the status is an error: plain, the first kMaxErrorBody bytes
  };

  http::BodyVerdict Sniff(absl::string_view piece);
  http::BodyVerdict OnEvents(absl::string_view piece);
  bool IsHtml() const;

  void FinishEvents(const http::CallResult& result, Reply* reply);
  void FinishPlain(const http::CallResult& result, Reply* reply);
  // `body` is shown where the error has no message.
  void FinishError(const ProviderError& error, absl::string_view body, Reply* reply);
  void FinishTransport(const http::CallResult& result, Reply* reply);
  // Judges a whole body, which goes into the reply.
  void Accept(std::string body, const http::CallResult& result, Reply* reply);
  void SettleAnswer(Reply* reply);
  void KeepErrorBody(std::string body, Reply* reply);

  const ReaderContext* const context_;
  const Api api_;
  const bool stream_;
  const int64_t choices_;
  int status_ = 0;
  http::Headers headers_;
  Mode mode_ = Mode::kSniff;
  size_t mark_bytes_ = 0;  // of a byte order mark that came so far
  bool event_type_ = false;  // the content type says text/event-stream
  bool encoded_ = false;     // a content encoding that nobody asked for
  bool too_large_ = false;   // an event above the parser's limit
  std::string body_;
  SseParser parser_;
  std::unique_ptr<StreamAssembler> assembler_;
  std::vector<std::string> flags_;
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_REPLY_READER_H_
