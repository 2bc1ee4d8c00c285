#include "worker/probe/prober.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/async/scope.h"
#include "common/async/wait.h"
#include "common/quota/estimator.h"
#include "worker/provider/rate_headers.h"

namespace headrace::probe {
namespace {

// Passes a response on and keeps what of its head speaks of limits.
class HeaderTap final : public http::Receiver {
 public:
  explicit HeaderTap(http::Receiver* next) : next_(next) {}

  void OnHeaders(int status, http::Headers headers) override {
    for (const auto& [name, value] : headers) {
      if (IsLimitHeader(name)) limits_.emplace_back(name, value);
      if (name == "date") date_ = provider::ParseHttpDate(value);
    }
    next_->OnHeaders(status, std::move(headers));
  }
  http::BodyVerdict OnBody(absl::string_view piece) override { return next_->OnBody(piece); }

  http::Headers& limits() { return limits_; }
  std::optional<absl::Time> date() const { return date_; }

 private:
  http::Receiver* const next_;
  http::Headers limits_;
  std::optional<absl::Time> date_;
};

Fate FateOf(const provider::Reply& reply) {
  switch (reply.error_class) {
    case ErrorClass::kNone:
    case ErrorClass::kEmptyAnswer:
    case ErrorClass::kRefusal:
    case ErrorClass::kContentFilter:
    case ErrorClass::kTruncatedOutput:
      return reply.http_status == 200 ? Fate::kAnswered : Fate::kRefused;
    case ErrorClass::kRateLimited:
    case ErrorClass::kRamp:
      return Fate::kThrottled;
    case ErrorClass::kNeverFits:
    case ErrorClass::kBadRequest:
    case ErrorClass::kConfig:
    case ErrorClass::kSchema:
      return Fate::kRefused;
    default:
      return Fate::kFailed;
  }
}

// A count that a request of ours can have had; anything else is nonsense of the provider's.
void DropNonsense(std::optional<int64_t>* tokens) {
  constexpr int64_t kMost = 1'000'000'000;
  if (*tokens && (**tokens < 0 || **tokens > kMost)) tokens->reset();
}

}  // namespace

std::string PromptOfWords(int64_t words, bool long_answer) {
  // Common words, each one token in the usual vocabularies.
  static constexpr absl::string_view kWords[] = {
      "river", "stone", "green", "table", "water", "light", "paper", "horse", "north", "glass",
      "wheel", "cloud", "field", "apple", "night", "sound", "earth", "small", "house", "plant"};
  std::string prompt =
      long_answer
          ? "Write the numbers from 1 to 80 in digits, with spaces between. Ignore these words:"
          : "Reply with the single word OK and nothing else. Ignore these words:";
  uint64_t state = 1;
  for (int64_t i = 0; i < words; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
    absl::StrAppend(&prompt, " ", kWords[(state >> 33) % std::size(kWords)]);
  }
  return prompt;
}

Prober::Prober(Reactor* reactor, http::Engine* engine, ProberOptions options)
    : reactor_(reactor), engine_(engine), options_(std::move(options)), start_(reactor->Now()) {}

double Prober::Seconds(MonoTime at) const { return absl::ToDoubleSeconds(at - start_); }

absl::Status Prober::Check() { return CodecFor(Ask{}, false).status(); }

absl::StatusOr<const provider::Codec*> Prober::CodecFor(const Ask& ask, bool completion_tokens) {
  const absl::string_view name =
      completion_tokens && options_.provider == "openai" ? "max_completion_tokens" : "max_tokens";
  // No provider takes this temperature: OpenAI's end at 2, Anthropic's at 1.
  const std::string params =
      absl::StrCat("{\"", name, "\":", ask.max_tokens, ask.wrong ? ",\"temperature\":1000}" : "}");
  std::unique_ptr<provider::Codec>& codec = codecs_[params];
  if (codec == nullptr) {
    provider::ModelConfig config;
    config.provider = options_.provider;
    config.name = options_.model;
    config.endpoint = options_.endpoint;
    config.params_json = params;
    absl::StatusOr<std::unique_ptr<provider::Codec>> made =
        provider::MakeCodec(std::move(config), options_.key);
    if (!made.ok()) return made.status();
    codec = *std::move(made);
  }
  return codec.get();
}

Task<void> Prober::Call(const Plan* plan, Ask ask, Answer* answer, StopToken stop) {
  answer->ask = ask;
  const absl::StatusOr<const provider::Codec*> codec = CodecFor(ask, plan->completion_tokens());
  const std::string prompt = PromptOfWords(ask.prompt_words, ask.long_answer);
  provider::ItemRequest item;
  item.user = prompt;
  absl::StatusOr<provider::BuiltRequest> built =
      codec.ok() ? (*codec)->Build(item) : absl::StatusOr<provider::BuiltRequest>(codec.status());
  if (!built.ok()) {
    answer->error_class = ErrorClass::kConfig;
    answer->fate = Fate::kRefused;
    answer->message = std::string(built.status().message());
    co_return;
  }
  built->request.timeouts.total = options_.call_timeout;
  built->request.timeouts.first_byte = options_.call_timeout;
  // Four letters to a token: the words are five and a space, and each is one.
  answer->expected_prompt_tokens = static_cast<double>(ask.prompt_words) + 20;
  const std::unique_ptr<provider::ReplyReader> reader = (*codec)->NewReader(*built);
  HeaderTap tap(reader.get());
  const http::CallResult result = co_await engine_->Call(&built->request, &tap, stop);
  const provider::Reply reply = reader->Finish(result);
  answer->sent_s = Seconds(result.stamps.sent.value_or(result.stamps.queued));
  answer->end_s = Seconds(result.stamps.end);
  answer->head_s = result.stamps.headers ? Seconds(*result.stamps.headers) : answer->end_s;
  answer->status = reply.http_status;
  answer->error_class =
      result.end == http::CallEnd::kCancelled ? ErrorClass::kCancelled : reply.error_class;
  answer->message = reply.message;
  answer->fate = FateOf(reply);
  answer->usage = reply.usage;
  DropNonsense(&answer->usage.prompt_tokens);
  DropNonsense(&answer->usage.completion_tokens);
  DropNonsense(&answer->usage.cached_tokens);
  answer->rate = reply.rate;
  answer->limit_headers = std::move(tap.limits());
  answer->retry_after = reply.retry_after;
  answer->figures = quota::ReadThrottleFigures(reply.message);
  answer->throttled_by = reply.penalty_dimension;
  answer->server_time = tap.date();
}

Task<void> Prober::Run(Plan* plan, std::function<void(const Answer&)> told, StopToken stop) {
  while (std::optional<Ask> ask = plan->Next()) {
    Sleep wait(reactor_, ask->wait, stop);
    const bool waited = co_await wait;
    if (!waited) co_return;
    std::vector<Answer> answers(static_cast<size_t>(ask->copies));
    TaskScope scope(reactor_, stop);
    for (Answer& answer : answers) scope.Spawn(Call(plan, *ask, &answer, scope.token()));
    co_await scope.Join();
    for (Answer& answer : answers) {
      answer.overlapped = answers.size() > 1;
      if (answer.error_class == ErrorClass::kCancelled) continue;
      told(answer);
      plan->Add(std::move(answer));
    }
    if (stop.stopped()) co_return;
  }
}

}  // namespace headrace::probe
