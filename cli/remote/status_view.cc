#include "cli/remote/status_view.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/progress/text_width.h"
#include "common/base/json_writer.h"
#include "common/base/units.h"

namespace headrace {
namespace {

constexpr int kNameColumns = 32;
constexpr int kNoteColumns = 72;
constexpr int kWhyColumns = 120;

using Row = std::vector<std::string>;

// Columns two spaces apart; numbers, which are those named in `right`, end in one column.
std::string RenderTable(const std::vector<Row>& rows, const std::vector<size_t>& right) {
  std::vector<int> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], TextWidth(row[i]));
  }
  std::string out;
  for (const Row& row : rows) {
    std::string line = "  ";
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(static_cast<size_t>(widths[i] - TextWidth(row[i])), ' ');
      const bool to_the_right = std::find(right.begin(), right.end(), i) != right.end();
      absl::StrAppend(&line, to_the_right ? space : "", row[i], to_the_right ? "" : space, "  ");
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&out, line, "\n");
  }
  return out;
}

std::string Milliseconds(int64_t ms) { return headrace::FormatDuration(absl::Milliseconds(ms)); }

int64_t Done(const v1::JobStatus& job) { return job.ok() + job.failed(); }

// What a person wants to know besides the numbers.
std::string Note(const v1::JobStatus& job) {
  if (!job.reason().empty()) return job.reason();
  if (!job.waiting_for().empty()) return absl::StrCat("waits for ", job.waiting_for());
  if (!job.limited_by().empty()) return absl::StrCat("limited by ", job.limited_by());
  return "";
}

std::string Percent(const v1::JobStatus& job) {
  if (job.total() <= 0) return "-";
  // Not 100 % before the last one.
  return absl::StrCat(Done(job) * 100 / job.total(), "%");
}

Row JobRow(const v1::JobStatus& job) {
  const bool ended = HasEnded(job);
  return {absl::StrCat(job.job_id()),
          FitText(job.name(), kNameColumns),
          FitText(job.state(), kNameColumns),
          absl::StrCat(Done(job), "/", job.total()),
          Percent(job),
          absl::StrCat(job.failed()),
          ended ? "-" : headrace::FormatCount(job.items_per_minute()),
          ended || job.eta_ms() < 0 ? "-" : Milliseconds(job.eta_ms()),
          absl::StrCat(job.leased_items()),
          FitText(Note(job), kNoteColumns)};
}

// What was found about the calls in flight that pay; nothing where that is not sought.
std::string RenderInFlight(const v1::GetStatusResponse& status) {
  std::vector<Row> rows = {{"JOB", "POOL", "NOW", "FOUND", "WHY"}};
  for (const v1::JobStatus& job : status.jobs()) {
    for (const v1::PoolInFlight& pool : job.in_flight()) {
      rows.push_back({FitText(job.name(), kNameColumns), FitText(pool.pool(), kNameColumns),
                      absl::StrCat(pool.limit()), absl::StrCat(pool.found()),
                      FitText(pool.why(), kWhyColumns)});
    }
  }
  if (rows.size() == 1) return "";
  return absl::StrCat("calls in flight, auto:\n", RenderTable(rows, {2, 3}));
}

Row WorkerRow(const v1::WorkerStatus& worker) {
  return {
      FitText(worker.worker_id(), kNameColumns),
      worker.connected() ? "connected" : "away",
      absl::StrCat(worker.batches()),
      absl::StrCat(worker.leased_items()),
      absl::StrCat(worker.in_flight(), "/", worker.max_in_flight()),
      absl::StrCat(Milliseconds(worker.last_heard_ms()), " ago"),
      FitText(worker.peer(), kNameColumns),
      FitText(worker.build(), kNameColumns),
      FitText(worker.waiting_for().empty() ? "" : absl::StrCat("waits for ", worker.waiting_for()),
              kNoteColumns)};
}

std::string RenderWorkers(const v1::GetStatusResponse& status) {
  if (status.workers().empty()) return "workers: none\n";
  std::vector<Row> rows = {
      {"WORKER", "STATE", "BATCHES", "ITEMS", "IN FLIGHT", "HEARD", "PEER", "BUILD", "NOTE"}};
  for (const v1::WorkerStatus& worker : status.workers()) rows.push_back(WorkerRow(worker));
  return absl::StrCat("workers: ", status.workers_size(), "\n", RenderTable(rows, {2, 3, 4, 5}));
}

void WriteJob(const v1::JobStatus& job, JsonWriter* json) {
  json->BeginObject();
  json->Key("job_id").Uint(job.job_id());
  json->Key("name").String(job.name());
  json->Key("state").String(job.state());
  json->Key("reason").String(job.reason());
  json->Key("total").Int(job.total());
  json->Key("ok").Int(job.ok());
  json->Key("failed").Int(job.failed());
  json->Key("deferred").Int(job.deferred());
  json->Key("items_per_minute").Fixed(job.items_per_minute(), 1);
  json->Key("eta_ms");
  job.eta_ms() < 0 ? json->Null() : json->Int(job.eta_ms());
  json->Key("batches").Uint(job.batches());
  json->Key("leased_items").Int(job.leased_items());
  json->Key("output_dir").String(job.output_dir());
  json->Key("waiting_for").String(job.waiting_for());
  json->Key("limited_by").String(job.limited_by());
  json->Key("retries").Int(job.retries());
  json->Key("throttled").Int(job.throttled());
  json->Key("superseded").Int(job.superseded());
  json->Key("cost_usd").Double(job.cost_usd());
  json->Key("in_flight").BeginArray();
  for (const v1::PoolInFlight& pool : job.in_flight()) {
    json->BeginObject();
    json->Key("pool").String(pool.pool());
    json->Key("limit").Int(pool.limit());
    json->Key("found").Int(pool.found());
    json->Key("why").String(pool.why());
    json->EndObject();
  }
  json->EndArray();
  json->Key("exit_code");
  HasEnded(job) ? json->Int(job.exit_code()) : json->Null();
  json->EndObject();
}

void WriteJobs(const v1::GetStatusResponse& status, JsonWriter* json) {
  json->Key("jobs").BeginArray();
  for (const v1::JobStatus& job : status.jobs()) WriteJob(job, json);
  json->EndArray();
}

void WriteWorker(const v1::WorkerStatus& worker, JsonWriter* json) {
  json->BeginObject();
  json->Key("worker_id").String(worker.worker_id());
  json->Key("connected").Bool(worker.connected());
  json->Key("build").String(worker.build());
  json->Key("peer").String(worker.peer());
  json->Key("batches").Uint(worker.batches());
  json->Key("leased_items").Int(worker.leased_items());
  json->Key("in_flight").Uint(worker.in_flight());
  json->Key("max_in_flight").Uint(worker.max_in_flight());
  json->Key("last_heard_ms").Int(worker.last_heard_ms());
  json->Key("unacked_bytes").Uint(worker.unacked_bytes());
  json->Key("waiting_for").String(worker.waiting_for());
  json->EndObject();
}

}  // namespace

bool HasEnded(const v1::JobStatus& job) {
  for (const absl::string_view going : {"opening", "learning", "waiting", "running", "stopping"}) {
    if (job.state() == going) return false;
  }
  return true;
}

std::string RenderJobs(const v1::GetStatusResponse& status) {
  if (status.jobs().empty()) return "jobs: none\n";
  std::vector<Row> rows = {
      {"ID", "JOB", "STATE", "DONE", "", "FAILED", "ITEMS/MIN", "ETA", "LEASED", "NOTE"}};
  for (const v1::JobStatus& job : status.jobs()) rows.push_back(JobRow(job));
  return absl::StrCat("jobs: ", status.jobs_size(), "\n", RenderTable(rows, {0, 3, 4, 5, 6, 7, 8}));
}

std::string RenderStatus(absl::string_view address, const v1::GetStatusResponse& status) {
  return absl::StrCat("coordinator ", address, ": ", FitText(status.state(), kNameColumns), ", up ",
                      Milliseconds(status.uptime_ms()), ", headrace ",
                      FitText(status.build(), kNameColumns), "\n", RenderJobs(status),
                      RenderInFlight(status), RenderWorkers(status));
}

std::string RenderJobLine(const v1::JobStatus& job) {
  std::string out =
      absl::StrCat(FitText(job.name(), kNameColumns), " (job ", job.job_id(),
                   "): ", FitText(job.state(), kNameColumns), ", ", Done(job), " of ", job.total(),
                   " done (", job.ok(), " ok, ", job.failed(), " failed)");
  const std::string note = Note(job);
  if (!note.empty()) absl::StrAppend(&out, "; ", FitText(note, kNoteColumns));
  return out;
}

std::string StatusJson(const v1::GetStatusResponse& status) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Key("state").String(status.state());
  json.Key("build").String(status.build());
  json.Key("coordinator_boot_id").String(status.coordinator_boot_id());
  json.Key("uptime_ms").Int(status.uptime_ms());
  WriteJobs(status, &json);
  json.Key("workers").BeginArray();
  for (const v1::WorkerStatus& worker : status.workers()) WriteWorker(worker, &json);
  json.EndArray();
  json.EndObject();
  return out;
}

std::string JobsJson(const v1::GetStatusResponse& status) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  WriteJobs(status, &json);
  json.EndObject();
  return out;
}

std::string JobJson(const v1::JobStatus& job) {
  std::string out;
  JsonWriter json(&out);
  WriteJob(job, &json);
  return out;
}

std::string SubmissionJson(const v1::SubmitJobResponse& submission) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject();
  json.Key("job_id").Uint(submission.job_id());
  json.Key("output_dir").String(submission.output_dir());
  json.Key("existed").Bool(submission.existed());
  json.EndObject();
  return out;
}

}  // namespace headrace
