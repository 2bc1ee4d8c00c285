// ADDR:PORT as people write it.
#ifndef HEADRACE_COMMON_RPC_ADDRESS_H_
#define HEADRACE_COMMON_RPC_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace headrace::rpc {

struct Address {
  std::string host;  // a name or an IP address, without brackets
  int port = 0;

  // "host:port", with brackets around an IPv6 address.
  std::string ToString() const;
  // True for localhost, 127.0.0.0/8 and ::1: what only this machine can reach.
  bool IsLoopback() const;
};

// "127.0.0.1:7070", "coordinator.svc:7070", "[::1]:0". InvalidArgument without a host or a port, on
// an IPv6 address without brackets, on a scheme, and on ports past 65535.
absl::StatusOr<Address> ParseAddress(absl::string_view text);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_ADDRESS_H_
