// The bearer token that operators and workers show to a coordinator.
#ifndef HEADRACE_COMMON_RPC_TOKEN_H_
#define HEADRACE_COMMON_RPC_TOKEN_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "common/base/secret.h"
#include "common/base/time.h"

namespace headrace::rpc {

// Where the token is. At most one of the two.
struct TokenSource {
  std::string env;   // name of an environment variable
  std::string file;  // path

  bool empty() const { return env.empty() && file.empty(); }
};

// The token without white space around it; an empty one when `source` names none. Unauthenticated,
// with the variable or the file in words and never its content: when it is missing, empty, longer
// than 4096 bytes, or holds anything but visible ASCII, which no header can carry.
absl::StatusOr<Secret> ReadToken(const TokenSource& source);

// Chosen, not measured: as of certificates, and long enough for everybody to get the new one.
struct TokenTimes {
  absl::Duration reload = absl::Seconds(10);
  absl::Duration overlap = absl::Minutes(10);
};

// A token that follows its file, so that it can be replaced without a restart. The file is read
// again at a use, `reload` after it was last read. When it holds another token, that one is shown
// from then on, and the one before it is still taken for `overlap`. A file that is gone or holds no
// token changes nothing and is warned of: a coordinator never opens its doors for that.
// Thread-safe. Reading a small file may block for a moment.
class LiveToken {
 public:
  // This one for ever; an empty one is none.
  explicit LiveToken(Secret token) : token_(std::move(token)) {}
  // Errors as of ReadToken(). An environment variable is read once.
  static absl::StatusOr<std::shared_ptr<LiveToken>> Read(TokenSource source, TokenTimes times = {});

  // Never changes.
  bool empty() const { return empty_; }
  // What a client shows.
  Secret Get();
  // Whether a server lets in who shows `token`; not for an empty one. Another token than the one
  // that is known has the file read again, at most once a second.
  bool Accepts(absl::string_view token);

 private:
  LiveToken(Secret token, TokenSource source, TokenTimes times);
  void ReloadAfter(absl::Duration age) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsKnown(absl::string_view token) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Mutex mutex_;
  Secret token_ ABSL_GUARDED_BY(mutex_);
  Secret before_ ABSL_GUARDED_BY(mutex_);  // the token before it, or empty
  MonoTime before_until_ ABSL_GUARDED_BY(mutex_);
  MonoTime read_ ABSL_GUARDED_BY(mutex_);
  std::string told_ ABSL_GUARDED_BY(mutex_);  // of a file that cannot be used
  const bool empty_ = token_.empty();
  const TokenSource source_;
  const TokenTimes times_;
};

// Compares in a time that depends on neither content; for secrets.
bool SameSecret(absl::string_view a, absl::string_view b);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_TOKEN_H_
