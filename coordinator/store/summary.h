// summary.json: how a run went, in numbers that can be added up and compared. docs/file_formats.md
// shows it.
#ifndef HEADRACE_COORDINATOR_STORE_SUMMARY_H_
#define HEADRACE_COORDINATOR_STORE_SUMMARY_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/histogram.h"
#include "common/outcome/error_class.h"
#include "common/outcome/json_answer.h"
#include "common/outcome/result_fields.h"
#include "common/outcome/result_line.h"
#include "coordinator/store/answer_text.h"
#include "coordinator/store/disk.h"

namespace headrace {

inline constexpr char kSummaryFile[] = "summary.json";

// What happened to a set of items. Everything in it adds up.
struct Tally {
  int64_t items = 0;  // all that there are, done or not
  int64_t ok = 0;
  int64_t failed = 0;
  int64_t missing() const { return items - ok - failed; }
  std::map<ErrorClass, int64_t> failed_by_class;
  std::map<ErrorClass, std::string> example_by_class;  // the first message of each, cut

  int64_t attempts = 0;
  int64_t possibly_billed = 0;  // attempts whose outcome nobody knows
  // Tokens that were reported; so many items that ended with an answer reported none.
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;
  int64_t reasoning_tokens = 0;
  int64_t items_without_usage = 0;
  std::optional<double> cost_usd;  // of the reported tokens; nothing without prices

  // Of items that are ok, in microseconds.
  Histogram total_us;
  Histogram queue_us;
  Histogram network_us;
  Histogram first_token_us;

  // Of items that are ok, when they were looked at for JSON; by JsonKind.
  std::array<int64_t, kJsonKinds> json_kinds{};
  int64_t json_white_space_tails = 0;

  // Counts one final line; `items` stays.
  void Add(const ResultFields& line);
  // Counts the answer of a line that is ok.
  void AddJson(const JsonAnswer& answer);
  void Merge(const Tally& other);
};

// Dollars per million tokens; cached tokens cost the input price when theirs is not known.
struct TokenPrices {
  std::optional<double> input_usd;
  std::optional<double> output_usd;
  std::optional<double> cached_usd;
};
// Nothing unless both input and output prices are known.
std::optional<double> CostUsd(const Tally& tally, const TokenPrices& prices);

enum class RunState { kComplete, kInterrupted, kStopped };
absl::string_view RunStateName(RunState state);

struct RunSummary {
  std::string job;
  RunState state = RunState::kComplete;
  std::string reason;  // why it stopped, for people; empty when complete
  int exit_code = 0;
  std::string version;  // of headrace
  std::string dataset_path;
  std::string dataset_sha256;
  int64_t rows = 0;
  absl::Time started;  // of the first start of the run directory
  absl::Time ended;
  absl::Duration active;  // time in which it ran, over all starts
  int64_t starts = 1;
  int64_t passes = 1;
  int64_t throttled = 0;  // answers that said "later", over all items
  bool json = false;      // answers were looked at for JSON
  // Pools whose calls in flight were found by trying: what was found when this part ended.
  struct InFlight {
    std::string pool;
    int64_t found = 0;
    std::string why;
  };
  std::vector<InFlight> in_flight;
  struct Model {
    std::string name;
    Tally tally;
  };
  std::vector<Model> models;
};

// One line of JSON with a line end; the totals are the sum over the models.
std::string SummaryJson(const RunSummary& summary);
absl::Status WriteSummary(Disk* disk, const std::string& dir, const RunSummary& summary);

// Counts the lines of a run (ReadRunFields) model by model: after a restart its logs are the only
// place that knows all items.
class RunTally {
 public:
  // `prices`: one per model of the job, in its order. With `json`, answers are looked at for JSON.
  // InvalidArgument when the run in `dir` has other models.
  static absl::StatusOr<RunTally> Make(Disk* disk, const std::string& dir,
                                       std::vector<TokenPrices> prices, bool json = false);

  // A line that cannot be read (nullptr) counts by its key alone: it must not spoil the totals.
  void Add(const ResultLineKey& key, const ResultFields* fields);
  // One per model, with items and cost.
  std::vector<Tally> Finish() &&;

 private:
  RunTally(std::vector<TokenPrices> prices, int64_t rows);

  std::vector<TokenPrices> prices_;
  std::vector<Tally> tallies_;
  std::unique_ptr<AnswerReader> answers_;  // null: nobody looks for JSON
};

// The same for all lines of `dir`, read for this alone.
absl::StatusOr<std::vector<Tally>> TallyFromLogs(Disk* disk, const std::string& dir,
                                                 std::vector<TokenPrices> prices);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_STORE_SUMMARY_H_
