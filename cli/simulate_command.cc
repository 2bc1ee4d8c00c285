#include <cstdio>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cli/command.h"
#include "cli/flag_types.h"
#include "cli/run/signals.h"
#include "common/async/epoll_reactor.h"
#include "common/async/wait.h"
#include "common/base/status.h"
#include "simulator/simulator.h"

namespace headrace {
namespace {

using simulator::Simulator;
using simulator::SimulatorOptions;

struct SimulateFlags {
  SimulatorOptions options;
  bool list_faults = false;
};

// "20:60".
absl::Status ParseTokens(absl::string_view text, SimulatorOptions* options) {
  const size_t colon = text.find(':');
  const bool ok = colon != absl::string_view::npos &&
                  absl::SimpleAtoi(text.substr(0, colon), &options->min_tokens) &&
                  absl::SimpleAtoi(text.substr(colon + 1), &options->max_tokens) &&
                  options->min_tokens <= options->max_tokens;
  if (ok) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is no range like 20:60"));
}

void PrintPorts(const Simulator& simulator) {
  const simulator::Ports ports = simulator.ports();
  if (ports.plain != 0) std::printf("listening on http://127.0.0.1:%d/v1\n", ports.plain);
  if (ports.tls != 0) std::printf("listening on https://127.0.0.1:%d/v1\n", ports.tls);
  std::fflush(stdout);
}

Task<absl::Status> Serve(EpollReactor* reactor, SimulatorOptions options) {
  Event shutdown(reactor);
  auto signals = SignalWatch::Start(reactor, [&shutdown](int) { shutdown.Set(); });
  if (!signals.ok()) co_return signals.status();
  Simulator simulator(reactor, std::move(options));
  HR_CO_RETURN_IF_ERROR(simulator.Start());
  PrintPorts(simulator);
  co_await shutdown.Wait(StopToken());
  simulator.Stop();
  co_return absl::OkStatus();
}

Task<void> ServeInto(EpollReactor* reactor, SimulatorOptions options, absl::Status* result) {
  *result = co_await Serve(reactor, std::move(options));
}

ExitCode Simulate(const SimulateFlags& flags) {
  if (flags.list_faults) {
    std::printf("%s", simulator::ListFaults().c_str());
    return ExitCode::kOk;
  }
  BlockStopSignals();
  absl::StatusOr<std::unique_ptr<EpollReactor>> reactor = EpollReactor::Make();
  if (!reactor.ok()) return Fail("simulate", reactor.status());
  absl::Status status;
  (*reactor)->Run(ServeInto(reactor->get(), flags.options, &status));
  return status.ok() ? ExitCode::kOk : Fail("simulate", status);
}

void AddFlags(CLI::App* command, SimulateFlags* flags) {
  SimulatorOptions* options = &flags->options;
  command
      ->add_option("--port", options->port,
                   "HTTP/1.1 and h2c; 0: any free port, -1: none (default: 0)")
      ->type_name("N");
  command
      ->add_option("--tls-port", options->tls_port,
                   "HTTP/2 and HTTP/1.1 over TLS, likewise (default: -1)")
      ->type_name("N");
  command->add_option("--cert", options->cert_file, "Certificate, as PEM")->type_name("FILE");
  command->add_option("--key", options->key_file, "Its key, as PEM")->type_name("FILE");
  command
      ->add_option("--ca-out", options->ca_out_file,
                   "Where to write the CA of a certificate made at the start, for --ca-file")
      ->type_name("FILE");
  AddCount(command, "--tpm", &options->tpm, "Quota: tokens per minute and account; 0: none");
  AddCount(command, "--rpm", &options->rpm, "Quota: requests per minute and account; 0: none");
  AddCount(command, "--input-tpm", &options->input_tpm, "Quota of input tokens, likewise");
  AddCount(command, "--output-tpm", &options->output_tpm, "Quota of output tokens, likewise");
  AddParsed(
      command, "--quota",
      [options](const std::string& text) { return simulator::ParseMechanics(text, options); },
      "How quotas are counted: bucket, sliding, ramp, or windows of 60s, 10s, 1s (default: bucket)")
      ->type_name("MECHANICS");
  AddParsed(
      command, "--charge",
      [options](const std::string& text) { return simulator::ParseCharging(text, options); },
      "What a call costs in tokens: larger (of prompt and max_tokens), estimate (then the usage), "
      "usage (default: larger)")
      ->type_name("RULE");
  command->add_flag_callback(
      "--no-quota-headers", [options] { options->quota_headers = false; },
      "Answers do not say what is left");
  AddDuration(command, "--latency", &options->latency,
              "Median time to the head of a response (default: 200ms)");
  AddDuration(command, "--chunk-interval", &options->chunk_interval,
              "Time between stream events (default: 20ms)");
  AddCount(command, "--servers", &options->servers,
           "Answers produced at a time; more requests wait their turn; 0: no end");
  AddCount(command, "--in-flight", &options->in_flight,
           "Quota: requests in flight per account; 0: none");
  AddParsed(
      command, "--tokens",
      [options](const std::string& text) { return ParseTokens(text, options); },
      "Length of answers (default: 20:200)")
      ->type_name("LO:HI");
  AddCount(command, "--prompt-cache", &options->prompt_cache_steps,
           "Steps of 128 tokens of prompts that are kept; 0: none");
  AddParsed(
      command, "--fault",
      [options](const std::string& text) {
        const absl::StatusOr<simulator::FaultRate> fault = simulator::ParseFault(text);
        if (fault.ok()) options->faults.push_back(*fault);
        return fault.status();
      },
      "Fault and its share of requests, e.g. 503=0.02 (repeat)")
      ->type_name("NAME=RATE")
      ->allow_extra_args(false)
      ->expected(1, 1000);
  command->add_option("--seed", options->seed, "Seed of everything random (default: 1)")
      ->type_name("N");
  command->add_flag("--list-faults", flags->list_faults, "Print the faults and exit");
}

}  // namespace

void AddSimulateCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "simulate", "Be a provider: enforce a quota, inject faults, and stay on this machine");
  auto flags = std::make_shared<SimulateFlags>();  // owned by the flags and by the callback
  AddFlags(command, flags.get());
  command->callback([=] { chosen->body = [flags] { return Simulate(*flags); }; });
}

}  // namespace headrace
