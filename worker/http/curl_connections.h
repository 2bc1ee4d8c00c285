// Counts and names the connections that libcurl makes for one engine: it tells of sockets that it
// opens and closes, and of the local address that a call goes out from, but not of connections.
#ifndef HEADRACE_WORKER_HTTP_CURL_CONNECTIONS_H_
#define HEADRACE_WORKER_HTTP_CURL_CONNECTIONS_H_

#include <curl/curl.h>
#include <openssl/ssl.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace headrace::http {

// Must outlive every multi handle whose connections it counts.
class CurlConnections {
 public:
  struct Use {
    uint64_t id = 0;       // unique within the engine, from 1
    int64_t requests = 0;  // on this connection, this one included
    std::string address;   // the local one, which names the connection while it is open
  };

  // A call goes out on the connection from `local_ip`:`local_port`, which it has made or found.
  Use OnUse(absl::string_view local_ip, int local_port, bool made);

  // Sets *goodbye once the peer of `use` has closed its TLS session in order (close_notify), which
  // libcurl does not tell. `ssl` is the connection's. Until Unwatch() or the connection's end.
  void WatchGoodbye(const Use& use, SSL* ssl, bool* goodbye);
  void UnwatchGoodbye(const std::string& address, const bool* goodbye);

  // CURLOPT_SOCKOPTFUNCTION, with this as its data: counts the socket and sets TCP_USER_TIMEOUT.
  static int OnSocket(void* connections, curl_socket_t fd, curlsocktype purpose);
  // CURLOPT_CLOSESOCKETFUNCTION, with this as its data.
  static int OnClose(void* connections, curl_socket_t fd);

  // Open sockets, attempts to connect included.
  int64_t open() const { return open_; }
  int64_t made() const { return made_; }

 private:
  struct Connection {
    uint64_t id = 0;
    int64_t requests = 0;
    bool* goodbye = nullptr;
  };
  static int SslIndex();
  static void OnSslEvent(const SSL* ssl, int where, int value);

  int64_t open_ = 0;
  int64_t made_ = 0;
  uint64_t last_id_ = 0;
  absl::flat_hash_map<std::string, std::unique_ptr<Connection>> by_local_address_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CURL_CONNECTIONS_H_
