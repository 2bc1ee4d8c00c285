#include "common/rpc/pem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "common/rpc/credentials.h"
#include "tests/support/test_ca.h"

namespace headrace::rpc {
namespace {

using testing::HasSubstr;

std::string Text(const absl::Status& status) { return std::string(status.message()); }

TEST(Pem, FilesThatAreNoneAreNamed) {
  TestCa ca;
  const TestCa::Files server = ca.IssueServer();
  const std::string empty = ca.dir() + "/empty";
  std::ofstream(empty).close();
  EXPECT_EQ(CheckCertificates(ca.dir() + "/no").code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Text(CheckCertificates(empty)), HasSubstr("empty holds no PEM certificate"));
  EXPECT_THAT(Text(CheckCertificates(server.key)), HasSubstr("holds no PEM certificate"));
  EXPECT_THAT(Text(CheckKeyPair(server.cert, empty)), HasSubstr("holds no PEM private key"));
  EXPECT_THAT(Text(CheckKeyPair(server.cert, server.cert)), HasSubstr("holds no PEM private key"));
  EXPECT_THAT(Text(CheckKeyPair(server.cert, "")), HasSubstr("belong together"));
}

TEST(Pem, AKeyOfAnotherCertificateIsRefused) {
  TestCa ca;
  const TestCa::Files a = ca.IssueServer("a");
  const TestCa::Files b = ca.IssueServer("b");
  EXPECT_TRUE(CheckKeyPair(a.cert, a.key).ok());
  EXPECT_THAT(Text(CheckKeyPair(a.cert, b.key)), HasSubstr("is not that of the certificate in"));
}

TEST(Pem, ACertificateIsCalledByItsAlternativeNameAndElseByItsCommonName) {
  TestCa ca;
  EXPECT_EQ(*NameInCertificate(ca.Issue("cn", "IP:127.0.0.1,DNS:w1,DNS:w2").cert), "w1");
  EXPECT_EQ(*NameInCertificate(ca.Issue("cn", "URI:spiffe://here/w3").cert), "spiffe://here/w3");
  EXPECT_EQ(*NameInCertificate(ca.Issue("cn", "").cert), "cn");
  EXPECT_EQ(NameInCertificate(ca.Issue("cn", "IP:127.0.0.1").cert).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(Credentials, HalfOfWhatTlsNeedsIsRefused) {
  TestCa ca;
  const TestCa::Files files = ca.IssueServer();
  ServerTls server;
  server.client_ca_file = ca.ca_file();
  EXPECT_EQ(MakeServerCredentials(server).status().code(), absl::StatusCode::kInvalidArgument);
  server = ServerTls();
  server.cert_file = files.cert;
  EXPECT_EQ(MakeServerCredentials(server).status().code(), absl::StatusCode::kInvalidArgument);
  ClientTls client;
  client.ca_file = ca.ca_file();
  EXPECT_EQ(MakeClientCredentials(client).status().code(), absl::StatusCode::kInvalidArgument);
  client = ClientTls();
  client.enabled = true;
  client.cert_file = files.cert;
  EXPECT_EQ(MakeClientCredentials(client).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(PeerName, ACertificateOfAnotherWorkerIsRefusedWithBothNames) {
  Peer peer;
  EXPECT_TRUE(CheckWorkerName(peer, "w1").ok()) << "nothing is known of a peer without mTLS";
  peer.verified = true;
  peer.names = {"w1", "w1.pool"};
  EXPECT_TRUE(CheckWorkerName(peer, "w1").ok());
  EXPECT_TRUE(CheckWorkerName(peer, "w1.pool").ok());
  const absl::Status refused = CheckWorkerName(peer, "w2");
  EXPECT_EQ(refused.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(refused), HasSubstr("calls itself w2 has shown a certificate for w1, w1.pool"));
  peer.names.clear();
  EXPECT_EQ(CheckWorkerName(peer, "").code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace headrace::rpc
