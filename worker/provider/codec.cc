#include "worker/provider/codec.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/provider/anthropic.h"
#include "worker/provider/endpoint.h"
#include "worker/provider/openai.h"

namespace headrace::provider {

absl::StatusOr<std::unique_ptr<Codec>> MakeCodec(ModelConfig config, Secret key) {
  if (config.name.empty()) return absl::InvalidArgumentError("name: the model has none");
  absl::StatusOr<Secret> clean = CleanKey(key);
  if (!clean.ok()) return clean.status();
  if (config.provider == "openai") return MakeOpenAiCodec(config, *std::move(clean));
  if (config.provider == "anthropic") return MakeAnthropicCodec(config, *std::move(clean));
  return absl::InvalidArgumentError(
      absl::StrCat("provider: \"", config.provider, "\" is neither \"openai\" nor \"anthropic\""));
}

}  // namespace headrace::provider
