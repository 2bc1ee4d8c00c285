// What providers refuse in a JSON schema for structured output, found before anything is sent
// (cases H5, H8, H9). Pure.
//
// Sources: OpenAI, Structured Outputs, "Supported schemas" (read 2026-02); Anthropic, Structured
// outputs, "JSON Schema limitations" (read 2026-02); and the 400s in the reports that rows name.
#ifndef HEADRACE_COORDINATOR_JOB_SCHEMA_LINT_H_
#define HEADRACE_COORDINATOR_JOB_SCHEMA_LINT_H_

#include <string>
#include <vector>

#include "simdjson.h"

namespace headrace {

enum class SchemaRules { kOpenAi, kAnthropic };

struct SchemaFault {
  enum class Kind {
    kEverywhere,  // hostile or invalid: no server should get it
    kVendor,      // the provider documents that it refuses this, or has answered 400 to it
    kPerhaps,     // it is not on the provider's list of what it takes
  };

  std::string at;    // "response_format.json_schema.schema.properties.user"
  std::string what;  // "needs additionalProperties: false"
  Kind kind = Kind::kVendor;

  bool operator==(const SchemaFault&) const = default;
};

// Limits of OpenAI's strict mode (documentation of 2026-02).
inline constexpr int64_t kMaxSchemaProperties = 5000;
inline constexpr int64_t kMaxSchemaLevels = 10;  // objects in objects below the first
inline constexpr int64_t kMaxSchemaEnumValues = 1000;
inline constexpr int64_t kMaxSchemaStringBytes = 120'000;  // names, enum and const values
inline constexpr int64_t kLargeEnumValues = 250;           // an enum of more has at most
inline constexpr int64_t kMaxLargeEnumBytes = 15'000;
// Ours (chosen, not measured).
inline constexpr int kMaxSchemaDepth = 200;      // of schemas in schemas
inline constexpr size_t kMaxSchemaFaults = 100;  // then no more are looked for

// Appends the faults of `schema`, which stands at `at`, in the strict mode of `rules`.
void LintStrictSchema(simdjson::dom::element schema, const std::string& at, SchemaRules rules,
                      std::vector<SchemaFault>* faults);

// Only its patterns, in any mode.
void LintPatterns(simdjson::dom::element schema, const std::string& at,
                  std::vector<SchemaFault>* faults);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_SCHEMA_LINT_H_
