#include "simulator/answer.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "simulator/request.h"

namespace headrace::simulator {
namespace {

// Mostly plain words, a few that need escapes or several bytes in UTF-8. With a leading space.
constexpr absl::string_view kWords[] = {
    " the",
    " water",
    " wheel",
    " turns",
    " slowly",
    " under",
    " a",
    " steady",
    " flow",
    " and",
    " mill",
    " grinds",
    " grain",
    " into",
    " flour",
    " for",
    " bread",
    " while",
    " river",
    " runs",
    " past",
    " stones",
    " of",
    " an",
    " old",
    " bridge",
    " where",
    " children",
    " throw",
    " pebbles",
    " at",
    " noon",
    " each",
    " gate",
    " opens",
    " when",
    " pond",
    " is",
    " full",
    " so",
    " that",
    " no",
    " drop",
    " goes",
    " to",
    " waste",
    " or",
    " floods",
    " caf\u00e9",
    " na\u00efve",
    " \u6c34\u8eca",
    " \U0001F30A",
    " \\\"quoted\\\"",
    " 42",
    " 3.14",
    " line\\n",
    " first,",
    " second;",
    " third:",
    " (so)",
    " A",
    " B",
    " C",
    " D.",
};
static_assert(std::size(kWords) == 64);

constexpr absl::string_view kFirstWords[] = {"The", "A",     "Yes,",          "No,",
                                             "42",  "Water", "\u00c9t\u00e9", "First"};
static_assert(std::size(kFirstWords) == 8);

uint64_t TokenBits(uint64_t hash, int64_t index) {
  // splitmix64 (Steele, Lea and Flood, 2014): random access, so no state per stream is needed.
  uint64_t z = hash + static_cast<uint64_t>(index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

// Looks like a time stamp, but depends on the request only.
int64_t Created(const AnswerSpec& spec) {
  return 1'760'000'000 + static_cast<int64_t>(spec.hash % 1'000'000);
}

std::string Id(const AnswerSpec& spec) {
  return absl::StrCat(absl::Hex(spec.hash, absl::kZeroPad16));
}

absl::string_view OpenAiFinish(const AnswerSpec& spec) { return spec.cut ? "length" : "stop"; }
absl::string_view AnthropicFinish(const AnswerSpec& spec) {
  return spec.cut ? "max_tokens" : "end_turn";
}

void AppendOpenAiUsage(const AnswerSpec& spec, std::string* out) {
  const int64_t completion = spec.completion_tokens * spec.choices;
  absl::StrAppend(out, "{\"prompt_tokens\":", spec.prompt_tokens,
                  ",\"completion_tokens\":", completion,
                  ",\"total_tokens\":", spec.prompt_tokens + completion,
                  ",\"prompt_tokens_details\":{\"cached_tokens\":", spec.cached_tokens,
                  "},\"completion_tokens_details\":{\"reasoning_tokens\":0}}");
}

void AppendOpenAiBody(const AnswerSpec& spec, std::string* out) {
  const bool chat = spec.endpoint == Endpoint::kChat;
  absl::StrAppend(out, "{\"id\":\"", chat ? "chatcmpl-" : "cmpl-", Id(spec), "\",\"object\":\"",
                  chat ? "chat.completion" : "text_completion", "\",\"created\":", Created(spec),
                  ",\"model\":\"", spec.model, "\",\"choices\":[");
  for (int64_t i = 0; i < spec.choices; ++i) {
    absl::StrAppend(out, i > 0 ? "," : "", "{\"index\":", i,
                    chat ? ",\"message\":{\"role\":\"assistant\",\"content\":\"" : ",\"text\":\"");
    AppendText(spec, out);
    absl::StrAppend(out, chat ? "\",\"refusal\":null}" : "\"",
                    ",\"logprobs\":null,\"finish_reason\":\"", OpenAiFinish(spec), "\"}");
  }
  absl::StrAppend(out, "],\"usage\":");
  AppendOpenAiUsage(spec, out);
  absl::StrAppend(out, ",\"system_fingerprint\":\"fp_simulator\"}");
}

void AppendEmbeddings(const AnswerSpec& spec, std::string* out) {
  absl::StrAppend(out, "{\"object\":\"list\",\"data\":[");
  for (int64_t i = 0; i < spec.inputs; ++i) {
    absl::StrAppend(out, i > 0 ? "," : "", "{\"object\":\"embedding\",\"index\":", i,
                    ",\"embedding\":[");
    for (int64_t d = 0; d < 16; ++d) {
      const auto thousandths = static_cast<int64_t>(TokenBits(spec.hash + i, d) % 2001) - 1000;
      absl::StrAppend(out, d > 0 ? "," : "", static_cast<double>(thousandths) / 1000);
    }
    absl::StrAppend(out, "]}");
  }
  absl::StrAppend(out, "],\"model\":\"", spec.model,
                  "\",\"usage\":{\"prompt_tokens\":", spec.prompt_tokens,
                  ",\"total_tokens\":", spec.prompt_tokens, "}}");
}

void AppendAnthropicBody(const AnswerSpec& spec, std::string* out) {
  absl::StrAppend(out, "{\"id\":\"msg_", Id(spec),
                  "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"", spec.model,
                  "\",\"content\":[{\"type\":\"text\",\"text\":\"");
  AppendText(spec, out);
  absl::StrAppend(out, "\"}],\"stop_reason\":\"", AnthropicFinish(spec),
                  "\",\"stop_sequence\":null,\"usage\":{\"input_tokens\":",
                  spec.prompt_tokens - spec.cached_tokens,
                  ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":",
                  spec.cached_tokens, ",\"output_tokens\":", spec.completion_tokens, "}}");
}

}  // namespace

absl::string_view Token(const AnswerSpec& spec, int64_t index) {
  if (index == 0 && !spec.first_word.empty()) return spec.first_word;
  const uint64_t bits = TokenBits(spec.hash, index);
  return index == 0 ? kFirstWords[bits % std::size(kFirstWords)] : kWords[bits % std::size(kWords)];
}

void AppendText(const AnswerSpec& spec, std::string* out) {
  for (int64_t i = 0; i < spec.completion_tokens; ++i) {
    const absl::string_view token = Token(spec, i);
    out->append(token.data(), token.size());
  }
}

void AppendBody(const AnswerSpec& spec, std::string* out) {
  if (spec.endpoint == Endpoint::kEmbeddings) return AppendEmbeddings(spec, out);
  out->reserve(out->size() + 700 + static_cast<size_t>(spec.completion_tokens * spec.choices) * 9);
  if (IsAnthropic(spec.endpoint)) return AppendAnthropicBody(spec, out);
  AppendOpenAiBody(spec, out);
}

EventWriter::EventWriter(AnswerSpec spec) : spec_(std::move(spec)) {
  if (IsAnthropic(spec_.endpoint)) {
    head_ =
        "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":"
        "{\"type\":\"text_delta\",\"text\":\"";
    tail_ = "\"}}\n\n";
    return;
  }
  const bool chat = spec_.endpoint == Endpoint::kChat;
  const absl::string_view usage = spec_.include_usage ? ",\"usage\":null" : "";
  head_ = absl::StrCat("data: {\"id\":\"", chat ? "chatcmpl-" : "cmpl-", Id(spec_),
                       "\",\"object\":\"", chat ? "chat.completion.chunk" : "text_completion",
                       "\",\"created\":", Created(spec_), ",\"model\":\"", spec_.model,
                       "\",\"system_fingerprint\":\"fp_simulator\"", usage, ",\"choices\":[");
  tail_ = absl::StrCat(chat ? "\"}" : "\"", ",\"logprobs\":null,\"finish_reason\":null}]}\n\n");
}

bool EventWriter::Next(std::string* out) {
  if (next_ >= spec_.completion_tokens) return false;
  const bool last = next_ + 1 == spec_.completion_tokens;
  if (IsAnthropic(spec_.endpoint)) {
    AnthropicToken(out);
    if (last) AnthropicEnd(out);
  } else {
    OpenAiToken(out);
    if (last) OpenAiEnd(out);
  }
  ++next_;
  return true;
}

void EventWriter::OpenAiToken(std::string* out) {
  const bool chat = spec_.endpoint == Endpoint::kChat;
  if (next_ == 0 && chat) {
    for (int64_t i = 0; i < spec_.choices; ++i) {
      absl::StrAppend(out, head_, "{\"index\":", i,
                      ",\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},"
                      "\"logprobs\":null,\"finish_reason\":null}]}\n\n");
    }
  }
  for (int64_t i = 0; i < spec_.choices; ++i) {
    absl::StrAppend(out, head_, "{\"index\":", i,
                    chat ? ",\"delta\":{\"content\":\"" : ",\"text\":\"", Token(spec_, next_),
                    tail_);
  }
}

void EventWriter::OpenAiEnd(std::string* out) {
  for (int64_t i = 0; i < spec_.choices; ++i) {
    absl::StrAppend(out, head_, "{\"index\":", i,
                    spec_.endpoint == Endpoint::kChat ? ",\"delta\":{}" : ",\"text\":\"\"",
                    ",\"logprobs\":null,\"finish_reason\":\"", OpenAiFinish(spec_), "\"}]}\n\n");
  }
  if (spec_.include_usage) {
    const std::string null = ",\"usage\":null,\"choices\":[";
    absl::StrAppend(out, head_.substr(0, head_.size() - null.size()), ",\"choices\":[],\"usage\":");
    AppendOpenAiUsage(spec_, out);
    absl::StrAppend(out, "}\n\n");
  }
  absl::StrAppend(out, "data: [DONE]\n\n");
}

void EventWriter::AnthropicToken(std::string* out) {
  if (next_ == 0) {
    absl::StrAppend(
        out, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_",
        Id(spec_), "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"", spec_.model,
        "\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{"
        "\"input_tokens\":",
        spec_.prompt_tokens - spec_.cached_tokens,
        ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":", spec_.cached_tokens,
        ",\"output_tokens\":1}}}\n\n"
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
        "event: ping\ndata: {\"type\": \"ping\"}\n\n");
  }
  absl::StrAppend(out, head_, Token(spec_, next_), tail_);
}

void EventWriter::AnthropicEnd(std::string* out) {
  absl::StrAppend(
      out,
      "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"",
      AnthropicFinish(spec_),
      "\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":", spec_.completion_tokens,
      "}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
}

}  // namespace headrace::simulator
