#include "cli/remote/status_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace headrace {
namespace {

using testing::HasSubstr;
using testing::Not;

v1::GetStatusResponse Sample() {
  v1::GetStatusResponse status;
  status.set_state("serving");
  status.set_build("0.1.0");
  status.set_coordinator_boot_id("b00t");
  status.set_uptime_ms(200'000);
  v1::JobStatus* job = status.add_jobs();
  job->set_job_id(1);
  job->set_name("gsm8k");
  job->set_state("running");
  job->set_total(3957);
  job->set_ok(1180);
  job->set_failed(20);
  job->set_items_per_minute(5400);
  job->set_eta_ms(31'000);
  job->set_batches(4);
  job->set_leased_items(900);
  job->set_output_dir("runs/gsm8k");
  job->set_limited_by("tokens/min of pool main");
  job = status.add_jobs();
  job->set_job_id(12);
  job->set_name("old");
  job->set_state("stopped");
  job->set_reason("the account is empty");
  job->set_total(10);
  job->set_ok(10);
  job->set_eta_ms(-1);
  job->set_exit_code(4);
  v1::WorkerStatus* worker = status.add_workers();
  worker->set_worker_id("w1");
  worker->set_connected(true);
  worker->set_build("0.1.0");
  worker->set_batches(4);
  worker->set_leased_items(900);
  worker->set_in_flight(700);
  worker->set_max_in_flight(2500);
  worker->set_last_heard_ms(250);
  worker->set_peer("10.0.0.7:40112");
  worker = status.add_workers();
  worker->set_worker_id("w2-of-a-long-name");
  worker->set_last_heard_ms(61'000);
  worker->set_waiting_for("the provider");
  return status;
}

TEST(StatusView, ACoordinatorWithNothingToDoSaysSo) {
  v1::GetStatusResponse status;
  status.set_state("draining");
  status.set_build("0.1.0");
  EXPECT_EQ(RenderStatus("127.0.0.1:7070", status),
            "coordinator 127.0.0.1:7070: draining, up 0s, headrace 0.1.0\n"
            "jobs: none\n"
            "workers: none\n");
  EXPECT_EQ(StatusJson(status),
            "{\"state\":\"draining\",\"build\":\"0.1.0\",\"coordinator_boot_id\":\"\","
            "\"uptime_ms\":0,\"jobs\":[],\"workers\":[]}");
}

TEST(StatusView, NumbersStandInColumns) {
  EXPECT_EQ(RenderStatus("127.0.0.1:7070", Sample()),
            "coordinator 127.0.0.1:7070: serving, up 3m20s, headrace 0.1.0\n"
            "jobs: 2\n"
            "  ID  JOB    STATE         DONE        FAILED  ITEMS/MIN  ETA  LEASED  NOTE\n"
            "   1  gsm8k  running  1200/3957   30%      20       5.4k  31s     900  limited by "
            "tokens/min "
            "of pool main\n"
            "  12  old    stopped      10/10  100%       0          -    -       0  the account is "
            "empty\n"
            "workers: 2\n"
            "  WORKER             STATE      BATCHES  ITEMS  IN FLIGHT      HEARD  PEER            "
            "BUILD  NOTE\n"
            "  w1                 connected        4    900   700/2500  250ms ago  10.0.0.7:40112  "
            "0.1.0\n"
            "  w2-of-a-long-name  away             0      0        0/0  1m01s ago                  "
            "       waits for the provider\n");
}

TEST(StatusView, JsonHasNoTimesThatAreUnknown) {
  const std::string json = JobsJson(Sample());
  EXPECT_THAT(json, HasSubstr("\"job_id\":1,\"name\":\"gsm8k\",\"state\":\"running\""));
  EXPECT_THAT(json, HasSubstr("\"eta_ms\":31000"));
  EXPECT_THAT(json, HasSubstr("\"eta_ms\":null"));
  EXPECT_THAT(json, HasSubstr("\"exit_code\":4"));
  EXPECT_THAT(json, HasSubstr("\"exit_code\":null")) << "of the job that still runs";
  EXPECT_EQ(std::count(json.begin(), json.end(), '\n'), 0);
}

TEST(StatusView, TextOfAPeerCannotDriveTheTerminal) {
  v1::GetStatusResponse status = Sample();
  status.mutable_workers(0)->set_worker_id("w\x1b[2J\n");
  status.mutable_jobs(0)->set_reason("line one\nline two\x07");
  const std::string table = RenderStatus("a:1", status);
  EXPECT_THAT(table, Not(HasSubstr("\x1b")));
  EXPECT_THAT(table, Not(HasSubstr("\x07")));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 9);
}

TEST(StatusView, WhatIsFoundAboutCallsInFlightStandsBelowTheJobs) {
  v1::GetStatusResponse status = Sample();
  v1::PoolInFlight* pool = status.mutable_jobs(0)->add_in_flight();
  pool->set_pool("main");
  pool->set_limit(300);
  pool->set_found(240);
  pool->set_why("throughput stopped growing at 240: 300 gave 2 % more calls at 22 % more latency");
  EXPECT_THAT(
      RenderStatus("a:1", status),
      HasSubstr("calls in flight, auto:\n"
                "  JOB    POOL  NOW  FOUND  WHY\n"
                "  gsm8k  main  300    240  throughput stopped growing at 240: 300 gave 2 % "
                "more calls at 22 % more latency\n"
                "workers: 2\n"));
  EXPECT_THAT(JobJson(status.jobs(0)),
              HasSubstr("\"in_flight\":[{\"pool\":\"main\",\"limit\":300,\"found\":240,\"why\":"
                        "\"throughput stopped growing at 240: 300 gave 2 % more calls at 22 % more "
                        "latency\"}]"));
  EXPECT_THAT(JobJson(status.jobs(1)), HasSubstr("\"in_flight\":[]"));
}

TEST(StatusView, OnlyAJobThatWillDoNothingMoreHasEnded) {
  v1::JobStatus job;
  for (const char* state : {"opening", "learning", "waiting", "running", "stopping"}) {
    job.set_state(state);
    EXPECT_FALSE(HasEnded(job)) << state;
  }
  for (const char* state : {"complete", "interrupted", "stopped", "error"}) {
    job.set_state(state);
    EXPECT_TRUE(HasEnded(job)) << state;
  }
}

TEST(StatusView, ALineOnAJobNamesItAndItsNumbers) {
  EXPECT_EQ(RenderJobLine(Sample().jobs(0)),
            "gsm8k (job 1): running, 1200 of 3957 done (1180 ok, 20 failed); limited by tokens/min "
            "of pool main");
}

}  // namespace
}  // namespace headrace
