// The openai dialect: chat completions for rows, and whatever of chat completions, completions,
// embeddings and responses an OpenAI Batch item names.
#ifndef HEADRACE_WORKER_PROVIDER_OPENAI_H_
#define HEADRACE_WORKER_PROVIDER_OPENAI_H_

#include <memory>

#include "absl/status/statusor.h"
#include "common/base/secret.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

// See MakeCodec().
absl::StatusOr<std::unique_ptr<Codec>> MakeOpenAiCodec(const ModelConfig& config, Secret key);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_OPENAI_H_
