// Cases H5, H8, H9: schemas that a provider refuses, found before a call is paid for.
#include "coordinator/job/schema_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace headrace {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr absl::string_view kOpenAi = "https://api.openai.com/v1";
constexpr absl::string_view kAnthropic = "https://api.anthropic.com";
constexpr absl::string_view kLocal = "http://127.0.0.1:8000/v1";

JobConfig Job(absl::string_view endpoint, std::string params) {
  JobConfig job;
  job.name = "t";
  job.dataset.path = "d.jsonl";
  ModelJob model;
  model.name = "m";
  model.endpoint = std::string(endpoint);
  model.provider = endpoint == kAnthropic ? "anthropic" : "openai";
  model.params_json = std::move(params);
  job.models = {model};
  EXPECT_TRUE(FinishJob(&job).ok());
  return job;
}

std::string ChatParams(absl::string_view schema, bool strict = true) {
  return absl::StrCat(R"({"response_format":{"type":"json_schema","json_schema":{"name":"r",)",
                      R"("strict":)", strict ? "true" : "false", R"(,"schema":)", schema, "}}}");
}

// The errors, without the part that all share.
std::vector<std::string> Errors(absl::string_view schema) {
  std::vector<std::string> errors;
  for (const std::string& error : CheckJobSchemas(Job(kOpenAi, ChatParams(schema)), "").errors) {
    const std::string prefix = "models[0] (m): params.response_format.json_schema.schema";
    EXPECT_EQ(error.substr(0, prefix.size()), prefix);
    errors.push_back(error.substr(prefix.size()));
  }
  return errors;
}

std::vector<std::string> AnthropicErrors(absl::string_view schema) {
  std::vector<std::string> errors;
  for (const std::string& error :
       CheckJobSchemas(
           Job(kAnthropic,
               absl::StrCat(R"({"output_format":{"type":"json_schema","schema":)", schema, "}}")),
           "")
           .errors) {
    const std::string prefix = "models[0] (m): params.output_format.schema";
    EXPECT_EQ(error.substr(0, prefix.size()), prefix);
    errors.push_back(error.substr(prefix.size()));
  }
  return errors;
}

// An object with these properties, by the rules.
std::string Object(absl::string_view properties, absl::string_view required,
                   absl::string_view more = "") {
  return absl::StrCat(R"({"type":"object","additionalProperties":false,"required":[)", required,
                      R"(],"properties":{)", properties, "}", more, "}");
}

std::string One(absl::string_view property) {
  return Object(absl::StrCat(R"("p":)", property), R"("p")");
}

TEST(SchemaCheck, ANestedObjectWithoutAdditionalPropertiesIsNamedWithFileModelAndPath) {
  const std::string schema =
      One(R"({"type":"object","properties":{"q":{"type":"string"}},"required":["q"]})");
  EXPECT_THAT(CheckJobSchemas(Job(kOpenAi, ChatParams(schema)), "jobs/a.yaml").errors,
              ElementsAre("jobs/a.yaml: models[0] (m): params.response_format.json_schema.schema"
                          ".properties.p: needs additionalProperties: false"));
  EXPECT_THAT(Errors(One(R"({"type":"object","additionalProperties":true})")),
              ElementsAre(".properties.p: needs additionalProperties: false"));
  EXPECT_THAT(Errors(One(R"({"type":["object","null"],"additionalProperties":"false"})")),
              ElementsAre(".properties.p: needs additionalProperties: false"));
}

TEST(SchemaCheck, EveryPropertyMustBeRequiredAndNothingElse) {
  EXPECT_THAT(Errors(Object(R"("a":{"type":"string"},"b":{"type":"string"})", R"("a")")),
              ElementsAre(": must name every property in required; missing: b"));
  EXPECT_THAT(Errors(R"({"type":"object","additionalProperties":false,
                         "properties":{"a":{"type":"string"}}})"),
              ElementsAre(": must name every property in required; missing: a"));
  EXPECT_THAT(Errors(Object(R"("a":{"type":"string"})", R"("a","z")")),
              ElementsAre(".required: names what is no property: z"));
}

TEST(SchemaCheck, TheRootIsAnObjectAndNoAnyOf) {
  EXPECT_THAT(Errors(R"({"type":"array","items":{"type":"string"}})"),
              ElementsAre(": must have type: object at its root"));
  EXPECT_THAT(
      Errors(R"({"anyOf":[{"type":"string"}]})"),
      ElementsAre(": must have type: object at its root", ".anyOf: is not possible at the root"));
  EXPECT_THAT(Errors(R"("text")"), ElementsAre(": must be a schema, not text"));
}

TEST(SchemaCheck, AGoodSchemaIsGood) {
  const std::string schema = Object(
      R"("a":{"type":["string","null"],"pattern":"^[a-z]+$"},
         "b":{"type":"array","items":{"$ref":"#/$defs/leaf"},"minItems":1,"maxItems":3},
         "c":{"anyOf":[{"type":"string","enum":["x","y"]},{"$ref":"#"}]},
         "d":{"type":"number","minimum":0,"maximum":1})",
      R"("a","b","c","d")",
      absl::StrCat(R"(,"$defs":{"leaf":)", One(R"({"type":"integer"})"), "}"));
  const SchemaFindings findings = CheckJobSchemas(Job(kOpenAi, ChatParams(schema)), "");
  EXPECT_THAT(findings.errors, IsEmpty());
  EXPECT_THAT(findings.notices, IsEmpty());
}

TEST(SchemaCheck, KeywordsThatStrictModeLacksAreNamed) {
  for (const char* keyword : {"allOf", "oneOf"}) {
    EXPECT_THAT(
        Errors(One(absl::StrCat(R"({")", keyword, R"(":[{"type":"string"}]})"))),
        ElementsAre(absl::StrCat(".properties.p.", keyword, ": is not supported in strict mode")));
  }
  for (const char* keyword :
       {"not", "if", "then", "else", "dependentRequired", "dependentSchemas"}) {
    EXPECT_THAT(
        Errors(One(absl::StrCat(R"({"type":"string",")", keyword, R"(":{}})"))),
        ElementsAre(absl::StrCat(".properties.p.", keyword, ": is not supported in strict mode")));
  }
  EXPECT_THAT(Errors(One(R"({"type":"array"})")),
              ElementsAre(".properties.p: is an array without items"));
  EXPECT_THAT(Errors(One(R"({"description":"x"})")), ElementsAre(".properties.p: has no type"));
  EXPECT_THAT(Errors(One(R"({"$ref":"http://127.0.0.1/s.json"})")),
              ElementsAre(".properties.p.$ref: points out of the schema, which is not supported"));
  EXPECT_THAT(Errors(One(R"({"$ref":"#/$defs/none"})")),
              ElementsAre(".properties.p.$ref: points to #/$defs/none, which is not there"));
}

TEST(SchemaCheck, WhatIsOnNoListIsANotice) {
  const SchemaFindings findings = CheckJobSchemas(
      Job(kOpenAi, ChatParams(One(R"({"type":"string","minLength":1,"default":"x"})"))), "");
  EXPECT_THAT(findings.errors, IsEmpty());
  EXPECT_THAT(findings.notices,
              ElementsAre(HasSubstr(".p.minLength: is not on the provider's list"),
                          HasSubstr(".p.default: is not on the provider's list")));
}

// Case H9: every row of a batch failed on this, at a provider that documents nothing of it.
TEST(SchemaCheck, ATypeBesideAnyOfIsNoted) {
  const SchemaFindings findings = CheckJobSchemas(
      Job(kOpenAi, ChatParams(One(R"({"type":"string","anyOf":[{"type":"string"}]})"))), "");
  EXPECT_THAT(findings.errors, IsEmpty());
  EXPECT_THAT(findings.notices, ElementsAre(HasSubstr("properties.p: has a type beside anyOf")));
}

TEST(SchemaCheck, TheLimitsOfStrictModeAreCounted) {
  std::string nested = R"({"type":"string"})";
  for (int i = 0; i < 11; ++i) nested = One(nested);
  EXPECT_THAT(Errors(nested), IsEmpty());
  EXPECT_THAT(Errors(One(nested)),
              ElementsAre(HasSubstr(": is deeper than 10 objects in each other")));

  std::string values = "0";
  for (int i = 1; i <= 1000; ++i) absl::StrAppend(&values, ",", i);
  EXPECT_THAT(Errors(One(absl::StrCat(R"({"type":"integer","enum":[)", values, "]}"))),
              ElementsAre(": has 1001 enum values in all, more than 1000"));

  std::string texts = R"("x")";
  for (int i = 0; i < 250; ++i) absl::StrAppend(&texts, ",\"", std::string(60, 'a'), "\"");
  EXPECT_THAT(Errors(One(absl::StrCat(R"({"type":"string","enum":[)", texts, "]}"))),
              ElementsAre(".properties.p.enum: has more than 250 values and 15000 bytes"));

  std::string properties, required;
  for (int i = 0; i < 5001; ++i) {
    absl::StrAppend(&properties, i == 0 ? "" : ",", "\"", i, R"(":{"type":"null"})");
    absl::StrAppend(&required, i == 0 ? "" : ",", "\"", i, "\"");
  }
  EXPECT_THAT(Errors(Object(properties, required)),
              ElementsAre(": has 5001 properties in all, more than 5000"));
  EXPECT_THAT(Errors(One(absl::StrCat(R"({"type":"string","const":")", std::string(120'000, 'a'),
                                      R"("})"))),
              ElementsAre(": has 120001 bytes of names, enum and const values in all, more than "
                          "120000"));
}

TEST(SchemaCheck, AnEndlessListOfFaultsIsCut) {
  std::string properties;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&properties, i == 0 ? "" : ",", "\"", i, R"(":{"type":"object"})");
  }
  const std::vector<std::string> errors =
      CheckJobSchemas(Job(kOpenAi, ChatParams(Object(properties, ""))), "").errors;
  ASSERT_THAT(errors, SizeIs(21));
  // Of 1 + 2 for each of 60 properties no more than 100 are looked for.
  EXPECT_EQ(errors.back(), "models[0] (m): has 41 more faults in its schemas");
}

TEST(SchemaCheck, WithoutStrictTheProviderRefusesNothingOfThis) {
  EXPECT_THAT(CheckJobSchemas(Job(kOpenAi, ChatParams(R"({"type":"array"})", false)), "").errors,
              IsEmpty());
  EXPECT_THAT(CheckJobSchemas(Job(kOpenAi, R"({"tools":[{"type":"function","function":{"name":"f",
                                  "parameters":{"type":"object"}}}]})"),
                              "")
                  .errors,
              IsEmpty());
  EXPECT_THAT(
      CheckJobSchemas(Job(kOpenAi, R"({"response_format":{"type":"json_object"}})"), "").errors,
      IsEmpty());
}

TEST(SchemaCheck, ToolsAndResponsesAreLookedAtToo) {
  const std::string bad = R"({"type":"object"})";
  EXPECT_THAT(
      CheckJobSchemas(Job(kOpenAi, absl::StrCat(R"({"tools":[{"type":"function","function":{)",
                                                R"("name":"f","strict":true,"parameters":)", bad,
                                                R"(}},{"type":"function","name":"g",)",
                                                R"("strict":true,"parameters":)", bad, "}]}")),
                      "")
          .errors,
      ElementsAre(HasSubstr("params.tools[0].function.parameters: needs additionalProperties"),
                  HasSubstr("params.tools[1].parameters: needs additionalProperties")));
  EXPECT_THAT(
      CheckJobSchemas(
          Job(kOpenAi, absl::StrCat(R"({"text":{"format":{"type":"json_schema","name":"n",)",
                                    R"("strict":true,"schema":)", bad, "}}}")),
          "")
          .errors,
      ElementsAre(HasSubstr("params.text.format.schema: needs additionalProperties")));
}

TEST(SchemaCheck, AFormatNeedsANameAndASchema) {
  EXPECT_THAT(CheckJobSchemas(Job(kOpenAi, R"({"response_format":{"type":"json_schema",)"
                                           R"("json_schema":{"name":"a b","strict":true}}})"),
                              "")
                  .errors,
              ElementsAre(HasSubstr("response_format.json_schema.name: is needed: letters"),
                          HasSubstr("response_format.json_schema.schema: is missing")));
  EXPECT_THAT(
      CheckJobSchemas(Job(kOpenAi, R"({"response_format":{"type":"json_schema","schema":{}}})"), "")
          .errors,
      ElementsAre(HasSubstr("params.response_format.json_schema: is missing")));
}

TEST(SchemaCheck, AnotherEndpointMayTakeWhatOpenAiRefuses) {
  const SchemaFindings findings = CheckJobSchemas(
      Job(kLocal, ChatParams(One(R"({"type":"object","properties":{"q":{"type":"string"}}})"))),
      "");
  EXPECT_THAT(findings.errors, IsEmpty());
  EXPECT_THAT(findings.notices,
              ElementsAre(AllOf(HasSubstr("properties.p: needs additionalProperties: false"),
                                HasSubstr("whether this endpoint minds is not known"))));
}

TEST(SchemaCheck, TheHostDecidesAndNotAPartOfTheUrl) {
  const std::string params = ChatParams(R"({"type":"array","items":{"type":"string"}})");
  for (const char* own : {"https://api.openai.com/v1", "https://EU.API.OPENAI.COM:443/v1",
                          "https://x.openai.azure.com/openai/v1"}) {
    EXPECT_THAT(CheckJobSchemas(Job(own, params), "").errors, SizeIs(1)) << own;
  }
  for (const char* other : {"https://notopenai.com/v1", "https://api.openai.com.example.net/v1",
                            "http://127.0.0.1:1/api.openai.com"}) {
    EXPECT_THAT(CheckJobSchemas(Job(other, params), "").errors, IsEmpty()) << other;
  }
}

// Case H8: at every endpoint, also without strict.
TEST(SchemaCheck, AHostilePatternIsAnErrorEverywhere) {
  std::string nested = std::string(2000, '(') + "a" + std::string(2000, ')');
  const std::pair<std::string, std::string> cases[] = {
      {"[0-9]{99999}", "repeats more than 2000 times: {99999}"},
      {"^+[a-z]$", "has '+' with nothing before it to repeat"},
      {nested, "has more than 100 groups in each other"},
      {std::string(10'000, '(') + std::string(10'000, ')'), "is longer than 4096 bytes"},
  };
  for (const auto& [pattern, problem] : cases) {
    for (const bool strict : {true, false}) {
      for (const absl::string_view endpoint : {kOpenAi, kLocal}) {
        const std::string schema =
            One(absl::StrCat(R"({"type":"string","pattern":")", pattern, R"("})"));
        EXPECT_THAT(CheckJobSchemas(Job(endpoint, ChatParams(schema, strict)), "").errors,
                    ElementsAre("models[0] (m): params.response_format.json_schema.schema"
                                ".properties.p.pattern: " +
                                problem));
      }
    }
  }
}

TEST(SchemaCheck, ALookaheadIsWhatOpenAiRefuses) {
  EXPECT_THAT(Errors(One(R"({"type":"string","pattern":"^(?=.*a).+$"})")),
              ElementsAre(".properties.p.pattern: has a lookahead or lookbehind, which is not "
                          "supported"));
  EXPECT_THAT(Errors(One(R"({"type":"string","pattern":"^s(}}}|)}}}+"})")), IsEmpty());
}

TEST(SchemaCheck, APropertyNamedPatternIsNoPattern) {
  EXPECT_THAT(Errors(Object(R"("pattern":{"type":"string","enum":["^+"]})", R"("pattern")")),
              IsEmpty());
}

TEST(SchemaCheck, DepthWithoutEndIsNoCrash) {
  std::string schema = R"({"type":"string"})";
  for (int i = 0; i < 60; ++i) schema = absl::StrCat(R"({"type":"array","items":)", schema, "}");
  JobConfig job = Job(kOpenAi, ChatParams(One(R"({"type":"string"})")));
  // Deeper than a job file may be, as in a row of a batch file.
  std::string deep = R"({"type":"string"})";
  for (int i = 0; i < 500; ++i) deep = absl::StrCat(R"({"type":"array","items":)", deep, "}");
  job.models[0].params_json = ChatParams(One(deep));
  EXPECT_THAT(CheckJobSchemas(job, "").errors,
              ElementsAre(HasSubstr("is nested deeper than 200 schemas")));
}

TEST(SchemaCheck, TheCheckCanBeTurnedOff) {
  JobConfig job = Job(kOpenAi, ChatParams(R"({"type":"array"})"));
  job.models[0].check_schema = false;
  EXPECT_THAT(CheckJobSchemas(job, "").errors, IsEmpty());
}

TEST(SchemaCheck, AnthropicHasRulesOfItsOwn) {
  EXPECT_THAT(AnthropicErrors(One(R"({"type":"object","properties":{}})")),
              ElementsAre(".properties.p: needs additionalProperties: false"));
  EXPECT_THAT(AnthropicErrors(Object(R"("a":{"type":"string"})", "")), IsEmpty())
      << "optional properties are possible there";
  EXPECT_THAT(
      AnthropicErrors(One(
          R"({"type":"array","minItems":2,"maxItems":3,"items":{"type":"integer","minimum":1}})")),
      ElementsAre(".properties.p.maxItems: is not supported in strict mode",
                  ".properties.p.minItems: may only be 0 or 1",
                  ".properties.p.items.minimum: is not supported in strict mode"));
  EXPECT_THAT(AnthropicErrors(One(R"({"type":"string","pattern":"\\bx"})")),
              ElementsAre(HasSubstr("has a word boundary")));
  EXPECT_THAT(AnthropicErrors(One(R"({"enum":[{"a":1}]})")),
              ElementsAre(".properties.p.enum: has an object, which is not supported"));
}

TEST(SchemaCheck, ARecursiveSchemaIsWhatAnthropicRefuses) {
  EXPECT_THAT(AnthropicErrors(One(R"({"$ref":"#"})")),
              ElementsAre(": is recursive, which is not supported"));
  const std::string two =
      Object(R"("p":{"$ref":"#/$defs/a"})", R"("p")",
             absl::StrCat(R"(,"$defs":{"a":)", One(R"({"$ref":"#/$defs/b"})"), R"(,"b":)",
                          One(R"({"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]})"), "}"));
  EXPECT_THAT(AnthropicErrors(two),
              ElementsAre(": is recursive in #/$defs/a, which is not supported"));
  const std::string once =
      Object(R"("p":{"$ref":"#/$defs/a"})", R"("p")", R"(,"$defs":{"a":{"type":"string"}})");
  EXPECT_THAT(AnthropicErrors(once), IsEmpty());
}

TEST(SchemaCheck, AnthropicToolsAreLookedAtWhenStrict) {
  const auto errors = [](absl::string_view strict) {
    return CheckJobSchemas(Job(kAnthropic, absl::StrCat(R"({"tools":[{"name":"f",)", strict,
                                                        R"("input_schema":{"type":"object"}}]})")),
                           "")
        .errors;
  };
  EXPECT_THAT(errors(R"("strict":true,)"),
              ElementsAre(HasSubstr("params.tools[0].input_schema: needs additionalProperties")));
  EXPECT_THAT(errors(""), IsEmpty());
  EXPECT_THAT(
      CheckJobSchemas(Job(kAnthropic, R"({"output_config":{"format":)"
                                      R"({"type":"json_schema","schema":{"type":"object"}}}})"),
                      "")
          .errors,
      ElementsAre(HasSubstr("params.output_config.format.schema: needs")));
}

TEST(RowSchemaCheck, EachDistinctSchemaOfABatchFileIsCheckedOnce) {
  const JobConfig job = Job(kOpenAi, "{}");
  RowSchemaCheck check(&job);
  const std::string bad = ChatParams(R"({"type":"object"})");
  check.Add(R"({"model":"m","messages":[]})", 1);
  check.Add(bad, 2);
  check.Add(bad, 3);
  check.Add(ChatParams(One(R"({"type":"string"})")), 4);
  check.Add(ChatParams(One(R"({"type":"array"})")), 5);
  check.Add("no json, but schema", 6);
  const SchemaFindings findings = check.Take();
  EXPECT_THAT(findings.errors,
              ElementsAre("d.jsonl:2: (m): body.response_format.json_schema.schema: needs "
                          "additionalProperties: false",
                          "d.jsonl:5: (m): body.response_format.json_schema.schema.properties.p: "
                          "is an array without items"));
  EXPECT_THAT(findings.notices, IsEmpty());
}

TEST(RowSchemaCheck, AFileOfEndlesslyManySchemasIsNotRememberedWithoutEnd) {
  const JobConfig job = Job(kOpenAi, "{}");
  RowSchemaCheck check(&job);
  for (size_t i = 0; i < RowSchemaCheck::kMaxDistinct + 5; ++i) {
    check.Add(ChatParams(One(absl::StrCat(R"({"type":"integer","const":)", i, "}"))),
              static_cast<int64_t>(i + 1));
  }
  EXPECT_THAT(check.Take().notices,
              ElementsAre("d.jsonl:10001: has one schema more than 10000; from here on none is "
                          "checked"));
}

}  // namespace
}  // namespace headrace
