// docs/cli.md and --help are held together: whoever adds a flag also describes it.
#include <cctype>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Help(const std::string& command) {
  std::string text;
  FILE* pipe = popen(absl::StrCat(HEADRACE_BINARY, " ", command, " --help").c_str(), "r");
  if (pipe == nullptr) return text;
  char buffer[4096];
  size_t size = 0;
  while ((size = fread(buffer, 1, sizeof(buffer), pipe)) > 0) text.append(buffer, size);
  EXPECT_EQ(pclose(pipe), 0);
  return text;
}

std::string Page() {
  std::ifstream in(HEADRACE_SOURCE_DIR "/docs/cli.md");
  return std::string(std::istreambuf_iterator<char>(in), {});
}

// Every word that begins with "--" and a letter.
std::set<std::string> FlagsIn(absl::string_view text) {
  std::set<std::string> flags;
  for (size_t at = text.find("--"); at != absl::string_view::npos; at = text.find("--", at)) {
    size_t end = at + 2;
    while (end < text.size() && (absl::ascii_isalnum(text[end]) || text[end] == '-')) ++end;
    if (end > at + 2 && absl::ascii_isalpha(text[at + 2])) {
      flags.insert(std::string(text.substr(at, end - at)));
    }
    at = end;
  }
  return flags;
}

std::vector<std::string> Commands() {
  std::vector<std::string> commands;
  bool in_list = false;
  for (absl::string_view line : absl::StrSplit(Help(""), '\n')) {
    if (line == "Subcommands:") {
      in_list = true;
    } else if (in_list && line.empty()) {
      break;
    } else if (in_list && line.size() > 2 && line[2] != ' ') {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      commands.emplace_back(words.front());
    }
  }
  return commands;
}

std::set<std::string> Missing(const std::set<std::string>& wanted,
                              const std::set<std::string>& there) {
  std::set<std::string> missing;
  for (const std::string& flag : wanted) {
    if (there.count(flag) == 0) missing.insert(flag);
  }
  return missing;
}

TEST(CliPage, NamesEveryCommandAndEveryFlagOfHelp) {
  const std::vector<std::string> commands = Commands();
  ASSERT_GE(commands.size(), 6u);
  const std::string page = Page();
  const std::set<std::string> named = FlagsIn(page);
  EXPECT_THAT(Missing(FlagsIn(Help("")), named), IsEmpty());
  for (const std::string& command : commands) {
    EXPECT_THAT(page, HasSubstr(absl::StrCat("\n## headrace ", command, "\n")));
    EXPECT_THAT(Missing(FlagsIn(Help(command)), named), IsEmpty()) << command;
  }
}

TEST(CliPage, NamesNoFlagThatDoesNotExist) {
  std::set<std::string> there = FlagsIn(Help(""));
  for (const std::string& command : Commands()) {
    for (const std::string& flag : FlagsIn(Help(command))) there.insert(flag);
  }
  EXPECT_THAT(Missing(FlagsIn(Page()), there), IsEmpty());
}

// The default of each flag that the tables below the heading of `command` describe; of those above
// the first heading for "".
std::map<std::string, std::string> Described(const std::string& command) {
  std::map<std::string, std::string> described;
  std::string heading;
  for (absl::string_view line : absl::StrSplit(Page(), '\n')) {
    if (absl::ConsumePrefix(&line, "## ")) {
      absl::ConsumePrefix(&line, "headrace ");
      heading = std::string(line);
    }
    if (heading != command || !absl::StartsWith(line, "| `--")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (const std::string& flag : FlagsIn(cells[1])) described[flag] = cells.at(2);
  }
  return described;
}

// Whose tables describe the flags of `command`.
std::vector<std::string> Headings(const std::string& command) {
  if (command == "validate" || command == "estimate") return {"", command, "run"};
  if (command == "status") return {"", command, "worker"};
  if (command == "jobs" || command == "submit" || command == "cancel") {
    return {"", command, "worker", "status"};
  }
  return {"", command};
}

// The flags that a help lists, each with its default, empty where it says none.
std::map<std::string, std::string> ListedIn(const std::string& help) {
  std::map<std::string, std::string> defaults;
  std::string flag;
  for (absl::string_view line : absl::StrSplit(help, '\n')) {
    if (absl::StartsWith(line, "  --")) {
      const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
      flag = std::string(words.front());
      defaults[flag];
    }
    const std::vector<absl::string_view> parts = absl::StrSplit(line, "(default: ");
    if (parts.size() == 2) defaults[flag] = std::string(absl::StripSuffix(parts[1], ")"));
  }
  return defaults;
}

TEST(CliPage, DescribesEachFlagWhereItsCommandIs) {
  for (const std::string& command : Commands()) {
    std::map<std::string, std::string> described;
    for (const std::string& heading : Headings(command)) described.merge(Described(heading));
    const std::map<std::string, std::string> listed = ListedIn(Help(command));
    for (const auto& [flag, value] : listed) {
      ASSERT_TRUE(described.contains(flag)) << command << " " << flag;
      // Sentences may differ.
      if (!absl::StrContains(value, ' ')) EXPECT_THAT(described[flag], HasSubstr(value)) << flag;
    }
    for (const auto& [flag, value] : Described(command)) {
      EXPECT_TRUE(listed.contains(flag)) << command << " " << flag;
    }
  }
}

}  // namespace
}  // namespace headrace
