// Which proxy, if any, the environment asks for.
#ifndef HEADRACE_WORKER_HTTP_PROXY_H_
#define HEADRACE_WORKER_HTTP_PROXY_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "worker/http/url.h"

namespace headrace::http {

// Reads one variable; nullptr when unset. std::getenv outside tests.
using GetEnv = absl::FunctionRef<const char*(const char* name)>;

// The proxy URL for `url`, empty for none. By curl's rules: https_proxy or HTTPS_PROXY for https,
// http_proxy for http (HTTP_PROXY is ignored: a CGI server sets it from a request's "Proxy"
// header), then all_proxy or ALL_PROXY; none of them when no_proxy or NO_PROXY names the host.
std::string ProxyFor(const Url& url, GetEnv get_env);

// True when `host` is one of `no_proxy`: a list, by commas or spaces, of host names (each with its
// subdomains, a leading dot makes no difference), addresses, networks such as 10.0.0.0/8, or "*"
// alone. An entry may carry a port, which then must be `port`.
bool MatchesNoProxy(absl::string_view no_proxy, absl::string_view host, uint16_t port);

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_PROXY_H_
