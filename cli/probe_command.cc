#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/command.h"
#include "cli/flag_types.h"
#include "cli/run/signals.h"
#include "common/async/epoll_reactor.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/base/utf8.h"
#include "worker/http/client.h"
#include "worker/probe/findings.h"
#include "worker/probe/plan.h"
#include "worker/probe/prober.h"
#include "worker/probe/report.h"
#include "worker/session/real_environment.h"

namespace headrace {
namespace {

using probe::Plan;
using probe::PlanEnd;

struct ProbeFlags {
  probe::ReportSubject subject;
  probe::PlanOptions plan;
  int64_t max_requests = 40;
  double price_input_usd = -1;  // per million tokens; below 0: unknown
  double price_output_usd = -1;
  bool json = false;
  bool yes = false;
};

absl::StatusOr<Secret> ReadKey(const ProbeFlags& flags) {
  v1::ApiKeySource source;
  if (!flags.subject.api_key_env.empty()) source.set_env(flags.subject.api_key_env);
  if (!flags.subject.api_key_file.empty()) source.set_file(flags.subject.api_key_file);
  return RealEnvironment(nullptr).ReadKey(source);
}

// "0.15:0.6".
absl::Status ParsePrice(const std::string& text, ProbeFlags* flags) {
  const size_t colon = text.find(':');
  if (colon != std::string::npos &&
      absl::SimpleAtod(text.substr(0, colon), &flags->price_input_usd) &&
      absl::SimpleAtod(text.substr(colon + 1), &flags->price_output_usd) &&
      std::isfinite(flags->price_input_usd) && std::isfinite(flags->price_output_usd) &&
      flags->price_input_usd >= 0 && flags->price_output_usd >= 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is no pair of prices like 0.15:0.6"));
}

std::string CostLine(const ProbeFlags& flags) {
  if (flags.price_input_usd < 0) return "With --price it tells what that costs.\n";
  // What a probe without surprises takes, measured against the simulator.
  constexpr double kUsualInput = 7000;
  constexpr double kUsualOutput = 1000;
  const double most = static_cast<double>(flags.plan.max_tokens) *
                      std::max(flags.price_input_usd, flags.price_output_usd) / 1e6;
  const double usual =
      (kUsualInput * flags.price_input_usd + kUsualOutput * flags.price_output_usd) / 1e6;
  return absl::StrFormat("That costs at most %.4f USD, usually about %.4f.\n", most, usual);
}

// What it will do and cost at most; on a terminal, whether it may.
bool Approved(const ProbeFlags& flags) {
  std::fprintf(stderr,
               "probe: at most %lld requests and %s tokens (prompts and longest possible answers), "
               "for about a minute or two, to %s at %s.\n%s%s",
               static_cast<long long>(flags.max_requests),
               headrace::FormatCount(static_cast<double>(flags.plan.max_tokens)).c_str(),
               flags.subject.model.c_str(), flags.subject.endpoint.c_str(), CostLine(flags).c_str(),
               flags.plan.exhaust
                   ? "It uses up the quota until the provider refuses: other users of the account "
                     "will feel it.\n"
                   : "It does not use up the quota.\n");
  if (flags.yes || isatty(STDIN_FILENO) == 0) return true;
  std::fputs("Go on? [y/N] ", stderr);
  std::string answer;
  std::getline(std::cin, answer);
  absl::AsciiStrToLower(&answer);
  return answer == "y" || answer == "yes";
}

ExitCode CodeOf(PlanEnd end) {
  switch (end) {
    case PlanEnd::kNotYet:
      return ExitCode::kInterrupted;
    case PlanEnd::kDone:
    case PlanEnd::kRequests:
    case PlanEnd::kTokens:
    case PlanEnd::kQuotaLow:
    case PlanEnd::kThrottled:
      return ExitCode::kOk;
    case PlanEnd::kCredentials:
      return ExitCode::kCredentials;
    case PlanEnd::kMoney:
      return ExitCode::kBudget;
    case PlanEnd::kConfig:
      return ExitCode::kUsage;
    case PlanEnd::kUnreachable:
    case PlanEnd::kNoProvider:
    case PlanEnd::kErrors:
      return ExitCode::kError;
  }
  return ExitCode::kError;
}

// Things of one probe that live while its reactor runs.
struct Session {
  EpollReactor* reactor;
  http::Engine* engine;
  probe::Prober* prober;
  Plan* plan;
  StopSource stop;
};

Task<void> Main(Session* session) {
  size_t number = 0;
  co_await session->prober->Run(
      session->plan,
      [&number](const probe::Answer& answer) {
        std::fprintf(stderr, "%s\n", probe::AnswerLine(++number, answer).c_str());
      },
      session->stop.token());
  co_await session->engine->Shutdown();
}

void Interrupted(Session* session, int count) {
  if (count > 1) _exit(static_cast<int>(ExitCode::kInterrupted));
  std::fputs("interrupted: no more requests\n", stderr);
  session->stop.RequestStop(StopCode::kUser);
}

ExitCode Report(const ProbeFlags& flags, const Plan& plan) {
  const bool answered =
      std::any_of(plan.answers().begin(), plan.answers().end(),
                  [](const probe::Answer& a) { return a.fate == probe::Fate::kAnswered; });
  const probe::Findings findings = probe::Conclude(
      plan.answers(), {flags.subject.provider, flags.subject.endpoint, flags.plan.exhaust});
  if (flags.json) {
    std::printf("%s\n", probe::ReportJson(flags.subject, findings, plan).c_str());
  } else if (answered) {
    std::printf("%s", probe::YamlBlock(flags.subject, findings, plan).c_str());
    std::fflush(stdout);
    std::fprintf(stderr, "\n%s", probe::Tables(findings, plan).c_str());
  }
  if (!answered && !plan.why().empty()) {
    std::fprintf(stderr, "headrace probe: %s\n", PlainLine(plan.why()).c_str());
  }
  return CodeOf(plan.end());
}

absl::StatusOr<ExitCode> Probe(ProbeFlags flags) {
  flags.plan.max_requests = static_cast<int>(flags.max_requests);
  absl::StatusOr<Secret> key = ReadKey(flags);
  if (!key.ok()) return absl::UnauthenticatedError(key.status().message());
  http::ClientOptions client;
  HR_ASSIGN_OR_RETURN(client.endpoint, http::ParseUrl(flags.subject.endpoint));
  client.ca_file = flags.subject.ca_file;
  HR_ASSIGN_OR_RETURN(std::unique_ptr<EpollReactor> reactor, EpollReactor::Make());
  HR_ASSIGN_OR_RETURN(std::unique_ptr<http::Engine> engine,
                      http::MakeClient(reactor.get(), std::move(client)));
  probe::ProberOptions options;
  options.provider = flags.subject.provider;
  options.model = flags.subject.model;
  options.endpoint = flags.subject.endpoint;
  options.key = *std::move(key);
  probe::Prober prober(reactor.get(), engine.get(), std::move(options));
  HR_RETURN_IF_ERROR(prober.Check());
  ExitOnStopSignals();
  if (!Approved(flags)) return absl::CancelledError("not approved, nothing was sent");
  BlockStopSignals();
  Plan plan(flags.plan);
  Session session{reactor.get(), engine.get(), &prober, &plan, {}};
  {
    HR_ASSIGN_OR_RETURN(
        std::unique_ptr<SignalWatch> signals,
        SignalWatch::Start(reactor.get(), [&session](int count) { Interrupted(&session, count); }));
    reactor->Run(Main(&session));
  }
  return Report(flags, plan);
}

void AddFlags(CLI::App* command, ProbeFlags* flags) {
  probe::ReportSubject* subject = &flags->subject;
  command->add_option("endpoint", subject->endpoint, "Base URL of the provider's API")
      ->required()
      ->type_name("ENDPOINT");
  command->add_option("--model", subject->model, "Model, as the provider calls it")
      ->required()
      ->type_name("NAME");
  command
      ->add_option("--provider", subject->provider,
                   "API dialect: openai or anthropic (default: openai)")
      ->type_name("NAME");
  CLI::Option* env = command->add_option("--api-key-env", subject->api_key_env,
                                         "Environment variable that holds the key");
  env->type_name("NAME");
  command->add_option("--api-key-file", subject->api_key_file, "File that holds the key")
      ->type_name("PATH")
      ->excludes(env);
  command->add_option("--ca-file", subject->ca_file, "CA certificates to trust, as PEM")
      ->type_name("PATH");
  AddCount(command, "--max-requests", &flags->max_requests, "Requests at most (default: 40)",
           probe::kFewestRequests);
  AddCount(command, "--max-tokens-total", &flags->plan.max_tokens,
           "Tokens at most, prompts and longest possible answers (default: 100k)", 1000);
  AddParsed(
      command, "--price", [flags](const std::string& text) { return ParsePrice(text, flags); },
      "USD per million tokens, to tell what it will cost, e.g. 0.15:0.6")
      ->type_name("IN:OUT");
  command->add_flag("--exhaust", flags->plan.exhaust, "Use up the quota to see bursts and 429s");
  command->add_flag("--yes", flags->yes, "Do not ask before starting");
  command->add_flag("--json", flags->json, "Everything as one JSON object");
}

}  // namespace

void AddProbeCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "probe", "Find out how a provider counts its quota, with a few dozen small requests");
  auto flags = std::make_shared<ProbeFlags>();  // owned by the flags and by the callback
  flags->subject.provider = "openai";
  AddFlags(command, flags.get());
  command->callback([=] {
    chosen->body = [flags] {
      const absl::StatusOr<ExitCode> code = Probe(*flags);
      return code.ok() ? *code : Fail("probe", code.status());
    };
  });
}

}  // namespace headrace
