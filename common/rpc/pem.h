// PEM files, looked at before gRPC uses them: it tells nobody what is wrong with one.
#ifndef HEADRACE_COMMON_RPC_PEM_H_
#define HEADRACE_COMMON_RPC_PEM_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace headrace::rpc {

// OK when `file` holds at least one certificate. The status of the read; InvalidArgument when there
// is none in it. Warns when the first has run out or is of the future.
absl::Status CheckCertificates(const std::string& file);

// CheckCertificates(cert_file), and that the private key in `key_file` belongs to its first
// certificate.
absl::Status CheckKeyPair(const std::string& cert_file, const std::string& key_file);

// The first DNS name or URI in the certificate, or its common name when it has no alternative
// names: the name of the worker that shows it. The errors of CheckCertificates(); InvalidArgument
// when it names nobody.
absl::StatusOr<std::string> NameInCertificate(const std::string& cert_file);

}  // namespace headrace::rpc

#endif  // HEADRACE_COMMON_RPC_PEM_H_
