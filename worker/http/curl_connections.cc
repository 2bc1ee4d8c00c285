#include "worker/http/curl_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace headrace::http {
namespace {

// Sent data that stays unacknowledged for this long means a dead peer (http.md section 1.7).
constexpr unsigned kTcpUserTimeoutMs = 30'000;

std::string Key(absl::string_view ip, int port) { return absl::StrCat(ip, " ", port); }

// Empty when the socket was never bound, as after a failed connect.
std::string KeyOf(curl_socket_t fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return "";
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
    inet_ntop(AF_INET, &v4->sin_addr, text, sizeof(text));
    return Key(text, ntohs(v4->sin_port));
  }
  if (storage.ss_family == AF_INET6) {
    const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
    inet_ntop(AF_INET6, &v6->sin6_addr, text, sizeof(text));
    return Key(text, ntohs(v6->sin6_port));
  }
  return "";
}

}  // namespace

CurlConnections::Use CurlConnections::OnUse(absl::string_view local_ip, int local_port, bool made) {
  Use& use = by_local_address_[Key(local_ip, local_port)];
  if (made || use.id == 0) {
    ++made_;
    use = Use{.id = ++last_id_};
  }
  ++use.requests;
  return use;
}

int CurlConnections::OnSocket(void* connections, curl_socket_t fd, curlsocktype) {
  ++static_cast<CurlConnections*>(connections)->open_;
  // A system without the option still has TCP keepalive and the engine's own timers.
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kTcpUserTimeoutMs, sizeof(kTcpUserTimeoutMs));
  return CURL_SOCKOPT_OK;
}

int CurlConnections::OnClose(void* connections, curl_socket_t fd) {
  auto* self = static_cast<CurlConnections*>(connections);
  --self->open_;
  self->by_local_address_.erase(KeyOf(fd));
  return close(fd);
}

}  // namespace headrace::http
