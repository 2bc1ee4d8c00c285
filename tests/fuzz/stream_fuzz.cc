// A response, streamed or not, gives the same reply however it is cut, and its body is one JSON
// value on one line. The first byte chooses the API and what was asked for.
#include <cstddef>
#include <cstdint>
#include <string>

#include "common/base/log.h"
#include "common/base/json_reader.h"
#include "worker/provider/reply_reader.h"

namespace {

namespace http = headrace::http;
namespace provider = headrace::provider;

provider::Reply Play(provider::Api api, bool stream, bool events, absl::string_view text,
                     size_t size) {
  static const provider::ReaderContext kContext;
  provider::BodyReader reader(&kContext, api, stream, 1);
  http::CallResult result;
  result.end = http::CallEnd::kComplete;
  result.sends = 1;
  reader.OnHeaders(200, {{"content-type", events ? "text/event-stream" : "application/json"}});
  while (!text.empty()) {
    const std::string piece(text.substr(0, size == 0 ? text.size() : size));
    text.remove_prefix(piece.size());
    if (reader.OnBody(piece) == http::BodyVerdict::kAbort) {
      result.end = http::CallEnd::kAborted;
      break;
    }
  }
  return reader.Finish(result);
}

bool IsJson(absl::string_view text) {
  headrace::JsonReader json(text);
  json.Skip();
  return json.AtEnd();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto api = static_cast<provider::Api>((data[0] & 7) % 5);
  const bool stream = (data[0] & 8) != 0;
  const bool events = (data[0] & 16) != 0;
  const absl::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const provider::Reply whole = Play(api, stream, events, text, 0);
  HR_CHECK(whole.body.empty() || IsJson(whole.body)) << whole.body;
  HR_CHECK(whole.body.find('\n') == std::string::npos) << "line end in a body";
  HR_CHECK(whole.error_class != headrace::ErrorClass::kNone || !whole.body.empty()) << "no body";
  HR_CHECK(whole.error_class == headrace::ErrorClass::kNone || !whole.message.empty())
      << "no message";
  provider::AnswerText(whole.body);
  for (size_t piece : {1, 5}) {
    const provider::Reply cut = Play(api, stream, events, text, piece);
    HR_CHECK(cut.error_class == whole.error_class) << "class differs in pieces of " << piece;
    // An error ends the reading where it is found, and so may what is kept of the rest.
    HR_CHECK(whole.error_class != headrace::ErrorClass::kNone || cut.body == whole.body)
        << "body differs in pieces of " << piece;
  }
  return 0;
}
