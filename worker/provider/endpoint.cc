#include "worker/provider/endpoint.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/secret.h"
#include "common/base/status.h"

namespace headrace::provider {
namespace {

// Indexed by Api.
constexpr absl::string_view kApiPaths[] = {"/chat/completions", "/completions", "/embeddings",
                                           "/responses", "/messages"};

// Anthropic's documented API version.
constexpr absl::string_view kAnthropicVersion = "2023-06-01";

// "v1", "v10", "v1beta": a v and a digit.
bool IsVersionSegment(absl::string_view segment) {
  return segment.size() >= 2 && segment[0] == 'v' && absl::ascii_isdigit(segment[1]);
}

// RFC 9110 section 5.6.2.
bool IsToken(absl::string_view name) {
  if (name.empty()) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(c) || absl::StrContains("!#$%&'*+-.^_`|~", absl::string_view(&c, 1));
  });
}

bool IsFieldValue(absl::string_view value) {
  return std::all_of(value.begin(), value.end(),
                     [](char c) { return c == '\t' || (c >= ' ' && c <= '~'); });
}

// Set by the engines from the request itself, or never wanted: an encoded answer could not be read.
bool IsEngineHeader(absl::string_view name) {
  for (absl::string_view forbidden :
       {"host", "content-length", "connection", "transfer-encoding", "expect", "te", "trailer",
        "upgrade", "keep-alive", "proxy-connection", "accept-encoding"}) {
    if (name == forbidden) return true;
  }
  return absl::StartsWith(name, ":");
}

void SetHeader(std::string name, std::string value, http::Headers* headers) {
  for (auto& [have, old] : *headers) {
    if (have == name) {
      old = std::move(value);
      return;
    }
  }
  headers->emplace_back(std::move(name), std::move(value));
}

}  // namespace

absl::string_view ApiPath(Api api) { return kApiPaths[static_cast<size_t>(api)]; }

absl::StatusOr<Api> ApiOfUrl(absl::string_view url) {
  absl::string_view path = url;
  if (absl::StartsWith(path, "/v1/")) path.remove_prefix(3);
  for (size_t i = 0; i < std::size(kApiPaths); ++i) {
    if (path == kApiPaths[i]) return static_cast<Api>(i);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("url: \"", url,
                   "\" is none of /v1/chat/completions, /v1/completions, /v1/embeddings, "
                   "/v1/responses, /v1/messages"));
}

absl::StatusOr<Endpoint> Endpoint::Make(Dialect dialect, absl::string_view text) {
  absl::StatusOr<http::Url> parsed = http::ParseUrl(absl::StripAsciiWhitespace(text));
  if (!parsed.ok()) return Annotate(parsed.status(), "endpoint");
  http::Url url = *std::move(parsed);
  for (absl::string_view pair : absl::StrSplit(url.query, '&')) {
    const absl::string_view name = pair.substr(0, pair.find('='));
    if (!IsKeyParameter(name)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "endpoint: the query parameter \"", name,
        "\" looks like a key; keys come from a variable or a file and go out as a header"));
  }
  const auto drop_slashes = [&url] {
    while (absl::EndsWith(url.path, "/")) url.path.pop_back();
  };
  drop_slashes();
  for (absl::string_view api : kApiPaths) {
    if (absl::EndsWith(url.path, api)) {
      url.path.resize(url.path.size() - api.size());
      drop_slashes();
      break;
    }
  }
  const absl::string_view path = url.path;
  const size_t slash = path.rfind('/');
  const absl::string_view last =
      slash == absl::string_view::npos ? absl::string_view() : path.substr(slash + 1);
  const bool add = dialect == Dialect::kOpenAi ? path.empty() : !IsVersionSegment(last);
  if (add) url.path += "/v1";
  return Endpoint(std::move(url));
}

std::string Endpoint::Target(Api api) const {
  std::string target = absl::StrCat(url_.path, ApiPath(api));
  if (!url_.query.empty()) absl::StrAppend(&target, "?", url_.query);
  return target;
}

std::string Endpoint::Url(Api api) const {
  http::Url url = url_;
  absl::StrAppend(&url.path, ApiPath(api));
  return url.ToString();
}

absl::StatusOr<Secret> CleanKey(const Secret& key) {
  const absl::string_view text = absl::StripAsciiWhitespace(key.Reveal());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] > ' ' && text[i] <= '~') continue;
    return absl::InvalidArgumentError(
        absl::StrCat("api_key: byte ", i + 1, " of ", text.size(),
                     " is a space, a control character or not ASCII; a header cannot carry it"));
  }
  if (text.size() >= 2 && text.front() == text.back() &&
      (text.front() == '"' || text.front() == '\'')) {
    return absl::InvalidArgumentError("api_key: it is wrapped in quotes; remove them");
  }
  return Secret(std::string(text));
}

absl::StatusOr<http::Headers> MakeHeaders(Dialect dialect, const ModelConfig& config,
                                          const Secret& key) {
  http::Headers headers;
  headers.emplace_back("content-type", "application/json");
  headers.emplace_back("accept",
                       config.stream ? "text/event-stream, application/json" : "application/json");
  headers.emplace_back("user-agent", "headrace");
  if (dialect == Dialect::kAnthropic) {
    headers.emplace_back("anthropic-version", std::string(kAnthropicVersion));
  }
  // Any header of these names in `config.headers` is the user's own way to authorize.
  bool own_key = false;
  http::Headers users;
  for (const auto& [raw_name, value] : config.headers) {
    std::string name = absl::AsciiStrToLower(raw_name);
    if (!IsToken(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("headers: \"", absl::CHexEscape(raw_name), "\" is no header name"));
    }
    if (IsEngineHeader(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("headers.", name, ": headrace sets this header itself"));
    }
    const absl::string_view trimmed = absl::StripAsciiWhitespace(value);
    if (!IsFieldValue(trimmed)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "headers.", name, ": the value holds control characters or bytes beyond ASCII"));
    }
    own_key = own_key || name == "authorization" || name == "api-key" || name == "x-api-key";
    users.emplace_back(std::move(name), std::string(trimmed));
  }
  if (!key.empty() && !own_key) {
    if (dialect == Dialect::kOpenAi) {
      headers.emplace_back("authorization", absl::StrCat("Bearer ", key.Reveal()));
    } else {
      headers.emplace_back("x-api-key", key.Reveal());
    }
  }
  for (auto& [name, value] : users) SetHeader(std::move(name), std::move(value), &headers);
  return headers;
}

}  // namespace headrace::provider
