// Keeps what would break or forge an HTTP request away from the engines.
#ifndef HEADRACE_WORKER_HTTP_REQUEST_CHECK_H_
#define HEADRACE_WORKER_HTTP_REQUEST_CHECK_H_

#include "absl/status/status.h"
#include "worker/http/http.h"

namespace headrace::http {

// InvalidArgument, naming the header but never its value (it may be a key), when
//  - the method or a header name is not a token (RFC 9110 section 5.6.2),
//  - a header value holds CR, LF, NUL or another control character than a tab,
//  - a header is one that the engine sets itself (host, content-length, connection and the like),
//  - the path does not begin with '/' or holds a space, '#' or a byte that is not visible ASCII.
absl::Status CheckRequest(const Request& request);

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_REQUEST_CHECK_H_
