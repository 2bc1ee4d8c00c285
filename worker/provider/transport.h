// What a call that ended without a whole answer means.
#ifndef HEADRACE_WORKER_PROVIDER_TRANSPORT_H_
#define HEADRACE_WORKER_PROVIDER_TRANSPORT_H_

#include <string>

#include "common/outcome/error_class.h"
#include "common/quota/pool_store.h"
#include "worker/http/http.h"

namespace headrace::provider {

struct TransportVerdict {
  ErrorClass error_class = ErrorClass::kInternal;
  std::string message;
  quota::Settlement settlement = quota::Settlement::kUnknown;
  bool possibly_billed = false;
};

// A request of which no byte went out costs nothing; of any other the outcome is unknown, and it is
// taken for charged and perhaps billed (quota.md 3.2, http.md 1.9, case B14).
TransportVerdict ClassifyTransport(const http::CallResult& result);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_TRANSPORT_H_
