// The faults that are another status or another body.
#include <utility>

#include "absl/strings/str_cat.h"
#include "simulator/plan.h"

namespace headrace::simulator {
namespace {

void Hint(Plan* plan, absl::string_view name, std::string value) {
  plan->headers.emplace_back(std::string(name.data(), name.size()), std::move(value));
}

void Html(int status, absl::string_view title, Plan* plan) {
  *plan = Plan{};
  plan->status = status;
  plan->content_type = "text/html; charset=UTF-8";
  plan->whole = absl::StrCat("<html>\r\n<head><title>", title, "</title></head>\r\n<body>\r\n<h1>",
                             title, "</h1>\r\n<hr>\r\n</body>\r\n</html>\r\n");
}

void Json(int status, absl::string_view body, Plan* plan) {
  *plan = Plan{};
  plan->status = status;
  plan->whole.assign(body.data(), body.size());
}

// 429 in all its meanings.
bool RateFault(Fault fault, bool anthropic, absl::Time wall, Plan* plan) {
  const auto rate_limit = [&] {
    *plan = ErrorPlan(429, anthropic, anthropic ? "rate_limit_error" : "tokens",
                      "rate_limit_exceeded", "Rate limit reached.");
  };
  switch (fault) {
    case Fault::k429Date: {
      rate_limit();
      const char* format = "%a, %d %b %Y %H:%M:%S GMT";
      Hint(plan, "date", absl::FormatTime(format, wall, absl::UTCTimeZone()));
      Hint(plan, "retry-after",
           absl::FormatTime(format, wall + absl::Seconds(2), absl::UTCTimeZone()));
      return true;
    }
    case Fault::k429Huge:
      rate_limit();
      Hint(plan, "retry-after", "86400");
      return true;
    case Fault::k429Bare:
      rate_limit();
      return true;
    case Fault::k429Ms:
      rate_limit();
      Hint(plan, "retry-after-ms", "150");
      return true;
    case Fault::kInsufficientQuota:
      if (anthropic) {
        Json(429,
             "{\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"Your "
             "organization has reached its spend limit.\",\"details\":{\"error_code\":"
             "\"enforced_spend_limit_reached\"}}}",
             plan);
        return true;
      }
      *plan = ErrorPlan(429, false, "insufficient_quota", "insufficient_quota",
                        "You exceeded your current quota, please check your plan and billing "
                        "details.");
      return true;
    case Fault::kDashscopeThrottle:
      *plan = ErrorPlan(429, false, "insufficient_quota", "Throttling.AllocationQuota",
                        "Allocated quota exceeded, please increase your quota limit.");
      return true;
    case Fault::kAzureQuotaWait:
      *plan =
          ErrorPlan(429, false, "insufficient_quota", "insufficient_quota",
                    "Requests have exceeded the token rate limit. Please retry after 1 second.");
      Hint(plan, "retry-after", "1");
      return true;
    case Fault::kRetryInfoBody:
      Json(429,
           "{\"error\":{\"code\":429,\"message\":\"Resource has been exhausted.\",\"status\":"
           "\"RESOURCE_EXHAUSTED\",\"details\":[{\"@type\":\"type.googleapis.com/"
           "google.rpc.RetryInfo\",\"retryDelay\":\"1.250000001s\"}]}}",
           plan);
      return true;
    case Fault::kDailyQuota:
      Json(429,
           "{\"error\":{\"code\":429,\"message\":\"You exceeded your current quota. Please retry "
           "in 1.2s.\",\"status\":\"RESOURCE_EXHAUSTED\",\"details\":[{\"@type\":"
           "\"type.googleapis.com/google.rpc.QuotaFailure\",\"violations\":[{\"quotaMetric\":"
           "\"generativelanguage.googleapis.com/generate_requests\",\"quotaId\":"
           "\"GenerateRequestsPerDayPerProjectPerModel\"}]},{\"@type\":\"type.googleapis.com/"
           "google.rpc.RetryInfo\",\"retryDelay\":\"1s\"}]}}",
           plan);
      return true;
    case Fault::kSlowDown:
      *plan = ErrorPlan(429, anthropic, anthropic ? "rate_limit_error" : "requests", "slow_down",
                        anthropic ? "This request would exceed your organization's usage "
                                    "acceleration limit."
                                  : "Slow down: your request rate grew too fast.");
      return true;
    default:
      return false;
  }
}

bool ServerFault(Fault fault, bool anthropic, Plan* plan) {
  switch (fault) {
    case Fault::k529:
      *plan = ErrorPlan(529, anthropic, "overloaded_error", "overloaded", "Overloaded");
      return true;
    case Fault::k520:
      Json(520, "error code: 520", plan);
      plan->content_type = "text/plain; charset=UTF-8";
      return true;
    case Fault::k524:
      Html(524, "524: A timeout occurred", plan);
      return true;
    case Fault::k408:
      *plan = ErrorPlan(408, anthropic, "timeout_error", "request_timeout", "Request timed out");
      return true;
    case Fault::k409:
      *plan = ErrorPlan(409, anthropic, "conflict_error", "", "conflict");
      return true;
    case Fault::k425:
      *plan = ErrorPlan(425, anthropic, "too_early", "", "Too Early");
      return true;
    case Fault::k500:
      *plan = ErrorPlan(500, anthropic, anthropic ? "api_error" : "server_error", "",
                        "The server had an error while processing your request.");
      return true;
    case Fault::k503:
      *plan = ErrorPlan(503, anthropic, anthropic ? "api_error" : "server_error",
                        "server_is_overloaded", "The server is overloaded or not ready yet.");
      return true;
    case Fault::kHtml502:
      Html(502, "502 Bad Gateway", plan);
      return true;
    case Fault::kShouldNotRetry:
      *plan = ErrorPlan(500, anthropic, anthropic ? "api_error" : "server_error", "",
                        "This request fails whenever it is sent.");
      Hint(plan, "x-should-retry", "false");
      return true;
    default:
      return false;
  }
}

// What stays wrong however often the request is sent.
bool RequestFault(Fault fault, bool anthropic, Plan* plan) {
  const absl::string_view invalid = "invalid_request_error";
  switch (fault) {
    case Fault::kContext400:
      *plan = ErrorPlan(400, anthropic, invalid, "context_length_exceeded",
                        anthropic ? "prompt is too long: 210000 tokens > 200000 maximum"
                                  : "This model's maximum context length is 8192 tokens. However, "
                                    "your messages resulted in 9000 tokens.");
      return true;
    case Fault::kUnsupportedParameter:
      *plan = ErrorPlan(400, anthropic, invalid, "unsupported_parameter",
                        "Unsupported parameter: 'max_tokens' is not supported with this model.");
      return true;
    case Fault::k404Model:
      *plan = ErrorPlan(404, anthropic, anthropic ? "not_found_error" : invalid, "model_not_found",
                        "The model does not exist or you do not have access to it.");
      return true;
    case Fault::k401:
      *plan = ErrorPlan(401, anthropic, anthropic ? "authentication_error" : invalid,
                        "invalid_api_key", "Incorrect API key provided.");
      return true;
    case Fault::k403:
      *plan = ErrorPlan(403, anthropic, anthropic ? "permission_error" : invalid, "",
                        "You do not have permission to use this resource.");
      return true;
    case Fault::k402:
      *plan = ErrorPlan(402, anthropic, anthropic ? "billing_error" : invalid, "",
                        "Insufficient Balance");
      return true;
    case Fault::kContentFilter:
      *plan = ErrorPlan(400, anthropic, invalid, "content_filter",
                        "The response was filtered due to the prompt triggering the content "
                        "management policy.");
      return true;
    default:
      return false;
  }
}

bool OddAnswer(Fault fault, const AnswerSpec& spec, bool anthropic, Plan* plan) {
  const std::string id = absl::StrCat("sim-", absl::Hex(spec.hash));
  switch (fault) {
    case Fault::k200Error:
      Json(200,
           "{\"error\":{\"message\":\"upstream error\",\"code\":504,\"metadata\":{\"raw\":\"error "
           "code: 504\"}}}",
           plan);
      return true;
    case Fault::k200Flagged:
      Json(200, "{\"error\":{\"message\":\"The prompt was flagged by moderation\",\"code\":502}}",
           plan);
      return true;
    case Fault::kResponsesFailed:
      Json(200,
           "{\"id\":\"resp_1\",\"object\":\"response\",\"status\":\"failed\",\"error\":{\"code\":"
           "\"server_error\",\"message\":\"stream closed\"},\"output\":[{\"type\":\"reasoning\"}]}",
           plan);
      return true;
    case Fault::kEmpty200:
      Json(200, "", plan);
      return true;
    case Fault::kChoicesNull:
      Json(200,
           absl::StrCat("{\"id\":\"", id, "\",\"", anthropic ? "content" : "choices",
                        "\":null,\"usage\":null}"),
           plan);
      return true;
    case Fault::kNanLogprobs:
      Json(200,
           absl::StrCat("{\"id\":\"", id, "\",\"object\":\"chat.completion\",\"model\":\"",
                        spec.model,
                        "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                        "\"content\":\"a\"},\"logprobs\":{\"content\":[{\"token\":\"a\","
                        "\"logprob\":NaN},{\"token\":\"b\",\"logprob\":-Infinity}]},"
                        "\"finish_reason\":\"stop\"}]}"),
           plan);
      return true;
    case Fault::kRefusal:
      if (anthropic) {
        Json(200,
             absl::StrCat("{\"id\":\"msg_", id,
                          "\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"", spec.model,
                          "\",\"content\":[],\"stop_reason\":\"refusal\",\"stop_details\":"
                          "{\"category\":\"bio\"},\"usage\":{\"input_tokens\":",
                          spec.prompt_tokens, ",\"output_tokens\":1}}"),
             plan);
        return true;
      }
      Json(200,
           absl::StrCat("{\"id\":\"", id, "\",\"object\":\"chat.completion\",\"model\":\"",
                        spec.model,
                        "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                        "\"content\":null,\"refusal\":\"I cannot help with that.\"},"
                        "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":",
                        spec.prompt_tokens,
                        ",\"completion_tokens\":7,\"total_tokens\":", spec.prompt_tokens + 7, "}}"),
           plan);
      return true;
    case Fault::kReasoningOnly: {
      std::string text;
      AppendText(spec, &text);
      Json(200,
           absl::StrCat("{\"id\":\"", id, "\",\"object\":\"chat.completion\",\"model\":\"",
                        spec.model,
                        "\",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\","
                        "\"content\":null,\"reasoning_content\":\"",
                        text, "\"},\"finish_reason\":\"stop\"}]}"),
           plan);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

bool StatusFault(Fault fault, const AnswerSpec& spec, absl::Time wall, Plan* plan) {
  const bool anthropic = IsAnthropic(spec.endpoint);
  return RateFault(fault, anthropic, wall, plan) || ServerFault(fault, anthropic, plan) ||
         RequestFault(fault, anthropic, plan) || OddAnswer(fault, spec, anthropic, plan);
}

}  // namespace headrace::simulator
