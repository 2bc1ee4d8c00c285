// The state of a KneeFinder as a text: numbers in a fixed order, then the words.
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/quota/knee.h"

namespace headrace::quota {
namespace {

// Another layout begins with another word.
constexpr char kLayout[] = "k1";
constexpr size_t kMaxWhyBytes = 500;
// Larger than any number of a finder, and small enough to reckon with: a text may be another's.
constexpr int64_t kMostNumber = int64_t{1} << 58;

void SaveWindow(const KneeWindow& window, std::string* out) {
  const std::vector<int64_t> numbers = window.sum.ToNumbers();
  absl::StrAppendFormat(out, " %.17g %d %d", window.in_flight_us, window.elapsed_us,
                        numbers.size());
  // Most models of a job are none.
  for (size_t i = 0; i < numbers.size(); ++i) absl::StrAppend(out, " ", numbers[i]);
}

// Takes words off the front of a text.
class Reader {
 public:
  explicit Reader(absl::string_view text) : rest_(text) {}

  bool ok() const { return ok_; }
  absl::string_view rest() const { return rest_; }
  absl::string_view Word() {
    const size_t end = std::min(rest_.find(' '), rest_.size());
    const absl::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    return word;
  }
  void Read(int64_t* number) {
    ok_ =
        absl::SimpleAtoi(Word(), number) && *number > -kMostNumber && *number < kMostNumber && ok_;
  }
  void Read(double* number) {
    constexpr auto kMost = static_cast<double>(kMostNumber);
    ok_ = absl::SimpleAtod(Word(), number) && std::abs(*number) < kMost && ok_;  // and so no NaN
  }
  template <typename Enum>
  void Read(Enum* value, int64_t most) {
    int64_t number = 0;
    Read(&number);
    ok_ = ok_ && number >= 0 && number <= most;
    if (ok_) *value = static_cast<Enum>(number);
  }
  void Read(KneeWindow* window) {
    Read(&window->in_flight_us);
    Read(&window->elapsed_us);
    int64_t count = 0;
    Read(&count);
    if (count < 0 || count > static_cast<int64_t>(FlightSample::kNumbers)) ok_ = false;
    std::vector<int64_t> numbers;
    for (int64_t i = 0; ok_ && i < count; ++i) Read(&numbers.emplace_back());
    if (ok_) window->sum = FlightSample::FromNumbers(numbers);
  }

 private:
  absl::string_view rest_;
  bool ok_ = true;
};

}  // namespace

template <typename Visit>
void KneeFinder::EachNumber(State* s, Visit visit) {
  for (int64_t* number :
       {&s->raised, &s->reached, &s->limit, &s->base, &s->settled_us, &s->changed_us,
        &s->unbound_us, &s->direction, &s->idle_probes, &s->probe_at_us, &s->refused_at,
        &s->refused_until_us, &s->cut_from, &s->cuts, &s->outage}) {
    visit(number);
  }
  for (double* number : {&s->step, &s->in_flight, &s->latency_us, &s->ratio, &s->refused, &s->ended,
                         &s->cut_share, &s->usual_refused, &s->usual_ended}) {
    visit(number);
  }
}

std::string KneeFinder::Save() const {
  State state = state_;
  std::string out = absl::StrCat(kLayout, " ", static_cast<int64_t>(state.mode), " ",
                                 static_cast<int64_t>(state.turn));
  EachNumber(&state, [&out](auto* number) {
    if constexpr (std::is_same_v<decltype(number), double*>) {
      absl::StrAppendFormat(&out, " %.17g", *number);
    } else {
      absl::StrAppend(&out, " ", *number);
    }
  });
  for (const KneeWindow* window : {&now_, &base_, &probe_, &known_}) SaveWindow(*window, &out);
  absl::StrAppend(&out, " ", why_.substr(0, kMaxWhyBytes));
  return out;
}

std::optional<KneeFinder> KneeFinder::Load(absl::string_view text, int64_t most) {
  Reader reader(text);
  if (reader.Word() != kLayout) return std::nullopt;
  KneeFinder finder(most);
  reader.Read(&finder.state_.mode, static_cast<int64_t>(Mode::kHold));
  reader.Read(&finder.state_.turn, static_cast<int64_t>(Turn::kReturn));
  EachNumber(&finder.state_, [&reader](auto* number) { reader.Read(number); });
  for (KneeWindow* window : {&finder.now_, &finder.base_, &finder.probe_, &finder.known_}) {
    reader.Read(window);
  }
  if (!reader.ok() || finder.state_.limit < 1 || finder.state_.base < 1) return std::nullopt;
  finder.why_ = std::string(reader.rest());
  finder.set_most(most);
  return finder;
}

}  // namespace headrace::quota
