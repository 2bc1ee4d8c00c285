// Takes a key out of what a provider echoes.
#ifndef HEADRACE_WORKER_PROVIDER_REDACT_H_
#define HEADRACE_WORKER_PROVIDER_REDACT_H_

#include <string>

#include "common/base/secret.h"

namespace headrace::provider {

// Replaces each place of `text` that holds `key`, or the first 12 characters of it or more (a text
// may have been cut within the key), with "[redacted]". Finds it as it is, and with any characters
// but the first escaped as JSON and URLs do: some servers write '/' as "\/", '+' as "\u002B" or
// "%2B". A key of less than 8 characters is left, since it would hit ordinary words. A text that is
// JSON stays JSON.
void RedactKey(const Secret& key, std::string* text);

}  // namespace headrace::provider

#endif  // HEADRACE_WORKER_PROVIDER_REDACT_H_
