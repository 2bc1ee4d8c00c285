// Up to kTransfers transfers on one multi handle, driven by the reactor's epoll.
//
// The cost of one libcurl transfer grows with its neighbours in the multi handle (2,000 in one cost
// 133 us of CPU each where 250 cost 97, on 7.88.1: distributed.md section 3.3), so an engine has
// many of these.
#ifndef HEADRACE_WORKER_HTTP_CURL_SHARD_H_
#define HEADRACE_WORKER_HTTP_CURL_SHARD_H_

#include <curl/curl.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/base/time.h"

namespace headrace::http {

class CurlTransfer;

class CurlShard {
 public:
  static constexpr size_t kTransfers = 256;

  // Idle connections are closed once the shard had no transfer for `idle_timeout`.
  CurlShard(Reactor* reactor, absl::Duration idle_timeout);
  // Has no transfers any more. Closes its connections.
  ~CurlShard();
  CurlShard(const CurlShard&) = delete;
  CurlShard& operator=(const CurlShard&) = delete;

  size_t size() const { return size_; }
  bool full() const { return size_ >= kTransfers; }

  // Starts `transfer` on a handle of this shard; it ends by itself, by Abort(), or with the shard's
  // failure. `addresses`: an entry for CURLOPT_RESOLVE, may be empty.
  void Start(CurlTransfer* transfer, absl::Duration connect_used, const std::string& addresses);

  // Takes `transfer`, whose result is decided, from libcurl: at once, or, when called from inside a
  // callback of libcurl, as soon as that has returned. A response under way closes its connection.
  void Abort(CurlTransfer* transfer);

  int64_t aborted() const { return aborted_; }

 private:
  struct Socket;

  static int OnSocket(CURL* easy, curl_socket_t fd, int what, void* shard, void* socket);
  static int OnTimeout(CURLM* multi, long timeout_ms, void* shard);
  static void OnTimer(void* shard);

  void Open();
  void Close();
  // Closes everything and begins again, for idleness or after an error of libcurl.
  void Reopen();
  int UpdateSocket(curl_socket_t fd, int what, Socket* socket);
  void Act(curl_socket_t fd, int events);
  void TakeMessages();
  void ReleaseDoomed();
  void Release(CurlTransfer* transfer);
  void FailAll(CURLMcode code);
  void ArmTimer();

  Reactor* const reactor_;
  const absl::Duration idle_timeout_;
  CURLM* multi_ = nullptr;
  bool in_curl_ = false;  // inside a call of libcurl that may call back
  bool used_ = false;     // has had a transfer since Open(), so it may have connections
  size_t size_ = 0;
  int64_t aborted_ = 0;
  List<CurlTransfer> transfers_;
  std::vector<CurlTransfer*> doomed_;
  std::vector<CURL*> spare_;  // reset handles, at most kTransfers
  absl::flat_hash_set<Socket*> sockets_;

  Timer timer_;
  MonoTime curl_deadline_ = MonoTime::Max();
  MonoTime idle_since_;
  MonoTime resolve_again_;  // when libcurl's copy of the addresses is to be renewed
  std::string known_addresses_;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_CURL_SHARD_H_
