#include "common/redis/reply.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace headrace::redis {
namespace {

void Append(const Reply& reply, size_t limit, std::string* out) {
  if (out->size() >= limit) return;
  const absl::string_view text = absl::string_view(reply.text).substr(0, limit - out->size());
  switch (reply.type) {
    case Reply::Type::kNil:
      absl::StrAppend(out, "(nil)");
      return;
    case Reply::Type::kInteger:
      absl::StrAppend(out, reply.integer);
      return;
    case Reply::Type::kString:
      absl::StrAppend(out, "\"", absl::CHexEscape(text), "\"");
      return;
    case Reply::Type::kStatus:
      absl::StrAppend(out, "+", absl::CHexEscape(text));
      return;
    case Reply::Type::kError:
      absl::StrAppend(out, "-", absl::CHexEscape(text));
      return;
    case Reply::Type::kArray:
      absl::StrAppend(out, "[");
      for (size_t i = 0; i < reply.elements.size() && out->size() < limit; ++i) {
        if (i > 0) absl::StrAppend(out, ", ");
        Append(reply.elements[i], limit, out);
      }
      absl::StrAppend(out, "]");
      return;
  }
}

}  // namespace

std::optional<int64_t> Reply::AsInteger() const {
  if (type == Type::kInteger) return integer;
  int64_t value = 0;
  if (is_text() && absl::SimpleAtoi(text, &value)) return value;
  return std::nullopt;
}

const Reply& Reply::At(size_t index) const {
  static const Reply* const nil = new Reply();
  return index < elements.size() ? elements[index] : *nil;
}

std::string Reply::ToString(size_t limit) const {
  std::string out;
  Append(*this, limit, &out);
  if (out.size() >= limit) absl::StrAppend(&out, "...");
  return out;
}

Reply NilReply() { return Reply(); }

Reply IntegerReply(int64_t value) {
  Reply reply;
  reply.type = Reply::Type::kInteger;
  reply.integer = value;
  return reply;
}

Reply StringReply(absl::string_view text) {
  Reply reply;
  reply.type = Reply::Type::kString;
  reply.text = std::string(text);
  return reply;
}

Reply ErrorReply(absl::string_view text) {
  Reply reply;
  reply.type = Reply::Type::kError;
  reply.text = std::string(text);
  return reply;
}

Reply ArrayReply(std::vector<Reply> elements) {
  Reply reply;
  reply.type = Reply::Type::kArray;
  reply.elements = std::move(elements);
  return reply;
}

bool operator==(const Reply& a, const Reply& b) {
  return a.type == b.type && a.integer == b.integer && a.text == b.text && a.elements == b.elements;
}

}  // namespace headrace::redis
