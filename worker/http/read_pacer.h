// Batches the reads of busy connections: under load, reading several events at once costs a third
// of reading each as it comes (http.md section 0), at the price of up to one tick of delay.
//
// A connection that reads often while the engine as a whole reads more than kQuietReadsPerSecond is
// paced: it stops watching its socket for input and is read once per tick instead. It goes back to
// reading at once after kIdleTicks ticks without input.
#ifndef HEADRACE_WORKER_HTTP_READ_PACER_H_
#define HEADRACE_WORKER_HTTP_READ_PACER_H_

#include <vector>

#include "absl/time/time.h"
#include "common/async/list.h"
#include "common/async/reactor.h"
#include "common/base/time.h"

namespace headrace::http {

class ReadPacer {
 public:
  // One connection.
  class Client : public ListNode<Client> {
   public:
    // Reads what is there. True if there was anything. May call Remove().
    virtual bool OnReadTick(MonoTime now) = 0;
    // The client is paced no longer and watches its socket again.
    virtual void OnPacingEnds() = 0;

    bool paced() const { return linked(); }

   protected:
    ~Client() = default;

   private:
    friend class ReadPacer;
    MonoTime last_read_;
    int idle_ticks_ = 0;
  };

  // Reads per second, over all connections, below which nothing is batched, and at which paced
  // connections are read together. Chosen: at about 10 us per read this is 2 to 4 % of a core.
  static constexpr int kQuietReadsPerSecond = 2000;
  static constexpr int kPacedReadsPerSecond = 4000;
  static constexpr int kIdleTicks = 2;

  // `max_tick` zero: never batches.
  ReadPacer(Reactor* reactor, absl::Duration max_tick) : reactor_(reactor), max_tick_(max_tick) {}
  ~ReadPacer() { reactor_->Cancel(&timer_); }
  ReadPacer(const ReadPacer&) = delete;

  // Tells of a read that an fd event caused. True: `client` is paced from now on and must stop
  // watching for input.
  bool AfterRead(Client* client, MonoTime now);
  void Remove(Client* client);

  // The tick in force, zero when no connection is paced.
  absl::Duration tick() const;

 private:
  void OnTick();

  Reactor* const reactor_;
  const absl::Duration max_tick_;
  List<Client> paced_;
  int paced_count_ = 0;
  Timer timer_;
  MonoTime window_start_;
  int window_reads_ = 0;
  bool busy_ = false;
};

}  // namespace headrace::http

#endif  // HEADRACE_WORKER_HTTP_READ_PACER_H_
