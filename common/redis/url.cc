#include "common/redis/url.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"

namespace headrace::redis {
namespace {

constexpr uint16_t kRedisPort = 6379;
constexpr uint16_t kSentinelPort = 26379;
// More are a mistake. Chosen.
constexpr size_t kMaxHosts = 64;
constexpr size_t kMaxUrlBytes = 8192;
constexpr size_t kMaxSecretBytes = 4096;
constexpr int kMaxDb = 65535;  // servers have 16 by default; they say themselves what is too high

absl::Status Bad(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("Redis URL: ", what));
}

bool IsUnreserved(char c) {  // RFC 3986 section 2.3
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

std::string Encode(absl::string_view text, absl::string_view also_allowed = "") {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (IsUnreserved(c) || absl::StrContains(also_allowed, c)) {
      out.push_back(c);
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out.push_back('%');
      out.push_back(kDigits[byte >> 4]);
      out.push_back(kDigits[byte & 15]);
    }
  }
  return out;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// `part` names what is decoded; the text itself may be secret.
absl::StatusOr<std::string> Decode(absl::string_view text, absl::string_view part) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? HexDigit(text[i + 2]) : -1;
    if (high < 0 || low < 0) {
      return Bad(absl::StrCat("% in the ", part, " is not followed by two hexadecimal digits"));
    }
    out.push_back(static_cast<char>(high * 16 + low));
    i += 2;
  }
  if (absl::StrContains(out, '\0')) return Bad(absl::StrCat("a zero byte in the ", part));
  return out;
}

bool IsHostCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.' || c == '_';
}

absl::StatusOr<HostPort> ParseHost(absl::string_view text, uint16_t default_port) {
  HostPort result;
  result.port = default_port;
  absl::string_view port;
  if (absl::ConsumePrefix(&text, "[")) {
    const size_t close = text.find(']');
    if (close == absl::string_view::npos) return Bad("[ of an IPv6 address without ]");
    result.host = std::string(text.substr(0, close));
    const auto is_v6 = [](char c) { return HexDigit(c) >= 0 || c == ':' || c == '.'; };
    if (result.host.find(':') == std::string::npos ||
        !std::all_of(result.host.begin(), result.host.end(), is_v6)) {
      return Bad(absl::StrCat("[", result.host, "] is no IPv6 address"));
    }
    port = text.substr(close + 1);
    if (!port.empty() && !absl::ConsumePrefix(&port, ":")) {
      return Bad("only a port may follow the ] of an IPv6 address");
    }
    if (port.empty() && text.size() > close + 1) return Bad("no port after the :");
  } else {
    const size_t colon = text.find(':');
    const absl::string_view host = text.substr(0, colon);
    if (host.empty()) return Bad("a host is missing");
    if (!std::all_of(host.begin(), host.end(), IsHostCharacter)) {
      return Bad("a host name holds a character that no host name has");
    }
    result.host = absl::AsciiStrToLower(host);
    if (colon != absl::string_view::npos) {
      port = text.substr(colon + 1);
      if (port.empty()) return Bad(absl::StrCat("no port after ", result.host, ":"));
      if (absl::StrContains(port, ':')) return Bad("an IPv6 address needs brackets, as in [::1]");
    }
  }
  if (!port.empty()) {
    uint32_t number = 0;
    const bool digits = std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
    if (!digits || !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535) {
      return Bad(absl::StrCat("the port of ", result.host, " is no number from 1 to 65535"));
    }
    result.port = static_cast<uint16_t>(number);
  }
  return result;
}

absl::Status ParseDb(absl::string_view text, Url* url) {
  int db = 0;
  const bool digits = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(text, &db) || db > kMaxDb) {
    return Bad("the database is a number, as in redis://host/2");
  }
  url->db = db;
  return absl::OkStatus();
}

absl::Status ParseScheme(absl::string_view scheme, Url* url, bool* is_unix) {
  const std::string lower = absl::AsciiStrToLower(scheme);
  if (lower == "unix" || lower == "redis+unix") {
    *is_unix = true;
    return absl::OkStatus();
  }
  absl::string_view rest = lower;
  url->tls = absl::ConsumePrefix(&rest, "rediss");
  if (!url->tls && !absl::ConsumePrefix(&rest, "redis")) rest = "?";
  if (rest == "+sentinel") url->mode = Url::Mode::kSentinel;
  if (rest == "+cluster") url->mode = Url::Mode::kCluster;
  if (!rest.empty() && url->mode == Url::Mode::kSingle) {
    return Bad(
        "it begins with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://");
  }
  return absl::OkStatus();
}

absl::Status ParseUserInfo(absl::string_view text, Url* url) {
  const size_t colon = text.find(':');
  HR_ASSIGN_OR_RETURN(url->user, Decode(text.substr(0, colon), "user name"));
  if (colon == absl::string_view::npos) return absl::OkStatus();
  HR_ASSIGN_OR_RETURN(std::string password, Decode(text.substr(colon + 1), "password"));
  if (!password.empty()) url->password.text = Secret(std::move(password));
  return absl::OkStatus();
}

absl::Status ParseParameter(absl::string_view name, std::string value, bool* db_given, Url* url) {
  if (name == "db") {
    if (*db_given) return Bad("two databases");
    *db_given = true;
    return ParseDb(value, url);
  }
  const std::pair<absl::string_view, std::string*> fields[] = {
      {"user", &url->user},
      {"password_env", &url->password.env},
      {"password_file", &url->password.file},
      {"sentinel_user", &url->sentinel_user},
      {"sentinel_password_env", &url->sentinel_password.env},
      {"sentinel_password_file", &url->sentinel_password.file},
      {"ca_file", &url->ca_file},
      {"cert_file", &url->cert_file},
      {"key_file", &url->key_file},
  };
  for (const auto& [known, field] : fields) {
    if (name != known) continue;
    if (value.empty()) return Bad(absl::StrCat(name, " is empty"));
    if (!field->empty()) return Bad(absl::StrCat("two values for ", name));
    *field = std::move(value);
    return absl::OkStatus();
  }
  if (name == "password" || name == "sentinel_password") {
    return Bad("a password is named by its source: password_env=NAME or password_file=PATH");
  }
  std::vector<absl::string_view> known = {"db"};
  for (const auto& field : fields) known.push_back(field.first);
  // A parameter without "=" may be a piece of anything, so it is not repeated.
  return Bad(absl::StrCat("an unknown parameter; known are ", absl::StrJoin(known, ", ")));
}

absl::Status ParseQuery(absl::string_view query, bool db_given, Url* url) {
  for (const absl::string_view pair : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    const absl::string_view value =
        equals == absl::string_view::npos ? "" : pair.substr(equals + 1);
    HR_ASSIGN_OR_RETURN(std::string decoded, Decode(value, "value of a parameter"));
    HR_RETURN_IF_ERROR(ParseParameter(pair.substr(0, equals), std::move(decoded), &db_given, url));
  }
  return absl::OkStatus();
}

// What must fit together.
absl::Status Check(const Url& url) {
  for (const SecretSource* source : {&url.password, &url.sentinel_password}) {
    if (!source->text.empty() + !source->env.empty() + !source->file.empty() > 1) {
      return Bad("more than one source of a password");
    }
  }
  if (url.mode == Url::Mode::kCluster && url.db != 0) {
    return Bad("a cluster has only database 0");
  }
  if (url.mode != Url::Mode::kSentinel &&
      (!url.sentinel_user.empty() || !url.sentinel_password.empty())) {
    return Bad("sentinel_... belongs to redis+sentinel://");
  }
  if (!url.tls && (!url.ca_file.empty() || !url.cert_file.empty() || !url.key_file.empty())) {
    return Bad("certificates belong to rediss://");
  }
  if (url.cert_file.empty() != url.key_file.empty()) {
    return Bad("cert_file and key_file belong together");
  }
  return absl::OkStatus();
}

// The part after the hosts: "/db", "/master", "/master/db", or nothing.
absl::Status ParsePath(absl::string_view path, Url* url, bool* db_given) {
  absl::ConsumePrefix(&path, "/");
  if (url->mode == Url::Mode::kSentinel) {
    const size_t slash = path.find('/');
    HR_ASSIGN_OR_RETURN(url->master, Decode(path.substr(0, slash), "name of the master"));
    if (url->master.empty()) {
      return Bad("the name of the master is missing, as in redis+sentinel://host/mymaster");
    }
    path = slash == absl::string_view::npos ? "" : path.substr(slash + 1);
  }
  if (path.empty()) return absl::OkStatus();
  *db_given = true;
  return ParseDb(path, url);
}

absl::Status ParseNetwork(absl::string_view rest, Url* url, bool* db_given) {
  const size_t path_start = rest.find('/');
  absl::string_view authority = rest.substr(0, path_start);
  const absl::string_view path =
      path_start == absl::string_view::npos ? "" : rest.substr(path_start);
  const size_t at = authority.rfind('@');
  if (at == absl::string_view::npos && absl::StrContains(path, '@')) {
    return Bad("a / of a user name or password is written %2F");
  }
  if (at != absl::string_view::npos) {
    HR_RETURN_IF_ERROR(ParseUserInfo(authority.substr(0, at), url));
    authority.remove_prefix(at + 1);
  }
  const bool sentinel = url->mode == Url::Mode::kSentinel;
  for (const absl::string_view text : absl::StrSplit(authority, ',')) {
    HR_ASSIGN_OR_RETURN(HostPort host, ParseHost(text, sentinel ? kSentinelPort : kRedisPort));
    if (url->hosts.size() == kMaxHosts) return Bad(absl::StrCat("more than ", kMaxHosts, " hosts"));
    url->hosts.push_back(std::move(host));
  }
  if (url->hosts.size() > 1 && url->mode == Url::Mode::kSingle) {
    return Bad("several hosts need redis+sentinel:// or redis+cluster://");
  }
  return ParsePath(path, url, db_given);
}

// The parameters as text, "?a=b&c=d" or nothing.
std::string QueryOf(const Url& url) {
  std::vector<std::string> pairs;
  const auto add = [&pairs](absl::string_view name, const std::string& value) {
    if (!value.empty()) pairs.push_back(absl::StrCat(name, "=", Encode(value, "/")));
  };
  if (!url.unix_path.empty()) {
    if (url.db != 0) add("db", absl::StrCat(url.db));
    add("user", url.user);
  }
  add("password_env", url.password.env);
  add("password_file", url.password.file);
  add("sentinel_user", url.sentinel_user);
  add("sentinel_password_env", url.sentinel_password.env);
  add("sentinel_password_file", url.sentinel_password.file);
  add("ca_file", url.ca_file);
  add("cert_file", url.cert_file);
  add("key_file", url.key_file);
  return pairs.empty() ? "" : absl::StrCat("?", absl::StrJoin(pairs, "&"));
}

}  // namespace

std::string HostPort::ToString() const {
  if (absl::StrContains(host, ':')) return absl::StrCat("[", host, "]:", port);
  return absl::StrCat(host, ":", port);
}

std::string Url::ToString() const {
  if (!unix_path.empty()) return absl::StrCat("unix://", Encode(unix_path, "/"), QueryOf(*this));
  std::string text = tls ? "rediss" : "redis";
  if (mode == Mode::kSentinel) absl::StrAppend(&text, "+sentinel");
  if (mode == Mode::kCluster) absl::StrAppend(&text, "+cluster");
  absl::StrAppend(&text, "://");
  if (!user.empty() || holds_password()) {
    absl::StrAppend(&text, Encode(user), holds_password() ? ":***@" : "@");
  }
  for (size_t i = 0; i < hosts.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ",", hosts[i].ToString());
  }
  if (mode == Mode::kSentinel) absl::StrAppend(&text, "/", Encode(master));
  if (db != 0) absl::StrAppend(&text, "/", db);
  return absl::StrCat(text, QueryOf(*this));
}

absl::StatusOr<Url> ParseUrl(absl::string_view text) {
  if (text.size() > kMaxUrlBytes) return Bad("too long");
  for (const char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '\x7f') {
      return Bad("it holds a space or a control character");
    }
  }
  const size_t colon = text.find("://");
  if (colon == absl::string_view::npos) return Bad("no ://, as in redis://localhost:6379");
  Url url;
  bool is_unix = false;
  HR_RETURN_IF_ERROR(ParseScheme(text.substr(0, colon), &url, &is_unix));
  absl::string_view rest = text.substr(colon + 3);
  if (absl::StrContains(rest, '#')) return Bad("a # is written %23");
  const size_t question = rest.find('?');
  absl::string_view query;
  if (question != absl::string_view::npos) {
    query = rest.substr(question + 1);
    rest = rest.substr(0, question);
    if (!is_unix && absl::StrContains(query, '@') && !absl::StrContains(query, '=')) {
      return Bad("a ? of a user name or password is written %3F");
    }
  }
  bool db_given = false;
  if (is_unix) {
    HR_ASSIGN_OR_RETURN(url.unix_path, Decode(rest, "path"));
    if (url.unix_path.size() < 2 || url.unix_path[0] != '/') {
      return Bad("the path of the socket is absolute, as in unix:///run/redis.sock");
    }
  } else {
    HR_RETURN_IF_ERROR(ParseNetwork(rest, &url, &db_given));
  }
  HR_RETURN_IF_ERROR(ParseQuery(query, db_given, &url));
  HR_RETURN_IF_ERROR(Check(url));
  return url;
}

absl::StatusOr<Secret> ReadSecret(const SecretSource& source, const char* default_env) {
  if (!source.text.empty()) return source.text;
  std::string value;
  std::string where;
  if (!source.env.empty()) {
    where = absl::StrCat("environment variable ", source.env);
    const char* text = getenv(source.env.c_str());
    if (text == nullptr) return absl::NotFoundError(absl::StrCat(where, " is not set"));
    value = text;
  } else if (!source.file.empty()) {
    where = source.file;
    const std::unique_ptr<FILE, int (*)(FILE*)> file(fopen(source.file.c_str(), "re"), &fclose);
    if (file == nullptr) return ErrnoStatus(errno, source.file);
    value.resize(kMaxSecretBytes + 1);
    value.resize(fread(value.data(), 1, value.size(), file.get()));
    if (ferror(file.get()) != 0) return ErrnoStatus(errno, source.file);
    if (!value.empty() && value.back() == '\n') value.pop_back();
    if (!value.empty() && value.back() == '\r') value.pop_back();
  } else {
    const char* text = getenv(default_env);
    return Secret(text == nullptr ? "" : text);
  }
  if (value.empty()) return absl::InvalidArgumentError(absl::StrCat(where, " is empty"));
  if (value.size() > kMaxSecretBytes || value.find_first_of("\r\n") != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat(where, " does not hold one password"));
  }
  return Secret(std::move(value));
}

}  // namespace headrace::redis
