#include "common/quota/redis_start.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/async/epoll_reactor.h"
#include "common/base/status.h"
#include "common/redis/client.h"

namespace headrace::quota {
namespace {

// Redis may refuse the question, as managed ones do; then nothing is said.
Task<std::string> EvictionWarning(redis::Client* client, MonoTime deadline) {
  redis::CallOptions options{.deadline = deadline};
  const redis::Outcome outcome =
      co_await client->Run({"CONFIG", "GET", "maxmemory-policy"}, options);
  if (!outcome.ok() || outcome.reply.elements.size() < 2) co_return "";
  const std::string& policy = outcome.reply.elements[1].text;
  if (policy == "noeviction") co_return "";
  const redis::Outcome memory = co_await client->Run({"CONFIG", "GET", "maxmemory"}, options);
  if (!memory.ok() || memory.reply.elements.size() < 2 || memory.reply.elements[1].text == "0") {
    co_return "";
  }
  co_return absl::StrCat("its maxmemory-policy is ", policy,
                         ", which may throw away what the quota has used: set it to noeviction");
}

Task<void> Check(Reactor* reactor, redis::Client* client, absl::Duration wait, RedisStart* start) {
  client->Start();
  const MonoTime deadline = reactor->Now() + wait;
  start->status = co_await client->WaitConnected(deadline, StopToken());
  if (start->status.ok()) start->warning = co_await EvictionWarning(client, deadline);
  co_await client->Stop();
}

}  // namespace

RedisStart CheckRedis(absl::string_view url_text, absl::Duration wait) {
  RedisStart start;
  absl::StatusOr<redis::Url> url = redis::ParseUrl(url_text);
  if (!url.ok()) {
    start.status = url.status();
    return start;
  }
  if (url->holds_password()) {
    start.status = absl::InvalidArgumentError(
        "a password in the URL can be read by everybody on this machine: put it into the "
        "environment variable REDIS_PASSWORD, or name its file with ?password_file=PATH");
    return start;
  }
  const std::string place = url->ToString();
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  if (!reactor.ok()) {
    start.status = reactor.status();
    return start;
  }
  absl::StatusOr<std::unique_ptr<redis::Client>> client =
      redis::Client::Make(reactor->get(), *std::move(url), redis::ClientOptions());
  if (!client.ok()) {
    start.status = client.status();
    return start;
  }
  (*reactor)->Run(Check(reactor->get(), client->get(), wait, &start));
  if (!start.status.ok()) start.status = Annotate(start.status, absl::StrCat("Redis ", place));
  return start;
}

}  // namespace headrace::quota
