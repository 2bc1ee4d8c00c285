// The anthropic dialect: the messages API.
#ifndef HEADRACE_WORKER_PROVIDER_ANTHROPIC_H_
#define HEADRACE_WORKER_PROVIDER_ANTHROPIC_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/secret.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

// max_tokens is required by the API; used when the params have none. Chosen.
inline constexpr int kDefaultMaxTokens = 4096;

// See MakeCodec().
absl::StatusOr<std::unique_ptr<Codec>> MakeAnthropicCodec(const ModelConfig& config, Secret key);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_ANTHROPIC_H_
