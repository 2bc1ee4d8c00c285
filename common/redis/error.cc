#include "common/redis/error.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/redis/slots.h"

namespace headrace::redis {
namespace {

struct Word {
  absl::string_view word;  // the first of the error reply
  Error error;
};

// redis/src/server.c (shared.*err), cluster.c and acl.c of 7.0; older wordings below.
constexpr Word kWords[] = {
    {"NOSCRIPT", Error::kNoScript},
    {"MOVED", Error::kMoved},
    {"ASK", Error::kAsk},
    {"TRYAGAIN", Error::kTryAgain},
    {"CROSSSLOT", Error::kCrossSlot},
    {"READONLY", Error::kNotMaster},
    {"MASTERDOWN", Error::kNotMaster},
    {"LOADING", Error::kNotReady},
    {"CLUSTERDOWN", Error::kNotReady},
    {"NOREPLICAS", Error::kNotReady},
    {"MISCONF", Error::kNotReady},
    {"OOM", Error::kOutOfMemory},
    {"BUSY", Error::kBusy},
    {"NOAUTH", Error::kConfiguration},
    {"WRONGPASS", Error::kConfiguration},
    {"NOPERM", Error::kConfiguration},
    {"DENIED", Error::kConfiguration},
};

struct Phrase {
  absl::string_view phrase;  // anywhere in an "ERR ..." reply
  Error error;
};

constexpr Phrase kPhrases[] = {
    {"invalid password", Error::kConfiguration},  // before 6.0
    {"Client sent AUTH, but no password", Error::kConfiguration},
    {"AUTH <password> called without any password", Error::kConfiguration},
    {"DB index is out of range", Error::kConfiguration},
    {"SELECT is not allowed in cluster mode", Error::kConfiguration},
    {"max number of clients reached", Error::kNotReady},
};

// The class of `text` by its first word; kServer for any other word.
Error ByFirstWord(absl::string_view text) {
  const absl::string_view first = text.substr(0, text.find(' '));
  for (const Word& word : kWords) {
    if (first == word.word) return word.error;
  }
  return Error::kServer;
}

// What a script wrapped: "... @user_script: 5: -READONLY You can't ...", or without the minus sign.
Error Wrapped(absl::string_view text) {
  for (const Word& word : kWords) {
    for (absl::string_view before : {": -", ": "}) {
      if (absl::StrContains(text, absl::StrCat(before, word.word, " "))) return word.error;
    }
  }
  return Error::kServer;
}

}  // namespace

absl::string_view ErrorName(Error error) {
  switch (error) {
    case Error::kNone:
      return "none";
    case Error::kUnreachable:
      return "unreachable";
    case Error::kLost:
      return "lost";
    case Error::kDeadline:
      return "deadline";
    case Error::kStopped:
      return "stopped";
    case Error::kOverloaded:
      return "overloaded";
    case Error::kNoScript:
      return "no script";
    case Error::kMoved:
      return "moved";
    case Error::kAsk:
      return "ask";
    case Error::kTryAgain:
      return "try again";
    case Error::kCrossSlot:
      return "cross slot";
    case Error::kNotMaster:
      return "not master";
    case Error::kNotReady:
      return "not ready";
    case Error::kOutOfMemory:
      return "out of memory";
    case Error::kBusy:
      return "busy";
    case Error::kConfiguration:
      return "configuration";
    case Error::kServer:
      return "server error";
  }
  return "?";
}

Error ClassifyErrorReply(absl::string_view text) {
  const Error error = ByFirstWord(text);
  if (error != Error::kServer) return error;
  for (const Phrase& phrase : kPhrases) {
    if (absl::StrContains(text, phrase.phrase)) return phrase.error;
  }
  if (absl::StartsWith(text, "ERR Error running script") || absl::StrContains(text, "script:") ||
      absl::StrContains(text, "@user_script")) {
    return Wrapped(text);
  }
  return Error::kServer;
}

bool IsWorthRediscovery(Error error) {
  return error == Error::kNotMaster || error == Error::kNotReady;
}

std::string ConfigurationAdvice(absl::string_view text) {
  if (absl::StartsWith(text, "NOAUTH")) {
    return "the server wants a password: name its source in the URL with ?password_env=NAME or "
           "?password_file=PATH";
  }
  if (absl::StartsWith(text, "WRONGPASS") || absl::StrContains(text, "invalid password")) {
    return "check the user name and the password";
  }
  if (absl::StartsWith(text, "NOPERM")) {
    return "grant the user these commands, keys and channels with ACL SETUSER";
  }
  if (absl::StartsWith(text, "DENIED")) {
    return "the server is in protected mode: set a password, or bind it to an address of its own";
  }
  if (absl::StrContains(text, "AUTH")) {
    return "the server has no password: take it out of the URL";
  }
  if (absl::StrContains(text, "DB index")) {
    return "the server has fewer databases: another number in the URL";
  }
  if (absl::StrContains(text, "SELECT")) {
    return "a cluster has only database 0: take the number out of the URL";
  }
  return "";
}

absl::Status ErrorStatus(Error error, absl::string_view text) {
  const std::string message = absl::StrCat("Redis: ", text);
  switch (error) {
    case Error::kNone:
      return absl::OkStatus();
    case Error::kUnreachable:
    case Error::kLost:
    case Error::kNotMaster:
    case Error::kNotReady:
    case Error::kTryAgain:
    case Error::kBusy:
      return absl::UnavailableError(message);
    case Error::kDeadline:
      return absl::DeadlineExceededError(message);
    case Error::kStopped:
      return absl::CancelledError(message);
    case Error::kOverloaded:
    case Error::kOutOfMemory:
      return absl::ResourceExhaustedError(message);
    case Error::kConfiguration:
      return absl::FailedPreconditionError(message);
    case Error::kNoScript:
    case Error::kMoved:
    case Error::kAsk:
    case Error::kCrossSlot:
    case Error::kServer:
      return absl::InternalError(message);
  }
  return absl::InternalError(message);
}

std::optional<Redirect> ParseRedirect(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  if (words.size() != 3 || (words[0] != "MOVED" && words[0] != "ASK")) return std::nullopt;
  Redirect redirect;
  redirect.ask = words[0] == "ASK";
  uint32_t slot = 0;
  uint32_t port = 0;
  // An IPv6 host has colons of its own and no brackets.
  const size_t colon = words[2].rfind(':');
  if (colon == absl::string_view::npos || !absl::SimpleAtoi(words[1], &slot) ||
      slot >= kSlotCount || !absl::SimpleAtoi(words[2].substr(colon + 1), &port) || port == 0 ||
      port > 65535) {
    return std::nullopt;
  }
  redirect.slot = static_cast<uint16_t>(slot);
  redirect.host = std::string(words[2].substr(0, colon));
  redirect.port = static_cast<uint16_t>(port);
  // An unknown endpoint of Redis 7 is written "?".
  if (redirect.host == "?") redirect.host.clear();
  return redirect;
}

}  // namespace headrace::redis
