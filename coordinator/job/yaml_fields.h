// Reads typed fields from a YAML mapping, and says with file, line and field what is wrong with
// one. The only code that touches yaml-cpp, together with yaml_json.h; its exceptions end in
// LoadYaml.
#ifndef HEADRACE_COORDINATOR_JOB_YAML_FIELDS_H_
#define HEADRACE_COORDINATOR_JOB_YAML_FIELDS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "yaml-cpp/yaml.h"

namespace headrace {

// A job file larger than this is none (chosen, not measured).
inline constexpr size_t kMaxJobFileBytes = size_t{1} << 20;

// What the fields of one document share.
struct YamlDocument {
  std::string file;
  YAML::Node root;
  std::map<std::string, int> lines;  // of each field that was read, by its path; from 1

  // InvalidArgument "file:line: field: what"; an empty field is left out.
  absl::Status Error(const YAML::Node& node, absl::string_view field, absl::string_view what) const;
  absl::Status ErrorAt(int line, absl::string_view field, absl::string_view what) const;
  // The line of `field`, or of the nearest field around it that was read; 0 if there is none.
  int LineOf(absl::string_view field) const;
};

// Exactly one document. InvalidArgument on bad YAML, bad UTF-8, control characters, no document.
absl::StatusOr<YamlDocument> LoadYaml(absl::string_view text, absl::string_view file);

// One mapping. Its Read functions leave *out alone when the key is absent.
class YamlFields {
 public:
  // `path` is the mapping's own, empty for the root. InvalidArgument when `node` is no mapping, has
  // a key twice, or one that `known` does not name. `document` must outlive the fields.
  static absl::StatusOr<YamlFields> Open(YamlDocument* document, const YAML::Node& node,
                                         absl::string_view path,
                                         absl::Span<const absl::string_view> known);

  // The value of `key`; empty when absent.
  std::optional<YAML::Node> Find(absl::string_view key) const;
  // Where `key` stands: "models[0].endpoint".
  std::string PathOf(absl::string_view key) const;
  absl::Status Error(absl::string_view key, absl::string_view what) const;

  absl::Status Read(absl::string_view key, std::string* out) const;
  absl::Status Read(absl::string_view key, bool* out) const;
  absl::Status Read(absl::string_view key, absl::Duration* out) const;
  absl::Status Read(absl::string_view key, double* out) const;
  absl::Status Read(absl::string_view key, std::optional<double>* out) const;
  // Counts like 1500, 10k and 5M.
  absl::Status Read(absl::string_view key, int64_t* out) const;
  absl::Status Read(absl::string_view key, int* out) const;

 private:
  struct Entry {
    std::string key;
    YAML::Node value;
  };

  YamlFields(YamlDocument* document, absl::string_view path) : document_(document), path_(path) {}
  // The scalar of `key`; nullptr when absent.
  absl::StatusOr<const Entry*> Scalar(absl::string_view key, absl::string_view wanted) const;

  YamlDocument* document_;
  std::string path_;
  std::vector<Entry> entries_;
};

// For messages: the text of a scalar, cut to a few bytes, or "a mapping", "a list", "nothing". Text
// that looks like a key is not shown.
std::string Describe(const YAML::Node& node);

}  // namespace headrace

#endif  // HEADRACE_COORDINATOR_JOB_YAML_FIELDS_H_
