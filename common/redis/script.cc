#include "common/redis/script.h"

#include <openssl/evp.h>

#include "absl/strings/escaping.h"
#include "common/base/log.h"

namespace headrace::redis {
namespace {

std::string Sha1(absl::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const int done = EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr);
  HR_CHECK(done == 1) << "OpenSSL has no SHA-1";
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(digest), size));
}

}  // namespace

Script::Script(absl::string_view text) : text_(text), sha_(Sha1(text)) {}

}  // namespace headrace::redis
