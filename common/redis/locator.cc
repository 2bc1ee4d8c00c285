#include "common/redis/locator.h"

#include <utility>

#include "common/base/status.h"

namespace headrace::redis {

absl::StatusOr<Place> MakePlace(Reactor* reactor, const Url& url, const HostPort& host,
                                const std::string& unix_path) {
  net::ConnectorOptions options;
  options.host = host.host;
  options.port = host.port;
  options.unix_path = unix_path;
  options.name = unix_path.empty() ? host.ToString() : unix_path;
  options.name_cache_time = absl::ZeroDuration();
  if (url.tls) {
    options.tls = net::TlsOptions{
        .ca_file = url.ca_file, .cert_file = url.cert_file, .key_file = url.key_file};
  }
  Place place;
  place.name = options.name;
  HR_ASSIGN_OR_RETURN(place.connector, net::Connector::Make(reactor, std::move(options)));
  return place;
}

}  // namespace headrace::redis
