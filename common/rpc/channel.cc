#include "common/rpc/channel.h"

#include <grpc/support/log.h>
#include <grpcpp/create_channel.h>
#include <sys/resource.h>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"

namespace headrace::rpc {
namespace {

int Milliseconds(absl::Duration duration) {
  return static_cast<int>(absl::ToInt64Milliseconds(duration));
}

}  // namespace

grpc::ChannelArguments ClientArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  arguments.SetMaxSendMessageSize(kMaxMessageBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepaliveTime));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  // The session has a retry of its own, and everything else is asked again by a person.
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 250);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, Milliseconds(kMaxReconnectDelay));
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, Milliseconds(kMaxReconnectDelay));
  // A coordinator that comes back in another pod has another address.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, Milliseconds(kMaxReconnectDelay));
  // https_proxy is for the provider; the coordinator is ours.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return arguments;
}

std::shared_ptr<grpc::Channel> MakeChannel(
    const Address& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  return grpc::CreateCustomChannel(absl::StrCat("dns:///", address.ToString()), credentials,
                                   ClientArguments());
}

void SetServerArguments(grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder->SetMaxSendMessageSize(kMaxMessageBytes);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kKeepaliveTime));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, Milliseconds(kKeepaliveTimeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                              Milliseconds(kMinPingInterval));
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
}

void QuietGrpcLog() {
  gpr_set_log_function(
      [](gpr_log_func_args* line) { HR_LOG(kDebug) << "grpc: " << line->message; });
}

int64_t RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  if (files.rlim_cur < files.rlim_max) {
    const rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) files.rlim_cur = before;
  }
  return static_cast<int64_t>(files.rlim_cur);
}

}  // namespace headrace::rpc
