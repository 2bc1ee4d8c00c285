// Any error body has a class, and a class of errors. The first byte chooses the status.
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "common/base/log.h"
#include "common/base/utf8.h"
#include "worker/provider/classify.h"
#include "worker/provider/rate_headers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace provider = headrace::provider;
  static constexpr int kStatuses[] = {200, 301, 400, 401, 403, 404, 408,
                                      409, 413, 422, 429, 500, 503};
  if (size == 0) return 0;
  const absl::string_view body(reinterpret_cast<const char*>(data) + 1, size - 1);
  const headrace::http::Headers headers;
  provider::ErrorAnswer answer;
  answer.http_status = kStatuses[data[0] % std::size(kStatuses)];
  answer.headers = &headers;
  answer.error = provider::ReadProviderError(body).value_or(provider::ProviderError());
  answer.local_time = absl::FromUnixSeconds(1760000000);
  HR_CHECK(headrace::IsValidUtf8(answer.error.message)) << "message";
  for (const std::string& word : answer.error.words) {
    HR_CHECK(headrace::IsValidUtf8(word)) << "word";
  }
  const provider::Verdict verdict = provider::Classify(answer);
  HR_CHECK(verdict.error_class != headrace::ErrorClass::kNone) << "no class";
  HR_CHECK(!verdict.rule.empty()) << "no rule";
  if (verdict.retry_after) {
    HR_CHECK(*verdict.retry_after >= absl::ZeroDuration() &&
             *verdict.retry_after <= provider::kLongestReset)
        << "wait";
  }
  return 0;
}
