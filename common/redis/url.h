// Where a Redis is, and who we are to it, as people write it:
//
//   redis://[user:password@]host[:6379][/db]              one server
//   unix:///path/redis.sock[?db=N]                        one server on this machine; redis+unix
//   too redis+sentinel://host1[:26379],host2/master-name[/db] a master that Sentinels name
//   redis+cluster://host1[:6379],host2                    a cluster, found through any of its nodes
//   rediss, rediss+sentinel, rediss+cluster               the same over TLS
//
// Parameters: db; user; password_env (name of an environment variable) or password_file;
// sentinel_user, sentinel_password_env, sentinel_password_file; ca_file, cert_file, key_file.
// Without any password the environment variable REDIS_PASSWORD counts when it is set. Special
// characters of names, passwords and paths are percent-encoded.
#ifndef HEADRACE_COMMON_REDIS_URL_H_
#define HEADRACE_COMMON_REDIS_URL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/secret.h"

namespace headrace::redis {

struct HostPort {
  std::string host;  // IPv6 without brackets
  uint16_t port = 0;

  std::string ToString() const;  // "host:port", IPv6 in brackets
  friend auto operator<=>(const HostPort&, const HostPort&) = default;
};

// One place at most is set.
struct SecretSource {
  Secret text;       // written in the URL itself
  std::string env;   // name of an environment variable
  std::string file;  // path; its last line end does not count

  bool empty() const { return text.empty() && env.empty() && file.empty(); }
};

struct Url {
  enum class Mode { kSingle, kSentinel, kCluster };

  Mode mode = Mode::kSingle;
  bool tls = false;
  std::vector<HostPort> hosts;  // one server, the Sentinels, or nodes of the cluster
  std::string unix_path;        // kSingle, instead of hosts
  std::string master;           // kSentinel
  int db = 0;
  std::string user;  // empty: the default user
  SecretSource password;
  std::string sentinel_user;
  SecretSource sentinel_password;
  std::string ca_file;  // with tls; empty: the system's certificates
  std::string cert_file;
  std::string key_file;

  // Whether the text held a password, which then is in a job file or in argv.
  bool holds_password() const { return !password.text.empty(); }
  // The URL with *** for a password; parsed again it gives the same, but for that.
  std::string ToString() const;
};

// InvalidArgument with what is wrong; the message never repeats what may be a password.
absl::StatusOr<Url> ParseUrl(absl::string_view text);

// The password behind `source`; of an empty source, what the environment variable `default_env`
// holds, if anything. NotFound when the variable or the file does not exist,
// InvalidArgument when it is empty or not one line. Reads a small file: call it while starting.
absl::StatusOr<Secret> ReadSecret(const SecretSource& source, const char* default_env);

}  // namespace headrace::redis

#endif  // HEADRACE_COMMON_REDIS_URL_H_
