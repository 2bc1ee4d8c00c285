#include "common/rpc/token.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/log.h"
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

MonoTime SteadyNow() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return MonoTime::FromNanos(std::chrono::nanoseconds(now).count());
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

LiveToken::LiveToken(Secret token, TokenSource source, TokenTimes times)
    : token_(std::move(token)), read_(SteadyNow()), source_(std::move(source)), times_(times) {}

absl::StatusOr<std::shared_ptr<LiveToken>> LiveToken::Read(TokenSource source, TokenTimes times) {
  HR_ASSIGN_OR_RETURN(Secret token, ReadToken(source));
  return std::shared_ptr<LiveToken>(new LiveToken(std::move(token), std::move(source), times));
}

void LiveToken::ReloadAfter(absl::Duration age) {
  const MonoTime now = SteadyNow();
  if (source_.file.empty() || now - read_ < age) return;
  read_ = now;
  const absl::StatusOr<Secret> found = ReadToken(source_);
  const std::string problem(found.ok() ? "" : found.status().message());
  if (!problem.empty() && problem != told_) {
    HR_LOG(kWarning) << problem << ": the token that it held goes on";
  }
  told_ = problem;
  if (!found.ok() || SameSecret(found->Reveal(), token_.Reveal())) return;
  HR_LOG(kInfo) << "the token file " << source_.file << " holds a new token";
  before_ = std::exchange(token_, *found);
  before_until_ = now + times_.overlap;
}

Secret LiveToken::Get() {
  const MutexLock lock(&mutex_);
  ReloadAfter(times_.reload);
  return token_;
}

bool LiveToken::IsKnown(absl::string_view token) const {
  const bool now = SameSecret(token, token_.Reveal());
  const bool before = !before_.empty() && SteadyNow() < before_until_;
  return now || (before && SameSecret(token, before_.Reveal()));
}

bool LiveToken::Accepts(absl::string_view token) {
  if (token.empty()) return false;
  const MutexLock lock(&mutex_);
  ReloadAfter(times_.reload);
  if (IsKnown(token)) return true;
  // Its owner may have read the new one first.
  ReloadAfter(std::min(times_.reload, absl::Seconds(1)));
  return IsKnown(token);
}

bool SameSecret(absl::string_view a, absl::string_view b) {
  // Digests are of one length, so that not even the length is told.
  unsigned char digests[2][SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(a.data()), a.size(), digests[0]);
  SHA256(reinterpret_cast<const unsigned char*>(b.data()), b.size(), digests[1]);
  return CRYPTO_memcmp(digests[0], digests[1], SHA256_DIGEST_LENGTH) == 0;
}

}  // namespace headrace::rpc
