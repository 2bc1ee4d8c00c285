// Plays one HTTP exchange to a reader, whole or one byte per read.
#ifndef HEADRACE_TESTS_UNIT_WORKER_PROVIDER_EXCHANGE_H_
#define HEADRACE_TESTS_UNIT_WORKER_PROVIDER_EXCHANGE_H_

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "absl/strings/string_view.h"
#include "common/base/secret.h"
#include "worker/http/http.h"
#include "worker/provider/codec.h"

namespace headrace::provider {

inline ModelConfig OpenAiModel(bool stream) {
  ModelConfig config;
  config.provider = "openai";
  config.name = "m";
  config.endpoint = "http://127.0.0.1:1/v1";
  config.stream = stream;
  return config;
}

inline ModelConfig AnthropicModel(bool stream) {
  ModelConfig config = OpenAiModel(stream);
  config.provider = "anthropic";
  return config;
}

struct Exchange {
  int status = 200;
  http::Headers headers = {{"content-type", "application/json"}};
  std::vector<std::string> pieces;
  http::CallEnd end = http::CallEnd::kComplete;
  http::TimerKind timer = http::TimerKind::kNone;
  int sends = 1;
  bool no_headers = false;
};

struct Played {
  Reply reply;
  std::vector<http::BodyVerdict> verdicts;
};

inline http::Headers EventStream() { return {{"content-type", "text/event-stream"}}; }

// Plays `exchange` to a new reader for an item of `item`, or of a plain prompt. As an engine does,
// it sends nothing more after kAbort, and then ends the call as aborted.
inline Played Play(const ModelConfig& config, const Exchange& exchange, ItemRequest item = {},
                   const std::string& key = "sk-test-0123456789") {
  Played played;
  std::unique_ptr<Codec> codec = MakeCodec(config, Secret(key)).value();
  if (item.body.empty()) item.user = "q";
  std::unique_ptr<ReplyReader> reader = codec->NewReader(codec->Build(item).value());
  http::CallResult result;
  result.end = exchange.end;
  result.timer = exchange.timer;
  result.sends = exchange.sends;
  if (!exchange.no_headers) {
    result.status = exchange.status;
    reader->OnHeaders(exchange.status, exchange.headers);
    for (const std::string& piece : exchange.pieces) {
      played.verdicts.push_back(reader->OnBody(piece));
      if (played.verdicts.back() == http::BodyVerdict::kAbort) {
        result.end = http::CallEnd::kAborted;
        break;
      }
    }
  }
  played.reply = reader->Finish(result);
  return played;
}

inline std::vector<std::string> Bytes(absl::string_view text) {
  std::vector<std::string> pieces;
  for (char c : text) pieces.emplace_back(1, c);
  return pieces;
}

// Plays a stream whole, and byte by byte, and checks that the reply is the same.
inline Reply PlayStream(const ModelConfig& config, const std::string& stream,
                        Exchange exchange = {}, ItemRequest item = {}) {
  exchange.headers = EventStream();
  exchange.pieces = {stream};
  Reply whole = Play(config, exchange, item).reply;
  exchange.pieces = Bytes(stream);
  const Reply bytes = Play(config, exchange, item).reply;
  EXPECT_EQ(ErrorClassName(bytes.error_class), ErrorClassName(whole.error_class)) << whole.message;
  EXPECT_EQ(bytes.body, whole.body);
  EXPECT_EQ(bytes.message, whole.message);
  EXPECT_EQ(bytes.flags, whole.flags);
  EXPECT_EQ(bytes.finish_reason, whole.finish_reason);
  return whole;
}

// A chat chunk with one choice.
inline std::string Chunk(const std::string& delta, const std::string& finish = "null") {
  return "data: {\"choices\":[{\"index\":0,\"delta\":" + delta + ",\"finish_reason\":" + finish +
         "}]}\n\n";
}

inline std::string Content(const std::string& escaped) {
  return Chunk("{\"content\":\"" + escaped + "\"}");
}

inline constexpr char kStop[] =
    "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
inline constexpr char kDone[] = "data: [DONE]\n\n";

}  // namespace headrace::provider

#endif  // HEADRACE_TESTS_UNIT_WORKER_PROVIDER_EXCHANGE_H_
