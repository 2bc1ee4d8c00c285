#include "worker/http/curl_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <utility>

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
  std::string address = Key(local_ip, local_port);
  std::unique_ptr<Connection>& connection = by_local_address_[address];
  if (connection == nullptr) connection = std::make_unique<Connection>();
  if (made || connection->id == 0) {
    ++made_;
    *connection = Connection{.id = ++last_id_};
  }
  ++connection->requests;
  return Use{connection->id, connection->requests, std::move(address)};
}

int CurlConnections::SslIndex() {
  static const int index = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, nullptr);
  return index;
}

void CurlConnections::OnSslEvent(const SSL* ssl, int where, int value) {
  if ((where & SSL_CB_READ_ALERT) != SSL_CB_READ_ALERT) return;
  if ((value & 0xff) != SSL_AD_CLOSE_NOTIFY) return;
  // libcurl frees the session before it closes the socket, so the connection is still there.
  auto* connection = static_cast<Connection*>(SSL_get_ex_data(ssl, SslIndex()));
  if (connection != nullptr && connection->goodbye != nullptr) *connection->goodbye = true;
}

void CurlConnections::WatchGoodbye(const Use& use, SSL* ssl, bool* goodbye) {
  const auto it = by_local_address_.find(use.address);
  if (it == by_local_address_.end()) return;
  it->second->goodbye = goodbye;
  SSL_set_ex_data(ssl, SslIndex(), it->second.get());
  SSL_set_info_callback(ssl, &CurlConnections::OnSslEvent);
}

void CurlConnections::UnwatchGoodbye(const std::string& address, const bool* goodbye) {
  const auto it = by_local_address_.find(address);
  if (it != by_local_address_.end() && it->second->goodbye == goodbye) {
    it->second->goodbye = nullptr;
  }
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
