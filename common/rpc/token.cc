#include "common/rpc/token.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace headrace::rpc {
namespace {

// gRPC refuses metadata past 8 KiB. Chosen, not measured.
constexpr size_t kMaxTokenBytes = 4096;

absl::StatusOr<Secret> Check(absl::string_view text, absl::string_view where) {
  const absl::string_view token = absl::StripAsciiWhitespace(text);
  auto bad = [where](absl::string_view why) {
    return absl::UnauthenticatedError(absl::StrCat(where, " ", why));
  };
  if (token.empty()) return bad("holds no token");
  if (token.size() > kMaxTokenBytes) return bad("holds more than a token");
  const bool visible = std::all_of(token.begin(), token.end(), [](char c) {
    return absl::ascii_isgraph(static_cast<unsigned char>(c));
  });
  if (!visible) return bad("holds a space, a control character or a byte that is not ASCII");
  return Secret(std::string(token));
}

}  // namespace

absl::StatusOr<Secret> ReadToken(const TokenSource& source) {
  if (!source.env.empty()) {
    const std::string where = absl::StrCat("the environment variable ", source.env);
    const char* value = std::getenv(source.env.c_str());
    if (value == nullptr) {
      return absl::UnauthenticatedError(absl::StrCat(where, " with the token is not set"));
    }
    return Check(value, where);
  }
  if (source.file.empty()) return Secret();
  const std::string where = absl::StrCat("the token file ", source.file);
  std::ifstream file(source.file, std::ios::binary);
  if (!file) {
    return absl::UnauthenticatedError(ErrnoStatus(errno, where).message());
  }
  std::string text(2 * kMaxTokenBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return Check(text, where);
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  // Digests are of one length, so that not even the length is told.
  unsigned char digests[2][SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), digests[0]);
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), digests[1]);
  return CRYPTO_memcmp(digests[0], digests[1], SHA256_DIGEST_LENGTH) == 0;
}

}  // namespace headrace::rpc
