// Streams of the Responses API.
#ifndef HEADRACE_WORKER_PROVIDER_RESPONSES_ASSEMBLER_H_
#define HEADRACE_WORKER_PROVIDER_RESPONSES_ASSEMBLER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "worker/provider/assembler.h"

namespace headrace::provider {

// The last event (response.completed, .incomplete or .failed) carries the whole response; the
// deltas before it are only signs of progress, kept as text in case the stream is cut.
class ResponsesAssembler : public StreamAssembler {
 public:
  std::string Body() const override;

 protected:
  Outcome OnJson(absl::string_view data) override;
  bool Finished() const override { return !response_.empty(); }

 private:
  std::string response_;  // raw
  std::string partial_;   // escaped
};

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_RESPONSES_ASSEMBLER_H_
