// Everything that can be set about a simulated provider.
#ifndef HEADRACE_SIMULATOR_OPTIONS_H_
#define HEADRACE_SIMULATOR_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "simulator/faults.h"
#include "simulator/quota_mechanics.h"

namespace headrace::simulator {

// What is charged to token dimensions, and when.
enum class Charging : uint8_t {
  kReserveMax,          // max(max_tokens, estimate) at admission, never refunded (OpenAI)
  kEstimateThenActual,  // estimate at admission, corrected to usage at the end (Anthropic, Bedrock)
  kActual,              // nothing at admission, usage at the end (gateways that charge after)
};

struct SimulatorOptions {
  std::string listen_address = "127.0.0.1";  // a numeric IPv4 or IPv6 address
  int port = 0;             // HTTP/1.1 and h2c with prior knowledge; 0: any free port; -1: none
  int tls_port = -1;        // HTTP/2 and HTTP/1.1 by ALPN; 0: any free port; -1: none
  std::string cert_file;    // PEM; empty: a certificate is made in memory, see ca_pem()
  std::string key_file;     // PEM; set together with cert_file
  std::string ca_out_file;  // where to write the CA of a certificate made in memory; empty: nowhere

  int64_t in_flight = 0;  // of each account, requests at a time; 0: no limit
  // Quota of each account (each key is one). These four are short for LimitSpecs with the
  // mechanics below; 0 is no limit.
  int64_t tpm = 0;
  int64_t rpm = 0;
  int64_t input_tpm = 0;
  int64_t output_tpm = 0;
  Mechanics mechanics = Mechanics::kBucket;            // of these four
  absl::Duration mechanics_period = absl::Minutes(1);  // of their windows
  bool random_window_offset = true;  // windows start at an offset drawn from the seed
  std::vector<LimitSpec> limits;     // more dimensions
  Charging charging = Charging::kReserveMax;
  bool count_failed = true;   // rejected and failed requests count as requests
  bool quota_headers = true;  // answers say what is left

  // Time from the request's end to the response's head: the median, and the spread of a log-normal
  // (0: always the median), cut at 20 times the median.
  absl::Duration latency = absl::Milliseconds(200);
  double latency_sigma = 0;
  absl::Duration chunk_interval = absl::Milliseconds(20);  // between the events of a stream
  absl::Duration tick = absl::Milliseconds(2);             // how coarse those two are
  int64_t min_tokens = 20;   // of an answer; drawn from the request's hash
  int64_t max_tokens = 200;  // an answer is cut at the request's max_tokens, if lower

  // What requests began with is kept, in steps of 128 tokens, this many of all accounts; usage says
  // what was found. 0: no cache.
  int64_t prompt_cache_steps = 0;

  std::vector<FaultRate> faults;  // at most one strikes a request; the rates sum to at most 1
  absl::Duration hang_time = absl::Seconds(30);  // of slow-first-byte and silent-gap
  uint64_t seed = 1;

  // Answers that are produced at a time; further requests wait for their turn, in order, before
  // their head: where more calls in flight only wait longer. 0: all at once.
  int64_t servers = 0;

  int max_streams = 100;  // SETTINGS_MAX_CONCURRENT_STREAMS
  int max_connections = 20'000;
  // A connection that has served this many requests is ended gracefully (GOAWAY, or connection:
  // close), as gateways do (nginx: 1,000, AWS ALB: 10,000); 0: never.
  int64_t max_requests_per_connection = 0;
  std::vector<std::string> keys;    // accepted keys; empty: any, also none
  std::vector<std::string> models;  // known models; empty: any
  int barrier = 0;  // hold each call until this many are in flight (0: off), then release all
  absl::Duration barrier_timeout = absl::Seconds(20);
};

// InvalidArgument that names the field and its range.
absl::Status ValidateOptions(const SimulatorOptions& options);

// Sets mechanics and mechanics_period from "bucket", "sliding", "ramp", or the width of a fixed
// window: "60s", "10s", "1s". InvalidArgument that lists these.
absl::Status ParseMechanics(absl::string_view text, SimulatorOptions* options);

// Sets charging from "larger", "estimate" or "usage". InvalidArgument that lists these.
absl::Status ParseCharging(absl::string_view text, SimulatorOptions* options);

// The quota dimensions that the options ask for.
std::vector<LimitSpec> AllLimits(const SimulatorOptions& options);

}  // namespace headrace::simulator

#endif  // HEADRACE_SIMULATOR_OPTIONS_H_
