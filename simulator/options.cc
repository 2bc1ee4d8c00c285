#include "simulator/options.h"

#include "absl/strings/str_cat.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "common/base/units.h"

namespace headrace::simulator {
namespace {

absl::Status Bad(absl::string_view what) { return absl::InvalidArgumentError(what); }

absl::Status CheckPorts(const SimulatorOptions& options) {
  if (options.port < -1 || options.port > 65535) return Bad("port must be in [0, 65535], or -1");
  if (options.tls_port < -1 || options.tls_port > 65535) {
    return Bad("tls-port must be in [0, 65535], or -1");
  }
  if (options.port < 0 && options.tls_port < 0) return Bad("neither port nor tls-port is set");
  if (options.cert_file.empty() != options.key_file.empty()) {
    return Bad("cert and key must be given together");
  }
  return absl::OkStatus();
}

absl::Status CheckAnswers(const SimulatorOptions& options) {
  if (options.latency < absl::ZeroDuration() || options.latency > absl::Hours(1)) {
    return Bad("latency must be in [0, 1h]");
  }
  if (!(options.latency_sigma >= 0 && options.latency_sigma <= 3)) {
    return Bad("the spread of the latency must be in [0, 3]");
  }
  if (options.chunk_interval < absl::ZeroDuration() || options.chunk_interval > absl::Hours(1)) {
    return Bad("chunk-interval must be in [0, 1h]");
  }
  if (options.tick < absl::Milliseconds(1) || options.tick > absl::Milliseconds(100)) {
    return Bad("tick must be in [1ms, 100ms]");
  }
  if (options.min_tokens < 1 || options.max_tokens < options.min_tokens ||
      options.max_tokens > 1'000'000) {
    return Bad("tokens LO:HI must have 1 <= LO <= HI <= 1000000");
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<LimitSpec> AllLimits(const SimulatorOptions& options) {
  std::vector<LimitSpec> limits;
  LimitSpec spec;
  spec.mechanics = options.mechanics;
  spec.period = options.mechanics_period;
  spec.kind = LimitKind::kRequests;
  spec.limit = options.rpm;
  if (options.rpm > 0) limits.push_back(spec);
  spec.kind = LimitKind::kTokens;
  spec.limit = options.tpm;
  if (options.tpm > 0) limits.push_back(spec);
  spec.kind = LimitKind::kInputTokens;
  spec.limit = options.input_tpm;
  if (options.input_tpm > 0) limits.push_back(spec);
  spec.kind = LimitKind::kOutputTokens;
  spec.limit = options.output_tpm;
  if (options.output_tpm > 0) limits.push_back(spec);
  if (options.in_flight > 0) {
    LimitSpec slots;
    slots.kind = LimitKind::kInFlight;
    slots.mechanics = Mechanics::kGauge;
    slots.limit = options.in_flight;
    limits.push_back(slots);
  }
  limits.insert(limits.end(), options.limits.begin(), options.limits.end());
  if (options.random_window_offset) {
    Random random(options.seed ^ 0x0ff5e7);
    for (LimitSpec& limit : limits) {
      if (limit.mechanics == Mechanics::kWindow && limit.offset == absl::ZeroDuration()) {
        limit.offset = random.Between(absl::ZeroDuration(), limit.period);
      }
    }
  }
  return limits;
}

absl::Status ParseMechanics(absl::string_view text, SimulatorOptions* options) {
  if (text == "bucket") {
    options->mechanics = Mechanics::kBucket;
  } else if (text == "sliding") {
    options->mechanics = Mechanics::kSliding;
  } else if (text == "ramp") {
    options->mechanics = Mechanics::kRamp;
  } else {
    const absl::StatusOr<absl::Duration> width = ParseDuration(text);
    if (!width.ok() || *width < absl::Milliseconds(1) || *width > absl::Hours(24)) {
      return Bad(absl::StrCat("\"", text,
                              "\" is none of bucket, sliding, ramp, or the width of a "
                              "fixed window: 60s, 10s, 1s"));
    }
    options->mechanics = Mechanics::kWindow;
    options->mechanics_period = *width;
  }
  return absl::OkStatus();
}

absl::Status ParseCharging(absl::string_view text, SimulatorOptions* options) {
  if (text == "larger") {
    options->charging = Charging::kReserveMax;
  } else if (text == "estimate") {
    options->charging = Charging::kEstimateThenActual;
  } else if (text == "usage") {
    options->charging = Charging::kActual;
  } else {
    return Bad(absl::StrCat("\"", text, "\" is none of larger, estimate, usage"));
  }
  return absl::OkStatus();
}

absl::Status ValidateOptions(const SimulatorOptions& options) {
  HR_RETURN_IF_ERROR(CheckPorts(options));
  HR_RETURN_IF_ERROR(CheckAnswers(options));
  if (options.tpm < 0) return Bad("tpm must not be negative");
  if (options.rpm < 0) return Bad("rpm must not be negative");
  if (options.input_tpm < 0) return Bad("input-tpm must not be negative");
  if (options.output_tpm < 0) return Bad("output-tpm must not be negative");
  if (options.mechanics == Mechanics::kGauge) {
    return Bad("a gauge meters requests in flight only, not tpm or rpm");
  }
  for (const LimitSpec& limit : AllLimits(options)) HR_RETURN_IF_ERROR(ValidateLimit(limit));
  if (options.prompt_cache_steps < 0 || options.prompt_cache_steps > 10'000'000) {
    return Bad("prompt cache must be in [0, 10000000] steps");
  }
  double sum = 0;
  for (const FaultRate& fault : options.faults) {
    if (fault.fault == Fault::kNone || !(fault.rate >= 0 && fault.rate <= 1)) {
      return Bad("a fault needs a known name and a rate in [0, 1]");
    }
    sum += fault.rate;
  }
  if (sum > 1 + 1e-9) return Bad(absl::StrCat("the rates of all faults sum to ", sum, ", above 1"));
  if (options.servers < 0 || options.servers > 1'000'000) {
    return Bad("servers must be in [0, 1000000]");
  }
  if (options.max_streams < 1 || options.max_streams > 100'000) {
    return Bad("max streams must be in [1, 100000]");
  }
  if (options.max_connections < 1) return Bad("max connections must be positive");
  if (options.max_requests_per_connection < 0) {
    return Bad("max requests per connection must not be negative");
  }
  if (options.barrier < 0) return Bad("barrier must not be negative");
  return absl::OkStatus();
}

}  // namespace headrace::simulator
