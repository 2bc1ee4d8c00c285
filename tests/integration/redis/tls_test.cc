// rediss:// against a real server with TLS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/redis/client.h"
#include "tests/integration/redis/redis_server.h"
#include "tests/support/test_certificate.h"

namespace headrace::redis {
namespace {

using ::testing::HasSubstr;

struct TlsServer {
  TestCertificate certificate;
  int tls_port = FreePort();
  RedisServer server{{"--tls-port", absl::StrCat(tls_port), "--tls-cert-file",
                      certificate.cert_file(), "--tls-key-file", certificate.key_file(),
                      "--tls-ca-cert-file", certificate.cert_file(), "--tls-auth-clients", "yes",
                      "--requirepass", "pw"}};

  std::string url(const std::string& host, const std::string& query) const {
    return absl::StrCat("rediss://:pw@", host, ":", tls_port, query);
  }
  std::string all_files() const {
    return absl::StrCat("?ca_file=", certificate.cert_file(),
                        "&cert_file=", certificate.cert_file(),
                        "&key_file=", certificate.key_file());
  }
};

class RedisTls : public RedisTest {};

Task<void> Speak(Reactor* reactor, const TlsServer* s) {
  for (const char* host : {"localhost", "127.0.0.1"}) {
    auto client = StartClient(reactor, s->url(host, s->all_files()));
    const std::string big(300'000, 'x');
    const Outcome set = co_await client->Run({"SET", "k", big}, Within(reactor, kSoon));
    EXPECT_TRUE(set.ok()) << set.text;
    const Outcome get = co_await client->Run({"GET", "k"}, Within(reactor, kSoon));
    EXPECT_EQ(get.reply.text, big);
    auto hints = client->Subscribe({"gate"});
    std::optional<Hint> hint = co_await Subscription::Next(hints, StopToken());
    EXPECT_TRUE(hint->missed);
    co_await client->Run({"PUBLISH", "gate", "open"}, Within(reactor, kSoon));
    hint = co_await Subscription::Next(hints, StopToken());
    EXPECT_EQ(hint->payload, "open");
    co_await client->Stop();
  }
}

TEST_F(RedisTls, CommandsAndSubscriptionsOverTls) {
  TlsServer server;
  const TlsServer* argument = &server;
  RunOnReactor(&Speak, argument);
}

Task<void> Refuse(Reactor* reactor, const TlsServer* s) {
  // Not signed by anybody the system trusts.
  auto client = StartClient(reactor, s->url("localhost", ""));
  Outcome outcome = co_await client->Run({"PING"}, Within(reactor, absl::Milliseconds(1500)));
  EXPECT_EQ(outcome.error, Error::kUnreachable);
  EXPECT_THAT(outcome.text, HasSubstr("certificate"));
  co_await client->Stop();
  // The server wants to know who we are.
  client = StartClient(reactor,
                       s->url("localhost", absl::StrCat("?ca_file=", s->certificate.cert_file())));
  outcome = co_await client->Run({"PING"}, Within(reactor, absl::Milliseconds(1500)));
  EXPECT_EQ(outcome.error, Error::kUnreachable);
  EXPECT_THAT(outcome.text, HasSubstr("certificate"));
  co_await client->Stop();
  // TLS to the plain port: no hang, whatever the server makes of the bytes.
  ClientOptions options;
  options.connect_timeout = absl::Milliseconds(200);
  client = StartClient(
      reactor, absl::StrCat("rediss://:pw@127.0.0.1:", s->server.port(), s->all_files()), options);
  outcome = co_await client->Run({"PING"}, Within(reactor, absl::Milliseconds(1000)));
  EXPECT_EQ(outcome.error, Error::kUnreachable);
  co_await client->Stop();

  absl::StatusOr<Url> url = ParseUrl("rediss://host?ca_file=/nowhere.pem");
  EXPECT_EQ(Client::Make(reactor, *url, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(RedisTls, CertificatesThatDoNotFitAreRefused) {
  TlsServer server;
  const TlsServer* argument = &server;
  RunOnReactor(&Refuse, argument);
}

}  // namespace
}  // namespace headrace::redis
