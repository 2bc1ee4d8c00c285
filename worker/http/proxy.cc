#include "worker/http/proxy.h"

#include <arpa/inet.h>

#include <cstring>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace headrace::http {
namespace {

// An address as bytes, 4 or 16 of them.
std::optional<std::string> AddressBytes(absl::string_view text) {
  const std::string address(text);
  char bytes[16];
  if (inet_pton(AF_INET, address.c_str(), bytes) == 1) return std::string(bytes, 4);
  if (inet_pton(AF_INET6, address.c_str(), bytes) == 1) return std::string(bytes, 16);
  return std::nullopt;
}

bool SameNetwork(absl::string_view a, absl::string_view b, int bits) {
  if (a.size() != b.size() || bits < 0 || bits > static_cast<int>(a.size()) * 8) return false;
  const size_t whole = static_cast<size_t>(bits) / 8;
  if (a.substr(0, whole) != b.substr(0, whole)) return false;
  const int rest = bits % 8;
  if (rest == 0) return true;
  const int mask = (0xff << (8 - rest)) & 0xff;
  return (a[whole] & mask) == (b[whole] & mask);
}

bool MatchesAddress(absl::string_view entry, absl::string_view address) {
  int bits = static_cast<int>(address.size()) * 8;
  const size_t slash = entry.find('/');
  if (slash != absl::string_view::npos) {
    if (!absl::SimpleAtoi(entry.substr(slash + 1), &bits)) return false;
    entry = entry.substr(0, slash);
  }
  const std::optional<std::string> network = AddressBytes(entry);
  return network.has_value() && SameNetwork(*network, address, bits);
}

// Takes a port off the end of `entry`; false when it has one and that is not `port`.
bool TakePort(absl::string_view* entry, uint16_t port) {
  const size_t colon = entry->rfind(':');
  if (colon == absl::string_view::npos) return true;
  const bool bracketed = absl::StartsWith(*entry, "[");
  // A bare IPv6 address has several colons and no port.
  if (!bracketed && entry->find(':') != colon) return true;
  if (bracketed && colon < entry->find(']')) return true;
  int given = 0;
  if (!absl::SimpleAtoi(entry->substr(colon + 1), &given) || given != port) return false;
  *entry = entry->substr(0, colon);
  return true;
}

bool MatchesEntry(absl::string_view entry, absl::string_view host, uint16_t port,
                  const std::optional<std::string>& address) {
  if (!TakePort(&entry, port)) return false;
  if (absl::StartsWith(entry, "[") && absl::EndsWith(entry, "]")) {
    entry = entry.substr(1, entry.size() - 2);
  }
  if (address.has_value()) return MatchesAddress(entry, *address);
  if (absl::StartsWith(entry, ".")) entry.remove_prefix(1);
  if (absl::EndsWith(entry, ".")) entry.remove_suffix(1);
  if (entry.empty() || !absl::EndsWithIgnoreCase(host, entry)) return false;
  // "example.com" names www.example.com but not nonexample.com.
  return host.size() == entry.size() || host[host.size() - entry.size() - 1] == '.';
}

absl::string_view Read(GetEnv get_env, const char* name) {
  const char* value = get_env(name);
  return value == nullptr ? absl::string_view() : absl::StripAsciiWhitespace(value);
}

absl::string_view FirstOf(GetEnv get_env, const char* name, const char* other_name) {
  const absl::string_view value = Read(get_env, name);
  return value.empty() ? Read(get_env, other_name) : value;
}

}  // namespace

bool MatchesNoProxy(absl::string_view no_proxy, absl::string_view host, uint16_t port) {
  no_proxy = absl::StripAsciiWhitespace(no_proxy);
  if (no_proxy == "*") return true;
  if (absl::EndsWith(host, ".")) host.remove_suffix(1);
  const std::optional<std::string> address = AddressBytes(host);
  for (absl::string_view entry :
       absl::StrSplit(no_proxy, absl::ByAnyChar(", \t"), absl::SkipEmpty())) {
    if (MatchesEntry(entry, host, port, address)) return true;
  }
  return false;
}

std::string ProxyFor(const Url& url, GetEnv get_env) {
  absl::string_view proxy =
      url.tls ? FirstOf(get_env, "https_proxy", "HTTPS_PROXY") : Read(get_env, "http_proxy");
  if (proxy.empty()) proxy = FirstOf(get_env, "all_proxy", "ALL_PROXY");
  if (proxy.empty()) return "";
  if (MatchesNoProxy(FirstOf(get_env, "no_proxy", "NO_PROXY"), url.host, url.port)) return "";
  return std::string(proxy);
}

}  // namespace headrace::http
