#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/random.h"
#include "coordinator/dataset/prompt_template.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

// The template with each field replaced by its name in angle brackets.
std::string Named(absl::string_view text) {
  FieldTable table;
  const absl::StatusOr<PromptTemplate> compiled = PromptTemplate::Compile(text, &table);
  if (!compiled.ok()) return absl::StrCat("error: ", compiled.status().message());
  std::vector<std::string> names;
  for (const FieldRef& ref : table.refs()) {
    names.push_back(absl::StrCat("<", ref.name, ref.as_json ? " as json>" : ">"));
  }
  std::string out;
  compiled->Render(std::vector<absl::string_view>(names.begin(), names.end()), &out);
  return out;
}

TEST(PromptTemplate, FieldsAreReplacedAndTheRestIsText) {
  EXPECT_EQ(Named(""), "");
  EXPECT_EQ(Named("plain"), "plain");
  EXPECT_EQ(Named("{{a}}"), "<a>");
  EXPECT_EQ(Named("x{{ a }}y{{b.c}}z"), "x<a>y<b.c>z");
  EXPECT_EQ(Named("{{a}}{{a}}"), "<a><a>");
  EXPECT_EQ(Named("{{a|json}} {{ a | json }}"), "<a as json> <a as json>");
}

TEST(PromptTemplate, SingleBracesAndClosingOnesAreText) {
  EXPECT_EQ(Named("{a} } }} {\"k\": {}}"), "{a} } }} {\"k\": {}}");
  EXPECT_EQ(Named("f({{a}})"), "f(<a>)");
}

TEST(PromptTemplate, ABackslashMakesBracesLiteral) {
  EXPECT_EQ(Named("\\{{a}}"), "{{a}}");
  EXPECT_EQ(Named("\\\\{{a}}"), "\\<a>");
  EXPECT_EQ(Named("\\\\\\{{a}}"), "\\{{a}}");
  EXPECT_EQ(Named("\\n \\ {{a}} \\"), "\\n \\ <a> \\");
}

TEST(PromptTemplate, ErrorsNameTheCharacter) {
  EXPECT_EQ(Named("\xC3\xA9{{a"),
            "error: the {{ at character 2 has no }}; write \\{{ for braces that are text");
  EXPECT_EQ(Named("{{ }}"), "error: at character 1: a field without a name");
  EXPECT_EQ(Named("{{a..b}}"), "error: at character 1: 'a..b' has an empty part");
  EXPECT_EQ(Named("{{a.}}"), "error: at character 1: 'a.' has an empty part");
  EXPECT_EQ(Named("{{a[x]}}"), "error: at character 1: 'a[x]' needs a number between [ and ]");
  EXPECT_EQ(Named("{{a[1}}"), "error: at character 1: 'a[1' needs a number between [ and ]");
  EXPECT_EQ(Named("{{a[1]b}}"), "error: at character 1: 'a[1]b' has text after ]");
  EXPECT_EQ(Named("{{a | jsn}}"),
            "error: at character 1: 'jsn' is no filter; did you mean 'json'?");
  EXPECT_EQ(Named("{{a{{b}}"),
            "error: at character 1: 'a{{b' has a brace or a line end in a field name");
}

TEST(FieldRef, PartsAreKeysAndIndexes) {
  const absl::StatusOr<FieldRef> ref = ParseFieldRef("turns[0].text.1");
  ASSERT_TRUE(ref.ok());
  const std::vector<FieldRef::Step> want = {std::string("turns"), size_t{0}, std::string("text"),
                                            size_t{1}};
  EXPECT_EQ(ref->steps, want);
  EXPECT_EQ(std::get<std::string>(ParseFieldRef("0")->steps[0]), "0");
}

// Any text can be written as a template: braces escaped, it renders as itself.
TEST(PromptTemplate, EscapedTextRendersAsItself) {
  const uint64_t seed = RandomSeed();
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  Random random(seed);
  for (int round = 0; round < 5000; ++round) {
    std::string text, form;
    for (uint64_t n = random.Below(20); n > 0; --n) text += "{}\\a\n"[random.Below(5)];
    // Backslashes directly before {{ double, and one more makes the braces text.
    size_t slashes = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      if (text.substr(i, 2) == "{{") {
        form += std::string(slashes + 1, '\\') + "{{";
        ++i;
        slashes = 0;
        continue;
      }
      slashes = text[i] == '\\' ? slashes + 1 : 0;
      form += text[i];
    }
    ASSERT_EQ(Named(form), text) << form;
  }
}

}  // namespace
}  // namespace headrace
