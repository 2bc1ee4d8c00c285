#include <algorithm>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "cli/command.h"
#include "cli/flag_types.h"
#include "cli/remote/coordinator_flags.h"
#include "cli/remote/remote_worker.h"
#include "cli/run/redis_flag.h"
#include "cli/run/signals.h"
#include "common/rpc/pem.h"

namespace headrace {
namespace {

struct WorkerFlags {
  CoordinatorFlags coordinator;
  RemoteWorkerOptions options;
  std::string admin;
};

// The name goes into result lines, logs and tables.
absl::Status CheckId(const std::string& id) {
  constexpr size_t kMaxIdBytes = 128;
  const bool good = !id.empty() && id.size() <= kMaxIdBytes &&
                    std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError("must be 1 to 128 visible ASCII characters without spaces");
}

ExitCode Work(WorkerFlags flags) {
  if (!flags.admin.empty()) {
    return Fail("worker", absl::InvalidArgumentError("--admin: this build has no admin server"));
  }
  BlockStopSignals();  // before gRPC starts its threads
  const absl::Status redis = CheckRedisFlag(flags.options.redis);
  if (!redis.ok()) return Fail("worker", redis);
  const absl::StatusOr<CoordinatorConnection> connection = Connect(flags.coordinator);
  if (!connection.ok()) return Fail("worker", connection.status());
  if (flags.options.id.empty()) {
    const std::string& cert = flags.coordinator.tls.cert_file;
    const absl::StatusOr<std::string> name =
        cert.empty() ? absl::StatusOr<std::string>(MakeWorkerId()) : rpc::NameInCertificate(cert);
    if (!name.ok()) return Fail("worker", name.status());
    flags.options.id = *name;
  }
  return ServeCoordinator(*connection, flags.options);
}

}  // namespace

void AddWorkerCommand(CLI::App* app, ChosenCommand* chosen) {
  CLI::App* command = app->add_subcommand(
      "worker", "Work for a coordinator; wait for it, and come back to it, until it lets go");
  auto flags = std::make_shared<WorkerFlags>();  // owned by the flags and by the callback
  RemoteWorkerOptions* options = &flags->options;
  AddCoordinatorFlags(command, &flags->coordinator);
  AddParsed(
      command, "--id",
      [options](const std::string& text) {
        options->id = text;
        return CheckId(text);
      },
      "Unique name of the worker (default: its host and random digits; with --cert the name "
      "there)")
      ->type_name("NAME");
  AddCount(command, "--max-in-flight", &options->max_in_flight,
           "Calls in flight at most; a job may ask for less (default: 2500)", 1);
  AddDuration(command, "--grace", &options->grace,
              "After SIGTERM: time for calls under way to end and be delivered (default: 30s)");
  AddDuration(command, "--connect-timeout", &options->connect_timeout,
              "Give up after this long without a coordinator (default: never)");
  command->add_option("--redis", options->redis, "Redis that shares the quota with other workers")
      ->type_name("URL");
  command->add_option("--admin", flags->admin, "Not in this version")->type_name("ADDR:PORT");
  command->callback([=] { chosen->body = [flags] { return Work(*flags); }; });
}

}  // namespace headrace
