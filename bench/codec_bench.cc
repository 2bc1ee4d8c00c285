// Cost of reading answers: nanoseconds per streamed event (parsed, assembled, judged) and
// microseconds per answer of about 1 KB without streaming. One thread, no sockets.
//
//   codec_bench [repetitions]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "common/base/secret.h"
#include "worker/provider/codec.h"
#include "worker/provider/sse.h"

namespace {

namespace http = headrace::http;
namespace provider = headrace::provider;

using Clock = std::chrono::steady_clock;

double Nanos(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// A chunk as OpenAI sends it, about 240 bytes.
std::string Chunk(const std::string& delta, const std::string& finish) {
  return "data: {\"id\":\"chatcmpl-9b2c4d6e8f0a1b2c3d4e5f60\",\"object\":\"chat.completion.chunk\","
         "\"created\":1764400000,\"model\":\"gpt-4o-mini-2024-07-18\",\"system_fingerprint\":"
         "\"fp_44709d6fcb\",\"choices\":[{\"index\":0,\"delta\":" +
         delta + ",\"logprobs\":null,\"finish_reason\":" + finish + "}]}\n\n";
}

std::unique_ptr<provider::Codec> MakeCodec(bool stream) {
  provider::ModelConfig config;
  config.provider = "openai";
  config.name = "m";
  config.endpoint = "http://127.0.0.1:1/v1";
  config.stream = stream;
  return provider::MakeCodec(std::move(config), headrace::Secret("k")).value();
}

// Plays `pieces` to a reader; false when the answer was not accepted.
bool Play(const provider::Codec& codec, const provider::BuiltRequest& request, const char* type,
          const std::vector<std::string>& pieces) {
  std::unique_ptr<provider::ReplyReader> reader = codec.NewReader(request);
  reader->OnHeaders(200, {{"content-type", type}, {"x-request-id", "req_1"}});
  for (const std::string& piece : pieces) reader->OnBody(piece);
  http::CallResult result;
  result.end = http::CallEnd::kComplete;
  result.sends = 1;
  return reader->Finish(result).error_class == headrace::ErrorClass::kNone;
}

void BenchEvents(int repetitions) {
  constexpr int kEvents = 500;
  const std::unique_ptr<provider::Codec> codec = MakeCodec(true);
  provider::ItemRequest item;
  item.user = "q";
  const provider::BuiltRequest request = codec->Build(item).value();
  std::vector<std::string> pieces;
  for (int i = 0; i < kEvents; ++i) pieces.push_back(Chunk("{\"content\":\" word\"}", "null"));
  pieces.push_back(Chunk("{}", "\"stop\""));
  pieces.push_back("data: [DONE]\n\n");

  Clock::time_point start = Clock::now();
  int64_t events = 0;
  for (int i = 0; i < repetitions; ++i) {
    provider::SseParser parser;
    provider::SseEvent event;
    for (const std::string& piece : pieces) {
      parser.Feed(piece);
      while (parser.Next(&event) == provider::SseParser::Step::kEvent) ++events;
    }
  }
  std::printf("sse parser alone:           %7.0f ns per event\n",
              Nanos(start) / static_cast<double>(events));

  start = Clock::now();
  for (int i = 0; i < repetitions; ++i) {
    if (!Play(*codec, request, "text/event-stream", pieces)) std::abort();
  }
  std::printf("parsed, assembled, judged:  %7.0f ns per event of %zu bytes, streams of %d\n",
              Nanos(start) / (static_cast<double>(repetitions) * (kEvents + 2)), pieces[0].size(),
              kEvents);
}

void BenchAnswers(int repetitions) {
  const std::unique_ptr<provider::Codec> codec = MakeCodec(false);
  provider::ItemRequest item;
  item.user = "q";
  const provider::BuiltRequest request = codec->Build(item).value();
  std::string text;
  while (text.size() < 600) text += "A sentence of an answer.\\n";
  const std::string body =
      "{\n  \"id\": \"chatcmpl-1\",\n  \"object\": \"chat.completion\",\n  \"model\": \"m\",\n"
      "  \"choices\": [\n    {\n      \"index\": 0,\n      \"message\": {\n        \"role\": "
      "\"assistant\",\n        \"content\": \"" +
      text +
      "\",\n        \"refusal\": null\n      },\n      \"logprobs\": null,\n      "
      "\"finish_reason\": \"stop\"\n    }\n  ],\n  \"usage\": {\n    \"prompt_tokens\": 100,\n    "
      "\"completion_tokens\": 150,\n    \"prompt_tokens_details\": {\"cached_tokens\": 0}\n  "
      "}\n}\n";
  const std::vector<std::string> pieces = {body};
  const Clock::time_point start = Clock::now();
  const int answers = repetitions * 100;
  for (int i = 0; i < answers; ++i) {
    if (!Play(*codec, request, "application/json", pieces)) std::abort();
  }
  std::printf("answer without streaming:   %7.2f us per answer of %zu bytes\n",
              Nanos(start) / 1e3 / answers, body.size());
}

}  // namespace

int main(int argc, char** argv) {
  const int repetitions = argc > 1 ? std::atoi(argv[1]) : 1000;
  BenchEvents(repetitions);
  BenchAnswers(repetitions);
  return 0;
}
