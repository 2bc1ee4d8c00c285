// The settings of both ends of a gRPC connection, in one place because they must fit each other.
//
// Keepalive pings free the sockets of peers that vanished without a word; a worker's lease says
// whether it lives. A server answers pings that come faster than it allows with the end of the
// connection ("too_many_pings"), in quiet times only, so both numbers are set.
#ifndef HEADRACE_COMMON_RPC_CHANNEL_H_
#define HEADRACE_COMMON_RPC_CHANNEL_H_

#include <grpcpp/channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/channel_arguments.h>

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "common/rpc/address.h"
#include "common/rpc/limits.h"

namespace headrace::rpc {

inline constexpr absl::Duration kKeepaliveTime = absl::Seconds(20);
inline constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(10);
// What the server lets pass between pings; half of what clients do.
inline constexpr absl::Duration kMinPingInterval = absl::Seconds(10);
// A connection attempt ends, and the next begins, after this at most (gRPC's default is 20 s and
// 120 s): a coordinator that is back is found soon.
inline constexpr absl::Duration kMaxReconnectDelay = absl::Seconds(5);

// Of a connection to a coordinator. A channel of its own never shares a connection with another.
grpc::ChannelArguments ClientArguments();

// A channel to `address`, without proxies and without gRPC's own retries. Connects when first used.
std::shared_ptr<grpc::Channel> MakeChannel(
    const Address& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials);

// Limits and keepalive of a server. A port in use is an error, not shared (SO_REUSEPORT).
void SetServerArguments(grpc::ServerBuilder* builder);

// Sends gRPC's own log lines, which go to standard error by default, to ours at debug level: what
// matters of them is in the statuses of calls.
void QuietGrpcLog();

// Raises the soft limit of open files to the hard one, and returns it: each worker is a socket.
int64_t RaiseFileLimit();

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_CHANNEL_H_
