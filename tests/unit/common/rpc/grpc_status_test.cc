#include "common/rpc/grpc_stream.h"
#include "gtest/gtest.h"

namespace headrace::rpc {
namespace {

TEST(FromGrpc, AFailureOfTlsBeginsWithWhatItMeans) {
  // As gRPC 1.51 said them.
  const grpc::Status stranger(
      grpc::StatusCode::UNAVAILABLE,
      "last error: UNKNOWN: ipv4:127.0.0.1:7071: Tls handshake failed: SSL_ERROR_SSL: "
      "error:0A000086:SSL routines::certificate verify failed");
  EXPECT_EQ(FromGrpc(stranger),
            absl::UnavailableError("its certificate is of no CA that is trusted here (" +
                                   stranger.error_message() + ")"));
  const grpc::Status other_name(
      grpc::StatusCode::UNAVAILABLE,
      "last error: UNKNOWN: ipv4:127.0.0.1:7071: Custom verification check failed with error: "
      "UNAUTHENTICATED: Hostname Verification Check failed.");
  EXPECT_EQ(FromGrpc(other_name), absl::UnavailableError("its certificate is not for this name (" +
                                                         other_name.error_message() + ")"));
}

TEST(FromGrpc, OtherWordsAndCodesStayAsTheyAre) {
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::NOT_FOUND, "no job x")),
            absl::NotFoundError("no job x"));
  EXPECT_TRUE(FromGrpc(grpc::Status::OK).ok());
}

}  // namespace
}  // namespace headrace::rpc
