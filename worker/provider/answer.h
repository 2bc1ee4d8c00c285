// Judges a whole answer body: is it an answer, and what does it say about itself. Streams are
// assembled into the same shape first, so there is one judge for both.
#ifndef HEADRACE_WORKER_PROVIDER_ANSWER_H_
#define HEADRACE_WORKER_PROVIDER_ANSWER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "common/outcome/error_class.h"
#include "common/outcome/result_line.h"
#include "worker/provider/codec.h"
#include "worker/provider/provider_error.h"

namespace headrace::provider {

struct Judgement {
  ErrorClass error_class = ErrorClass::kNone;
  std::string message;
  std::string finish_reason;
  Usage usage;
  std::vector<std::string> flags;
  // The body is an error object after all (cases B9, B10): to be classified, not judged.
  std::optional<ProviderError> error;
  bool has_end = false;  // a finish reason or its like is in it
};

// `body`: one JSON value that MinifyJson accepted. `choices`: how many were asked for.
Judgement JudgeAnswer(Api api, absl::string_view body, int64_t choices);

// Reads a usage object of any dialect. Fields that are missing, negative or no number stay absent.
void ReadUsage(absl::string_view raw, Usage* usage);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_ANSWER_H_
