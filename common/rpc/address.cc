#include "common/rpc/address.h"

#include <arpa/inet.h>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace::rpc {
namespace {

constexpr int kMaxPort = 65535;
constexpr size_t kMaxHostBytes = 253;  // of a DNS name, RFC 1035 section 2.3.4

absl::Status Bad(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no ADDR:PORT like 127.0.0.1:7070: ", why));
}

bool IsHostByte(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_';
}

}  // namespace

std::string Address::ToString() const {
  const bool v6 = absl::StrContains(host, ":");
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]" : "", ":", port);
}

bool Address::IsLoopback() const {
  if (absl::EqualsIgnoreCase(host, "localhost")) return true;
  in6_addr v6;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  in_addr v4;
  if (inet_pton(AF_INET, host.c_str(), &v4) != 1) return false;
  return ntohl(v4.s_addr) >> 24 == 127;
}

absl::StatusOr<Address> ParseAddress(absl::string_view text) {
  if (absl::StrContains(text, "://")) return Bad(text, "it has a scheme");
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return Bad(text, "it has no port");
  Address address;
  absl::string_view host = text.substr(0, colon);
  const absl::string_view port = text.substr(colon + 1);
  if (!absl::SimpleAtoi(port, &address.port) || address.port < 0 || address.port > kMaxPort ||
      !absl::ascii_isdigit(static_cast<unsigned char>(port[0]))) {
    return Bad(text, "its port is not one of 0 to 65535");
  }
  if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) {
    address.host = std::string(host.substr(1, host.size() - 2));
    in6_addr v6;
    if (inet_pton(AF_INET6, address.host.c_str(), &v6) != 1) {
      return Bad(text, "what stands in brackets is no IPv6 address");
    }
    return address;
  }
  if (host.empty()) return Bad(text, "it has no host");
  if (absl::StrContains(host, ":")) return Bad(text, "write an IPv6 address in brackets");
  if (host.size() > kMaxHostBytes) return Bad(text, "its host is too long");
  for (const char c : host) {
    if (!IsHostByte(c)) return Bad(text, "its host is no name");
  }
  address.host = std::string(host);
  return address;
}

}  // namespace headrace::rpc
