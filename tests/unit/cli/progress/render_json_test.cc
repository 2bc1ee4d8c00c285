#include "cli/progress/render.h"
#include "gtest/gtest.h"
#include "simdjson.h"
#include "tests/unit/cli/progress/sample.h"

namespace headrace {
namespace {

TEST(RenderJsonLine, HasEveryFieldOfTheSnapshot) {
  EXPECT_EQ(RenderJsonLine(SampleSnapshot()),
            R"({"event":"progress","job":"gsm8k","elapsed_s":685.000,"pass":1,"passes":2,)"
            R"("items":{"total":150000,"done":61740,"ok":61700,"failed":40,"deferred":60},)"
            R"("items_per_minute":5412.0,"eta_s":978,)"
            R"("pools":[{"name":"main","tokens_per_minute":4810000,"tokens_limit":5000000,)"
            R"("requests_per_minute":5420,"requests_limit":10000}],)"
            R"("models":[{"label":"gpt-4o-mini","total":50000,"done":20600,"failed":12},)"
            R"({"label":"claude-haiku","total":50000,"done":20540,"failed":20},)"
            R"({"label":"gpt-4o","total":50000,"done":20600,"failed":8}],)"
            R"("workers":1,"in_flight":2480,"max_in_flight":2500,"auto_in_flight":false,)"
            R"("gate_waiting":12,)"
            R"("ms":{"queue_p50":12.000,"queue_p95":80.000,"network_p50":24100.000,)"
            R"("network_p95":40000.000},"throttled":9,"retries":131,)"
            R"("failures":{"timeout":58,"content_filter":42},"cost_usd":12.400000,)"
            R"("limited_by":"tokens/min of pool main","waiting_for":""})");
}

TEST(RenderJsonLine, SaysWhatAutoHasFoundAndWhy) {
  ProgressSnapshot snapshot = SampleSnapshot();
  snapshot.auto_in_flight = true;
  snapshot.max_in_flight = 240;
  snapshot.pools[0].in_flight_limit = 240;
  snapshot.pools[0].in_flight_why = "throughput stopped growing at 240";
  const std::string line = RenderJsonLine(snapshot);
  EXPECT_NE(
      line.find(R"("in_flight_limit":240,"in_flight_why":"throughput stopped growing at 240")"),
      std::string::npos)
      << line;
  EXPECT_NE(line.find(R"("max_in_flight":240,"auto_in_flight":true)"), std::string::npos) << line;
}

TEST(RenderJsonLine, WhatIsUnknownIsNull) {
  ProgressSnapshot snapshot;
  snapshot.job = "a \"quoted\"\nname";
  snapshot.finished = true;
  const std::string line = RenderJsonLine(snapshot);
  EXPECT_EQ(line.find('\n'), std::string::npos);
  simdjson::dom::parser parser;
  simdjson::dom::object object;
  ASSERT_EQ(parser.parse(line).get(object), simdjson::SUCCESS) << line;
  EXPECT_TRUE(object["eta_s"].is_null());
  EXPECT_TRUE(object["cost_usd"].is_null());
  EXPECT_TRUE(object["ms"]["queue_p50"].is_null());
  std::string_view event;
  ASSERT_EQ(object["event"].get(event), simdjson::SUCCESS);
  EXPECT_EQ(event, "finished");
}

}  // namespace
}  // namespace headrace
