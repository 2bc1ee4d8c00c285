#include "coordinator/dataset/recognise.h"

#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/base/utf8.h"
#include "coordinator/dataset/record_reader.h"
#include "simdjson.h"

namespace headrace {
namespace {

using namespace std::string_view_literals;

absl::Status Invalid(const InputFile& file, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": ", what));
}

struct Signature {
  std::string_view bytes;
  absl::string_view name;
};

// First bytes of what people hand over by mistake.
constexpr Signature kForeign[] = {
    {"PAR1"sv, "a Parquet file"},
    {"PK\x03\x04"sv, "a ZIP archive or a spreadsheet"},
    {"ARROW1"sv, "an Arrow file"},
    {"BZh"sv, "compressed with bzip2"},
    {"\xFD"
     "7zXZ"sv,
     "compressed with xz"},
    {"\xFF\xFE"sv, "UTF-16 text"},
    {"\xFE\xFF"sv, "UTF-16 text"},
    {"SQLite format 3"sv, "an SQLite database"},
    {"\x93NUMPY"sv, "a NumPy file"},
    {"%PDF"sv, "a PDF"},
};

absl::Status CheckForeign(const InputFile& file, absl::string_view start) {
  for (const Signature& signature : kForeign) {
    if (!absl::StartsWith(start, {signature.bytes.data(), signature.bytes.size()})) continue;
    return Invalid(file,
                   absl::StrCat("is ", signature.name,
                                "; datasets are JSONL (also .gz or .zst), CSV, or OpenAI Batch "
                                "files, in UTF-8"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Compression> RecogniseCompression(const InputFile& file) {
  char bytes[16];
  HR_ASSIGN_OR_RETURN(const size_t size, file.ReadAt(0, bytes, sizeof(bytes)));
  const absl::string_view start(bytes, size);
  if (start.empty()) return Invalid(file, "is empty");
  HR_RETURN_IF_ERROR(CheckForeign(file, start));
  if (absl::StartsWith(start, "\x1F\x8B")) return Compression::kGzip;
  // RFC 8878 sections 3.1.1 and 3.1.2: a frame, or a skippable frame (16 magic numbers).
  const bool skippable =
      size >= 4 && (bytes[0] & 0xF0) == 0x50 && absl::StartsWith(start.substr(1), "\x2A\x4D\x18");
  if (skippable || absl::StartsWith(start, "\x28\xB5\x2F\xFD")) return Compression::kZstd;
  return Compression::kNone;
}

// True when `record` has "custom_id" and an object "body".
bool IsBatchLine(const Record& record) {
  simdjson::dom::parser parser;
  simdjson::dom::element root, body;
  if (parser.parse(record.text.data(), record.text.size(), false).get(root)) return false;
  return !root.at_key("body").get(body) && body.is_object() && !root.at_key("custom_id").get(body);
}

char GuessDelimiter(absl::string_view header) {
  bool quoted = false;
  std::set<char> found;
  for (char c : header) {
    if (c == '"') quoted = !quoted;
    if (!quoted && (c == ',' || c == '\t' || c == ';')) found.insert(c);
  }
  for (char c : {',', '\t', ';'}) {
    if (found.count(c) > 0) return c;
  }
  return ',';
}

absl::Status ReadCsvHeader(const InputFile& file, const Record& record, FileShape* shape) {
  const absl::string_view text = record.text;
  if (!IsValidUtf8(text)) return Invalid(file, "the first line is not UTF-8");
  std::string problem = ParseCsvRecord(text, shape->delimiter, &shape->header);
  if (problem.empty() && absl::StrContains(text, "\r")) {
    problem = "has carriage returns in it; lines must end in LF or CRLF";
  }
  if (!problem.empty()) {
    return Invalid(file, absl::StrCat("taken for CSV since it does not begin with '{', but the "
                                      "header ",
                                      problem));
  }
  std::set<std::string> names;
  for (std::string& name : shape->header) {
    name = std::string(absl::StripAsciiWhitespace(name));
    if (name.empty() || names.insert(name).second) continue;
    return Invalid(file,
                   absl::StrCat("the header names the column '", ExcerptUtf8(name, 60), "' twice"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<FileShape> RecogniseFile(const std::shared_ptr<InputFile>& file, bool has_prompt) {
  FileShape shape;
  HR_ASSIGN_OR_RETURN(shape.compression, RecogniseCompression(*file));
  Record record;
  {
    const std::unique_ptr<ByteSource> raw = MakeFileSource(file, 0, nullptr);
    const std::unique_ptr<ByteSource> source =
        MakeDecoder(shape.compression, raw.get(), file->path());
    const std::unique_ptr<RecordReader> lines = MakeLineReader(source.get(), RecordStart());
    HR_ASSIGN_OR_RETURN(const bool found, lines->Next(&record));
    if (!found) return Invalid(*file, "has no rows, only blank lines");
    const absl::string_view text = absl::StripLeadingAsciiWhitespace(record.text);
    HR_RETURN_IF_ERROR(CheckForeign(*file, text));
    if (absl::StartsWith(text, "{") || record.too_long) {
      const bool batch = !has_prompt && !record.too_long && IsBatchLine(record);
      shape.format = batch ? DatasetFormat::kOpenAiBatch : DatasetFormat::kJsonl;
      return shape;
    }
    if (absl::StartsWith(text, "[")) {
      return Invalid(*file, "begins with '[', so it is one JSON list; write one object per line");
    }
    shape.delimiter = GuessDelimiter(record.text);
  }
  shape.format = DatasetFormat::kCsv;
  const std::unique_ptr<ByteSource> raw = MakeFileSource(file, 0, nullptr);
  const std::unique_ptr<ByteSource> source =
      MakeDecoder(shape.compression, raw.get(), file->path());
  const std::unique_ptr<RecordReader> records =
      MakeCsvReader(source.get(), shape.delimiter, RecordStart());
  HR_ASSIGN_OR_RETURN(const bool found, records->Next(&record));
  if (!found || record.too_long) return Invalid(*file, "has no CSV header");
  HR_RETURN_IF_ERROR(ReadCsvHeader(*file, record, &shape));
  return shape;
}

}  // namespace headrace
