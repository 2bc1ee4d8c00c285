// Data-set and result URLs: whole files in, whole files out, on libcurl's easy interface.
//
// These block. Call them from a thread of their own, never from a reactor's.
#ifndef HEADRACE_WORKER_HTTP_FETCH_H_
#define HEADRACE_WORKER_HTTP_FETCH_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/secret.h"

namespace headrace::http {

struct FetchOptions {
  std::string ca_file;                    // PEM bundle; empty: the system's
  int64_t max_bytes = int64_t{64} << 30;  // a larger file is refused
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration silence_timeout = absl::Seconds(60);  // whole seconds; no byte for this long
  absl::Duration total_timeout = absl::Hours(6);       // all attempts together
  int attempts = 5;                                    // in all without a further MiB between them
  absl::Duration first_delay = absl::Milliseconds(500);  // between attempts, doubled each time
  bool use_environment_proxies = true;
  // Goes as "Authorization: Bearer" to the URL's own scheme, host and port, not where a redirect
  // leads. Empty: none.
  Secret bearer;
  // Once it is true, the transfer ends within about a second, with Cancelled. Outlives the call.
  const std::atomic<bool>* stopped = nullptr;
};

// What the server said of a file that arrived.
struct FetchedFile {
  int64_t bytes = 0;
  std::string etag;           // as sent; empty when it named none
  std::string last_modified;  // the same
};

// Writes what `url` (http or https; at most 5 redirects, never from https to http) serves to
// `path`. The bytes grow in `path` + ".part", which is renamed when it is whole and removed on
// failure, so `path` is never half a file. A dropped connection is taken up again with a Range
// request when the server names a strong ETag or a date to check against, else from the beginning.
//
// InvalidArgument: a bad URL or ca_file. NotFound: 404 or 410. PermissionDenied: 401 or 403.
// ResourceExhausted: larger than max_bytes. DeadlineExceeded: total_timeout. Unavailable: the
// attempts are used up; the message says what broke last. Cancelled: options.stopped.
// FailedPrecondition: another status. Messages show the URL without its query, which may hold a
// signature. *fetched, unless null, is set on success.
absl::Status FetchToFile(const std::string& url, const std::string& path,
                         const FetchOptions& options = {}, FetchedFile* fetched = nullptr);

// PUTs the file at `path` to `url`. Repeated after a failure of the transport or a 5xx, 408 or 429:
// a PUT may be repeated (RFC 9110 section 9.2.2). Errors as above; NotFound also when the file does
// not exist.
absl::Status PutFile(const std::string& url, const std::string& path,
                     const FetchOptions& options = {});

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_FETCH_H_
