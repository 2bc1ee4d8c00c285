// What a Redis pool needs of Redis: scripts in, outcomes out. Tests replace it.
#ifndef HEADRACE_COMMON_QUOTA_POOL_SERVER_H_
#define HEADRACE_COMMON_QUOTA_POOL_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/async/task.h"
#include "common/redis/client.h"

namespace headrace::quota {

class PoolServer {
 public:
  virtual ~PoolServer() = default;

  virtual Task<redis::Outcome> Eval(const redis::Script* script, std::vector<std::string> keys,
                                    std::vector<std::string> args, redis::CallOptions options) = 0;
  // Changes whenever the connection may lead to another server than before.
  virtual int64_t connects() const = 0;
  // Where it is, for people.
  virtual std::string place() const = 0;
  // Messages of `channels`; nullptr where there are none.
  virtual std::shared_ptr<redis::Subscription> Subscribe(std::vector<std::string> channels) = 0;
  // Ends it all. The last call.
  virtual Task<void> Stop() = 0;
};

// One client, which it owns and has started.
class ClientPoolServer final : public PoolServer {
 public:
  explicit ClientPoolServer(std::unique_ptr<redis::Client> client) : client_(std::move(client)) {
    client_->Start();
  }

  Task<redis::Outcome> Eval(const redis::Script* script, std::vector<std::string> keys,
                            std::vector<std::string> args, redis::CallOptions options) override {
    return client_->Eval(script, std::move(keys), std::move(args), options);
  }
  int64_t connects() const override { return client_->health().connects; }
  std::string place() const override {
    const std::string place = client_->health().place;
    return place.empty() ? client_->url() : place;
  }
  std::shared_ptr<redis::Subscription> Subscribe(std::vector<std::string> channels) override {
    return client_->Subscribe(std::move(channels));
  }
  Task<void> Stop() override { return client_->Stop(); }

  redis::Client* client() const { return client_.get(); }

 private:
  const std::unique_ptr<redis::Client> client_;
};

}  // namespace headrace::quota

#endif  // HEADRACE_COMMON_QUOTA_POOL_SERVER_H_
