#include "tests/support/sim_checks.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/outcome/result_line.h"

namespace headrace {

std::string SimChecks::RunKey(uint64_t job) { return absl::StrCat("job", job); }

std::string SimChecks::Key(uint64_t job, uint64_t item) {
  return absl::StrCat(RunKey(job), "-", item);
}

RunLines SimChecks::ReadLines(const FaultDisk& disk, const std::string& dir) {
  RunLines lines;
  for (const char* name : {"results.jsonl", "errors.jsonl"}) {
    const std::string content = disk.Content(absl::StrCat(dir, "/", name));
    for (absl::string_view line : absl::StrSplit(content, '\n', absl::SkipEmpty())) {
      const auto key = CheckResultLine(line);
      if (!key.ok()) {
        ADD_FAILURE() << name << ": " << key.status() << ": " << line;
        continue;
      }
      EXPECT_EQ(key->error_class == ErrorClass::kNone, absl::StartsWith(name, "results"));
      EXPECT_TRUE(lines.emplace(key->item.value(), key->error_class).second)
          << dir << ": item " << key->item << " has two lines";
    }
  }
  return lines;
}

void SimChecks::OnRecovered(uint64_t job, const RunLines& lines, const JobState& state) {
  for (const JobItem& item : acked_) {
    if (item.job != job) continue;
    EXPECT_TRUE(lines.contains(item.item))
        << "item " << item.item << " of job " << job << " was acknowledged and is not on the disk";
  }
  for (const auto& [item, error_class] : lines_[job]) {
    auto found = lines.find(item);
    EXPECT_TRUE(found != lines.end() && found->second == error_class)
        << "the line of item " << item << " of job " << job << " has changed";
  }
  for (const auto& [item, error_class] : lines) {
    EXPECT_TRUE(state.resolved(ItemId(item))) << "item " << item << " has a line and no outcome";
  }
  EXPECT_EQ(static_cast<size_t>(state.ok() + state.failed()), lines.size());
  lines_[job] = lines;
}

void SimChecks::CheckLeases(const JobRunner& runner) {
  std::set<uint64_t> seen;
  int64_t open = 0;
  size_t lost = 0;
  for (const auto& [batch, lease] : runner.leases().all()) {
    lost += !lease.live;
    EXPECT_EQ(lease.live, !runner.leases().lost().contains(batch));
    open += static_cast<int64_t>(lease.open.size());
    for (uint64_t item : lease.open) {
      EXPECT_TRUE(seen.insert(item).second) << "item " << item << " is open in two leases";
      EXPECT_FALSE(runner.state().resolved(ItemId(item))) << "item " << item << " is resolved";
      EXPECT_TRUE(runner.state().taken(ItemId(item))) << "item " << item << " is not taken";
    }
  }
  EXPECT_EQ(open, runner.leases().open_items());
  EXPECT_EQ(lost, runner.leases().lost().size());
}

int SimChecks::grants(uint64_t job, uint64_t item) const {
  auto it = grants_.find({job, item});
  return it == grants_.end() ? 0 : it->second;
}

int64_t SimChecks::acked_results(int process) const {
  auto it = processes_.find(process);
  return it == processes_.end() ? 0 : it->second.acked;
}

// ---------------------------------------------------------------------------------------------

void SimChecks::OnCall(int process, const std::string& key) {
  const size_t dash = key.find('-');
  JobItem item;
  ASSERT_TRUE(absl::SimpleAtoi(key.substr(3, dash - 3), &item.job) &&
              absl::SimpleAtoi(key.substr(dash + 1), &item.item))
      << key;
  const MonoTime now = reactor_->Now();
  std::string ended;
  for (const auto& [lease, right] : processes_[process].may[item]) {
    const MonoTime lease_end = processes_[process].lease_ends[lease];
    // What was admitted in the turn of the cancel may still go out.
    if (now <= right.until && now <= lease_end) return;
    absl::StrAppend(&ended, "; that of batch ", lease.batch, " epoch ", lease.epoch, " was ended ");
    if (now > right.until) {
      absl::StrAppend(&ended, absl::FormatDuration(now - right.until), " ago by ", right.ended_by);
    } else {
      absl::StrAppend(&ended, absl::FormatDuration(now - lease_end), " ago by time");
    }
  }
  ADD_FAILURE() << "worker process " << process << " calls " << key << " and holds no lease of it"
                << ended;
}

void SimChecks::End(Right* right, const char* ended_by) {
  if (right->until <= reactor_->Now()) return;
  *right = {reactor_->Now(), ended_by};
}

void SimChecks::OnSent(SimStreamId stream, const v1::WorkerMessage& message) {
  if (!message.has_results()) return;
  Process& process = processes_[stream.process];
  const v1::Results& results = message.results();
  const uint64_t seq = results.chunk_seq();
  EXPECT_LE(seq, process.last_chunk + 1) << "a chunk was left out";
  if (seq != process.last_chunk + 1) return;  // again
  process.last_chunk = seq;
  for (const v1::BatchDone& done : results.done()) {
    Revoke(&process, {done.job_id(), done.batch_id(), done.epoch()}, std::vector<uint64_t>(),
           "its end");
  }
  for (const v1::ReturnedItems& returned : results.returned()) {
    if (returned.items().empty()) continue;
    Revoke(&process, {returned.job_id(), returned.batch_id(), returned.epoch()}, returned.items(),
           "being given back");
  }
  std::vector<JobItem>& items = process.chunks[seq];
  for (const v1::ItemResult& result : results.results()) {
    if (result.error_class() == 0) items.push_back({result.job_id(), result.item()});
  }
}

void SimChecks::OnSent(SimStreamId stream, const v1::CoordinatorMessage& message) {
  Process& process = processes_[stream.process];
  const MonoTime now = reactor_->Now();
  if (message.has_grant()) {
    const v1::Grant& grant = message.grant();
    OnGrantSent(stream, grant);
    process.lease_ends[{grant.job_id(), grant.batch_id(), grant.epoch()}] = now + lease_;
  }
  for (const v1::HeldBatch& held : message.renew().held()) {
    process.lease_ends[{held.job_id(), held.batch_id(), held.epoch()}] = now + lease_;
  }
  if (message.has_ack()) OnAck(&process, message.ack().chunk_seq());
}

void SimChecks::OnAck(Process* process, uint64_t seq) {
  EXPECT_LE(seq, process->last_chunk) << "a chunk was acknowledged that was never sent";
  while (!process->chunks.empty() && process->chunks.begin()->first <= seq) {
    const std::vector<JobItem>& items = process->chunks.begin()->second;
    ++acks_;
    process->acked += static_cast<int64_t>(items.size());
    acked_.insert(items.begin(), items.end());
    process->chunks.erase(process->chunks.begin());
  }
}

void SimChecks::OnGrantSent(SimStreamId stream, const v1::Grant& grant) {
  Account& account = accounts_[{stream, {grant.job_id(), grant.model()}}];
  const MonoTime now = reactor_->Now();
  const auto items = static_cast<uint64_t>(grant.items_size());
  account.granted += items;
  account.on_way[{grant.job_id(), grant.batch_id(), grant.epoch()}] = {now, items};
  uint64_t late = 0;
  for (const auto& [name, sent] : account.on_way) {
    if (now - sent.first > lease_ / 2) late += sent.second;
  }
  // What does not come within half a lease counts as lost, and its credits are free again.
  EXPECT_LE(account.granted - account.void_items - late, account.wanted)
      << "worker process " << stream.process << " got more than it asked for";
  for (const v1::Item& item : grant.items()) ++grants_[{grant.job_id(), item.item()}];
}

void SimChecks::OnGrantArrived(SimStreamId stream, const v1::Grant& grant, bool lost) {
  Account& account = accounts_[{stream, {grant.job_id(), grant.model()}}];
  auto it = account.on_way.find({grant.job_id(), grant.batch_id(), grant.epoch()});
  if (it == account.on_way.end()) return;  // it came twice
  const auto [sent, items] = it->second;
  if (lost || reactor_->Now() - sent > lease_ / 2) account.void_items += items;
  account.on_way.erase(it);
}

void SimChecks::OnGrantDelivered(Process* process, const v1::Grant& grant) {
  const LeaseName name{grant.job_id(), grant.batch_id(), grant.epoch()};
  if (!process->leases.insert(name).second) return;
  for (const v1::Item& item : grant.items()) {
    process->may[{grant.job_id(), item.item()}][name] = Right();
  }
}

void SimChecks::Revoke(Process* process, const v1::Cancel& cancel) {
  Revoke(process, {cancel.job_id(), cancel.batch_id(), cancel.epoch()}, cancel.items(),
         cancel.items().empty() ? "a cancel of the batch" : "a cancel of the item");
}

template <typename Items>
void SimChecks::Revoke(Process* process, const LeaseName& name, const Items& items,
                       const char* ended_by) {
  for (auto& [item, leases] : process->may) {
    const bool meant =
        items.empty() || std::find(items.begin(), items.end(), item.item) != items.end();
    auto it = leases.find(name);
    if (meant && it != leases.end()) End(&it->second, ended_by);
  }
}

void SimChecks::OnDelivered(SimStreamId stream, const v1::WorkerMessage& message) {
  for (const v1::ModelWant& want : message.want().models()) {
    Account& account = accounts_[{stream, {want.job_id(), want.model()}}];
    account.wanted = std::max<uint64_t>(account.wanted, want.items_total());
  }
}

void SimChecks::OnDelivered(SimStreamId stream, const v1::CoordinatorMessage& message) {
  Process& process = processes_[stream.process];
  if (message.has_grant()) {
    OnGrantArrived(stream, message.grant(), /*lost=*/false);
    OnGrantDelivered(&process, message.grant());
  } else if (message.has_cancel()) {
    Revoke(&process, message.cancel());
  } else if (message.has_job_done() || message.has_drain()) {
    const uint64_t job =
        message.has_drain() ? message.drain().job_id() : message.job_done().job_id();
    for (auto& [item, leases] : process.may) {
      if (job != 0 && item.job != job) continue;
      for (auto& [name, right] : leases)
        End(&right, message.has_drain() ? "a drain" : "the end of the job");
    }
  }
}

void SimChecks::OnLost(SimStreamId stream, const v1::CoordinatorMessage& message) {
  if (message.has_grant()) OnGrantArrived(stream, message.grant(), /*lost=*/true);
}

}  // namespace headrace
