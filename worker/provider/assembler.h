// Puts the events of a streamed answer together into the body that a call without streaming would
// have returned.
#ifndef HEADRACE_WORKER_PROVIDER_ASSEMBLER_H_
#define HEADRACE_WORKER_PROVIDER_ASSEMBLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"
#include "worker/provider/provider_error.h"
#include "worker/provider/sse.h"

namespace headrace::provider {

// Members of an object in their order, raw keys and values: at most kMaxMembers, since they are
// searched from the front. Answers have some tens.
using RawMembers = std::vector<std::pair<std::string, std::string>>;
inline constexpr size_t kMaxMembers = 512;  // chosen, not measured

// Base of the assemblers: what every dialect's stream has in common. Text is kept as the escaped
// JSON that came, and only joined: nothing is decoded, so a surrogate pair that two deltas share is
// whole again in the result.
class StreamAssembler {
 public:
  virtual ~StreamAssembler() = default;

  // Empty data, "" and [DONE] are the same everywhere; other data goes to OnJson. An event that is
  // an error, or that is no JSON, ends the stream: kAbort.
  http::BodyVerdict OnEvent(const SseEvent& event);

  // The stream said that it is whole: [DONE], message_stop, response.completed; or every choice has
  // its finish reason.
  bool complete() const { return done_ || Finished(); }
  // ... by the dialect's last event, not by finish reasons alone.
  bool done() const { return done_; }
  const std::optional<ProviderError>& error() const { return error_; }
  // The beginning of the event that said so.
  const std::string& error_event() const { return error_event_; }
  // Why the stream is unusable; empty when it is not.
  const std::string& corrupt() const { return corrupt_; }
  // Some output, perhaps billed, has arrived.
  bool has_output() const { return has_output_; }
  int64_t pings() const { return pings_; }
  std::vector<std::string>& flags() { return flags_; }

  // The answer so far, one JSON value on one line; empty when nothing came.
  virtual std::string Body() const = 0;

 protected:
  enum class Outcome { kProgress, kKeepAlive, kComplete, kError, kBadJson };

  virtual Outcome OnJson(absl::string_view data) = 0;
  virtual bool Finished() const = 0;

  void AddFlag(absl::string_view flag);
  // SetMember, with a flag for what had no room.
  void Keep(absl::string_view key, absl::string_view raw, RawMembers* members);
  void FlagDroppedMember() { AddFlag("members_dropped"); }
  void set_done() { done_ = true; }
  void set_has_output() { has_output_ = true; }

 private:
  http::BodyVerdict OnBadJson(const SseEvent& event);

  bool done_ = false;
  bool has_output_ = false;
  int64_t pings_ = 0;
  std::string corrupt_;
  std::optional<ProviderError> error_;
  std::string error_event_;
  std::vector<std::string> flags_;
};

// `choices`: how many the request asked for.
std::unique_ptr<StreamAssembler> MakeAssembler(Api api, int64_t choices);

// Sets `key`, or adds it. False where it would be one too many: then nothing changes.
bool SetMember(absl::string_view key, absl::string_view raw, RawMembers* members);
const std::string* FindMember(const RawMembers& members, absl::string_view key);
// Appends `,"key":raw` for all, without the first comma when `first`.
void AppendMembers(const RawMembers& members, bool first, std::string* out);
// Appends the elements of a raw array to a list of elements, which has no brackets.
void AppendElements(absl::string_view raw_array, std::string* elements);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_ASSEMBLER_H_
