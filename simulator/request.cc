#include "simulator/request.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace headrace::simulator {
namespace {

// Containers nested deeper are an invalid body.
constexpr int kMaxDepth = 256;

enum class Under : uint8_t { kOther, kPrompt, kInput, kStreamOptions };

class Scanner {
 public:
  explicit Scanner(absl::string_view body) : text_(body) {}

  BodyFacts Run() {
    SkipSpace();
    if (at_ >= text_.size() || text_[at_] != '{') return facts_;
    facts_.valid = Object(1);
    SkipSpace();
    if (at_ != text_.size()) facts_.valid = false;
    return facts_;
  }

 private:
  void SkipSpace() {
    while (at_ < text_.size() && absl::ascii_isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  // At an opening quote; *value gets what is between the quotes.
  bool String(absl::string_view* value) {
    const size_t begin = ++at_;
    while (true) {
      const void* quote = memchr(text_.data() + at_, '"', text_.size() - at_);
      if (quote == nullptr) return false;
      const size_t end = static_cast<const char*>(quote) - text_.data();
      size_t slashes = 0;
      while (end - slashes > begin && text_[end - slashes - 1] == '\\') ++slashes;
      at_ = end + 1;
      if (slashes % 2 == 0) {
        *value = text_.substr(begin, end - begin);
        return true;
      }
    }
  }

  bool Value(int depth) {
    SkipSpace();
    if (at_ >= text_.size() || depth > kMaxDepth) return false;
    if (text_[at_] == '{') return Object(depth + 1);
    if (text_[at_] == '[') return Array(depth + 1);
    if (text_[at_] == '"') {
      absl::string_view value;
      if (!String(&value)) return false;
      if (under_ == Under::kPrompt || under_ == Under::kInput) {
        facts_.prompt_bytes += static_cast<int64_t>(value.size());
      }
      return true;
    }
    return !Scalar().empty();
  }

  absl::string_view Scalar() {
    const size_t begin = at_;
    while (at_ < text_.size() && strchr(",]} \t\r\n", text_[at_]) == nullptr) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  bool Array(int depth) {
    ++at_;
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == ']') return ++at_, true;
    int64_t elements = 0;
    while (true) {
      if (!Value(depth)) return false;
      ++elements;
      SkipSpace();
      if (at_ >= text_.size()) return false;
      const char c = text_[at_++];
      if (c == ']') break;
      if (c != ',') return false;
    }
    if (depth == 2 && under_ == Under::kInput) facts_.inputs = elements;
    return true;
  }

  bool Object(int depth) {
    ++at_;
    SkipSpace();
    if (at_ < text_.size() && text_[at_] == '}') return ++at_, true;
    while (true) {
      SkipSpace();
      absl::string_view key;
      if (at_ >= text_.size() || text_[at_] != '"' || !String(&key)) return false;
      SkipSpace();
      if (at_ >= text_.size() || text_[at_++] != ':') return false;
      SkipSpace();
      if (!Member(key, depth)) return false;
      SkipSpace();
      if (at_ >= text_.size()) return false;
      const char c = text_[at_++];
      if (c == '}') return true;
      if (c != ',') return false;
    }
  }

  bool Member(absl::string_view key, int depth) {
    if (depth == 2 && under_ == Under::kStreamOptions && key == "include_usage") {
      facts_.include_usage = Scalar() == "true";
      return true;
    }
    if (depth != 1) return Value(depth);
    under_ = Under::kOther;
    if (key == "model" && at_ < text_.size() && text_[at_] == '"') return String(&facts_.model);
    if (key == "stream") {
      facts_.stream = Scalar() == "true";
      return true;
    }
    if (key == "max_tokens" || key == "max_completion_tokens" || key == "max_output_tokens") {
      return Integer(&facts_.max_tokens);
    }
    if (key == "temperature" && at_ < text_.size() && absl::ascii_isdigit(text_[at_])) {
      if (!absl::SimpleAtod(Scalar(), &facts_.temperature)) facts_.temperature = 0;
      return true;
    }
    if (key == "n") {
      if (!Integer(&facts_.choices)) return false;
      facts_.choices = std::clamp<int64_t>(facts_.choices, 1, 16);
      return true;
    }
    if (key == "messages" || key == "prompt" || key == "system") under_ = Under::kPrompt;
    if (key == "input") under_ = Under::kInput;
    if (key == "stream_options") under_ = Under::kStreamOptions;
    return Value(depth);
  }

  bool Integer(int64_t* value) {
    const absl::string_view text = Scalar();
    if (text == "null") return true;
    return absl::SimpleAtoi(text, value);
  }

  const absl::string_view text_;
  size_t at_ = 0;
  Under under_ = Under::kOther;
  BodyFacts facts_;
};

uint64_t Mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

}  // namespace

void Request::AddHeader(absl::string_view name, absl::string_view value) {
  if (name == "authorization") {
    if (absl::StartsWithIgnoreCase(value, "bearer ")) value.remove_prefix(7);
    key.assign(value.data(), value.size());
  } else if (name == "x-api-key" || name == "api-key") {
    key.assign(value.data(), value.size());
  } else if (name == "x-headrace-item") {
    item.assign(value.data(), value.size());
  } else if (name == "x-sim-fault") {
    forced_fault.assign(value.data(), value.size());
  } else if (name == "x-sim-barrier") {
    barrier.assign(value.data(), value.size());
  } else if (name == "accept-encoding") {
    accepts_zstd = absl::StrContains(value, "zstd");
  }
}

void Request::SetTarget(absl::string_view target) {
  const size_t question = target.find('?');
  const absl::string_view before = target.substr(0, question);
  path.assign(before.data(), before.size());
  if (question == absl::string_view::npos) return;
  const absl::string_view after = target.substr(question + 1);
  query.assign(after.data(), after.size());
  for (absl::string_view field : absl::StrSplit(after, '&')) {
    if (absl::ConsumePrefix(&field, "x-sim-barrier=")) barrier.assign(field.data(), field.size());
    if (absl::ConsumePrefix(&field, "x-sim-fault=")) {
      forced_fault.assign(field.data(), field.size());
    }
  }
}

BodyFacts ScanBody(absl::string_view body) { return Scanner(body).Run(); }

uint64_t StableHash(absl::string_view data, uint64_t seed) {
  // The mixing step of wyhash (Wang Yi, public domain) over 8-byte pieces, little endian.
  constexpr uint64_t kA = 0xa0761d6478bd642f;
  constexpr uint64_t kB = 0xe7037ed1a0b428db;
  uint64_t hash = Mix(seed ^ kA, data.size() ^ kB);
  while (data.size() >= 8) {
    uint64_t piece;
    memcpy(&piece, data.data(), 8);
    hash = Mix(hash ^ piece ^ kA, kB ^ (piece >> 1));
    data.remove_prefix(8);
  }
  uint64_t tail = 0;
  memcpy(&tail, data.data(), data.size());
  return Mix(hash ^ tail ^ kB, kA ^ (hash << 1));
}

}  // namespace headrace::simulator
