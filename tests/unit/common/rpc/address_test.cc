#include "common/rpc/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/rpc/channel.h"
#include "common/rpc/credentials.h"

namespace headrace::rpc {
namespace {

using testing::HasSubstr;

std::string Error(absl::string_view text) {
  const absl::StatusOr<Address> address = ParseAddress(text);
  EXPECT_EQ(address.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(address.status().message());
}

TEST(Address, WhatIsNoAddressIsRefusedWithTheReason) {
  EXPECT_THAT(Error("localhost"), HasSubstr("it has no port"));
  EXPECT_THAT(Error(":7070"), HasSubstr("it has no host"));
  EXPECT_THAT(Error("localhost:"), HasSubstr("its port is not one of 0 to 65535"));
  EXPECT_THAT(Error("localhost:65536"), HasSubstr("its port is not one of 0 to 65535"));
  EXPECT_THAT(Error("localhost:-1"), HasSubstr("its port is not one of 0 to 65535"));
  EXPECT_THAT(Error("localhost: 80"), HasSubstr("its port is not one of 0 to 65535"));
  EXPECT_THAT(Error("http://localhost:80"), HasSubstr("it has a scheme"));
  EXPECT_THAT(Error("::1:80"), HasSubstr("write an IPv6 address in brackets"));
  EXPECT_THAT(Error("[localhost]:80"), HasSubstr("no IPv6 address"));
  EXPECT_THAT(Error("a b:80"), HasSubstr("its host is no name"));
  EXPECT_THAT(Error("a/b:80"), HasSubstr("its host is no name"));
  EXPECT_THAT(Error(std::string(254, 'a') + ":80"), HasSubstr("its host is too long"));
}

TEST(Address, ReadsNamesAndBothKindsOfIpAddresses) {
  for (const char* text : {"localhost:0", "127.0.0.1:7070", "[::1]:65535", "a-b.svc.local:1"}) {
    const absl::StatusOr<Address> address = ParseAddress(text);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(address->ToString(), text);
  }
}

TEST(Address, OnlyWhatThisMachineAloneReachesIsLoopback) {
  for (const char* text : {"localhost:1", "LOCALHOST:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(ParseAddress(text)->IsLoopback()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "localhost.example.org:1",
                           "127.0.0.1.example.org:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(ParseAddress(text)->IsLoopback()) << text;
  }
}

TEST(Exposure, ListeningBeyondLoopbackNeedsTlsOrThatWord) {
  const Address open = *ParseAddress("0.0.0.0:7070");
  const absl::Status refused = CheckExposure(open, ServerTls{}, false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("refusing to listen at 0.0.0.0:7070 without TLS"));
  EXPECT_THAT(refused.message(), HasSubstr("--insecure"));
  EXPECT_TRUE(CheckExposure(open, ServerTls{}, /*insecure=*/true).ok());
  ServerTls tls;
  tls.cert_file = "cert.pem";
  EXPECT_TRUE(CheckExposure(open, tls, false).ok());
  EXPECT_TRUE(CheckExposure(*ParseAddress("127.0.0.1:0"), ServerTls{}, false).ok());
}

TEST(Exposure, ATokenGoesInPlaintextOverLoopbackOnly) {
  const Address far = *ParseAddress("coordinator:7070");
  const absl::Status refused = CheckTokenExposure(far, ClientTls{}, /*has_token=*/true, false);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("refusing to send the token to coordinator:7070"));
  EXPECT_TRUE(CheckTokenExposure(far, ClientTls{}, /*has_token=*/false, false).ok());
  EXPECT_TRUE(CheckTokenExposure(far, ClientTls{}, true, /*insecure=*/true).ok());
  ClientTls tls;
  tls.enabled = true;
  EXPECT_TRUE(CheckTokenExposure(far, tls, true, false).ok());
  EXPECT_TRUE(CheckTokenExposure(*ParseAddress("[::1]:1"), ClientTls{}, true, false).ok());
}

TEST(Keepalive, ClientsPingNoFasterThanTheServerAllows) {
  EXPECT_GE(kKeepaliveTime, kMinPingInterval);
}

}  // namespace
}  // namespace headrace::rpc
