#include <memory>
#include <string>
#include <utility>

#include "CLI/CLI.hpp"
#include "cli/command.h"
#include "cli/flag_types.h"
#include "cli/job_flags.h"
#include "cli/run/coordinator_process.h"
#include "common/base/status.h"
#include "common/base/units.h"
#include "common/rpc/token.h"

namespace headrace {
namespace {

struct CoordinatorCommandFlags {
  CoordinatorProcessOptions options;
  rpc::TokenSource token;
  std::string job;
  std::string out;
  std::string admin;
};

absl::StatusOr<CoordinatorProcessOptions> MakeOptions(const CoordinatorCommandFlags& flags) {
  if (!flags.admin.empty()) {
    return absl::InvalidArgumentError("--admin: this build has no admin server");
  }
  CoordinatorProcessOptions options = flags.options;
  HR_ASSIGN_OR_RETURN(options.server.token, rpc::LiveToken::Read(flags.token));
  if (flags.job.empty()) {
    if (flags.out.empty()) {
      return absl::InvalidArgumentError(
          "--out: say where submitted jobs and their runs are kept, or give a --job");
    }
    options.dir = flags.out;
    return options;
  }
  JobFlags job;
  job.input = flags.job;
  if (!flags.out.empty()) job.output_dir = flags.out;
  HR_ASSIGN_OR_RETURN(options.job, MakeJob(job));
  return options;
}

ExitCode Coordinate(const CoordinatorCommandFlags& flags, const GlobalFlags& globals) {
  absl::StatusOr<CoordinatorProcessOptions> options = MakeOptions(flags);
  if (!options.ok()) return Fail("coordinator", options.status());
  options->no_color = globals.no_color;
  const absl::StatusOr<ExitCode> code = RunCoordinator(*options);
  return code.ok() ? *code : Fail("coordinator", code.status());
}

void AddServerFlags(CLI::App* command, CoordinatorCommandFlags* flags) {
  SessionServerOptions* server = &flags->options.server;
  server->listen = "127.0.0.1:7070";
  command
      ->add_option("--listen", server->listen,
                   "Where to listen; port 0: any free one (default: 127.0.0.1:7070)")
      ->type_name("ADDR:PORT");
  CLI::Option* cert = command
                          ->add_option("--tls-cert", server->tls.cert_file,
                                       "Serve over TLS with this certificate, as PEM")
                          ->type_name("FILE");
  CLI::Option* key =
      command->add_option("--tls-key", server->tls.key_file, "Its key, as PEM")->type_name("FILE");
  cert->needs(key);
  key->needs(cert);
  command
      ->add_option("--client-ca", server->tls.client_ca_file,
                   "Let in only who shows a certificate of this CA, as PEM")
      ->type_name("FILE")
      ->needs(cert);
  CLI::Option* env = command
                         ->add_option("--token-env", flags->token.env,
                                      "Environment variable with the token to ask for")
                         ->type_name("NAME");
  command->add_option("--token-file", flags->token.file, "File with the token to ask for")
      ->type_name("FILE")
      ->excludes(env);
  command->add_flag("--insecure", server->insecure,
                    "Listen beyond this machine without TLS; prompts and answers can be read");
  command->add_flag("--reflection", server->reflection, "Serve gRPC reflection, for grpcurl");
}

}  // namespace

void AddCoordinatorCommand(CLI::App* app, const GlobalFlags* globals, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "coordinator", "Give the work of jobs to workers on this and other machines");
  auto flags = std::make_shared<CoordinatorCommandFlags>();  // of the flags and the callback
  command
      ->add_option("--job", flags->job,
                   "Run this job file and end with its exit code; without it, serve jobs that are "
                   "submitted")
      ->type_name("FILE");
  command
      ->add_option("--out", flags->out,
                   "Run directory of the job; without --job, the directory of all runs")
      ->type_name("DIR");
  AddServerFlags(command, flags.get());
  absl::Duration* lease = &flags->options.lease;
  AddParsed(
      command, "--lease",
      [lease](const std::string& text) {
        const absl::StatusOr<absl::Duration> value = ParseDuration(text);
        if (!value.ok()) return value.status();
        if (*value < absl::Seconds(1) || *value > absl::Hours(1)) {
          return absl::InvalidArgumentError("must be 1s to 1h");
        }
        *lease = *value;
        return absl::OkStatus();
      },
      "After this long without a word from a worker, its items go to others (default: 60s)")
      ->type_name("DUR");
  flags->options.progress = ProgressMode::kAuto;
  AddValue(command, "--progress", &flags->options.progress, ParseProgressMode,
           "Of the job: auto, tty, plain, json or none (default: auto)")
      ->type_name("MODE");
  command->add_option("--admin", flags->admin, "Not in this version")->type_name("ADDR:PORT");
  command->callback(
      [=] { chosen->body = [flags, globals] { return Coordinate(*flags, *globals); }; });
}

}  // namespace headrace
