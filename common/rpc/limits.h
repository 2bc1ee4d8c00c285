// How large the messages between processes may be.
#ifndef HEADRACE_COMMON_RPC_LIMITS_H_
#define HEADRACE_COMMON_RPC_LIMITS_H_

namespace headrace::rpc {

// Neither side takes a larger message from the network, and gRPC breaks a stream that brings one:
// so the sender checks before it sends. gRPC's default is 4 MiB, which a picture or a long answer
// passes. Chosen, not measured.
inline constexpr int kMaxMessageBytes = 16 << 20;
// Of that, for what is around the largest part of a message.
inline constexpr int kMessageOverheadBytes = 64 << 10;

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_LIMITS_H_
