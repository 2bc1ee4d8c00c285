// Which theories are tried, and what speaks against each before it is compared with anything. Pure.
#ifndef HEADRACE_WORKER_PROBE_THEORIES_H_
#define HEADRACE_WORKER_PROBE_THEORIES_H_

#include "absl/functional/function_ref.h"
#include "worker/probe/theory.h"

namespace headrace::probe {

// Some thousands, the usual ones first: they win where nothing decides. `penalty` is in the unit of
// losses: of what the theory assumes beyond the headers' own words.
void EachTheory(const Series& series,
                absl::FunctionRef<void(const Theory& theory, double penalty)> visit);

}  // namespace headrace::probe

#endif  // HEADRACE_WORKER_PROBE_THEORIES_H_
