#include "cli/remote/coordinator_flags.h"

#include "CLI/CLI.hpp"
#include "common/base/status.h"
#include "common/rpc/address.h"
#include "common/rpc/channel.h"

namespace headrace {

void AddCoordinatorFlags(CLI::App* command, CoordinatorFlags* flags) {
  command->add_option("--coordinator", flags->coordinator, "Where the coordinator listens")
      ->type_name("ADDR:PORT")
      ->required();
  command->add_flag("--tls", flags->tls.enabled,
                    "Connect over TLS, trusting the system's CAs unless --ca-file is given");
  command
      ->add_option("--ca-file", flags->tls.ca_file, "CA of the coordinator, as PEM; implies --tls")
      ->type_name("FILE");
  CLI::Option* cert =
      command
          ->add_option("--cert", flags->tls.cert_file, "Certificate to show, as PEM; implies --tls")
          ->type_name("FILE");
  CLI::Option* key =
      command->add_option("--key", flags->tls.key_file, "Its key, as PEM")->type_name("FILE");
  cert->needs(key);
  key->needs(cert);
  CLI::Option* env = command
                         ->add_option("--token-env", flags->token.env,
                                      "Environment variable with the coordinator's token")
                         ->type_name("NAME");
  command->add_option("--token-file", flags->token.file, "File with the coordinator's token")
      ->type_name("FILE")
      ->excludes(env);
  command->add_flag("--insecure", flags->insecure,
                    "Send the token in plaintext to another machine");
}

absl::StatusOr<CoordinatorConnection> Connect(CoordinatorFlags flags) {
  HR_ASSIGN_OR_RETURN(const rpc::Address address, rpc::ParseAddress(flags.coordinator));
  if (address.port == 0) {
    return absl::InvalidArgumentError("--coordinator: nothing listens at port 0");
  }
  flags.tls.enabled |= !flags.tls.ca_file.empty() || !flags.tls.cert_file.empty();
  CoordinatorConnection connection;
  connection.address = address.ToString();
  HR_ASSIGN_OR_RETURN(connection.token, rpc::LiveToken::Read(flags.token));
  HR_RETURN_IF_ERROR(
      rpc::CheckTokenExposure(address, flags.tls, !connection.token->empty(), flags.insecure));
  HR_ASSIGN_OR_RETURN(const std::shared_ptr<grpc::ChannelCredentials> credentials,
                      rpc::MakeClientCredentials(flags.tls));
  rpc::QuietGrpcLog();
  connection.channel = rpc::MakeChannel(address, credentials);
  return connection;
}

}  // namespace headrace
