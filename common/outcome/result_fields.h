// Reads whole result lines back into fields: for the CSV export, the summary and the reports. What
// only needs to know which item a line is about uses CheckResultLine().
#ifndef HEADRACE_COMMON_OUTCOME_RESULT_FIELDS_H_
#define HEADRACE_COMMON_OUTCOME_RESULT_FIELDS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/outcome/error_class.h"
#include "common/outcome/result_line.h"

namespace headrace {

// ResultLine with its own texts, so that one object can be filled again and again.
struct ResultFields {
  ItemId item;
  RowIndex row;
  std::string model;
  std::string custom_id;
  ErrorClass error_class = ErrorClass::kNone;
  std::string status;  // as written: "ok" or the name of a class, also one this build does not know
  std::string error_message;
  int http_status = 0;  // 0: no response
  std::string request_id;
  std::string body;  // JSON as written; empty when null
  std::string finish_reason;
  std::string expected;
  uint32_t attempts = 0;
  uint32_t possibly_billed = 0;
  uint32_t pass = 1;
  Usage usage;
  ItemTimes times;
  std::string worker;
  BatchId batch;
  absl::Time started;
  std::string flags;
};

// Keeps its buffers between lines. Not thread-safe.
class ResultLineParser {
 public:
  ResultLineParser();
  ~ResultLineParser();

  // Replaces all of *fields. The line's checksum is the caller's business (CheckResultLine). Keys
  // that this build does not know are ignored, missing ones leave their default. InvalidArgument
  // when the line is not JSON of the expected types; *fields is then unspecified.
  absl::Status Parse(absl::string_view line, ResultFields* fields);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace headrace

#endif  // HEADRACE_COMMON_OUTCOME_RESULT_FIELDS_H_
