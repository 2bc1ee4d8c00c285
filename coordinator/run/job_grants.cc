// Batches out and back: grants, leases that end or are lost, and what workers bring along.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/outcome/result_line.h"
#include "coordinator/run/job_runner.h"

namespace headrace {
namespace {

// Batch ids are made durable in blocks, so that granting waits for no disk.
constexpr uint64_t kIdBlock = 4096;
// Of the items of one grant on the wire: large rows make small batches. Chosen, not measured.
constexpr size_t kMaxGrantBytes = size_t{4} << 20;

}  // namespace

// ---------------------------------------------------------------------------------------------
// Out

bool JobRunner::Grantable(WorkerKey worker, size_t model, uint64_t credits) const {
  if (credits == 0) return false;
  if (LostFor(worker, model) != nullptr) return true;
  const Feed& feed = *feeds_[model];
  if (feed.ready() == 0) return false;
  const size_t wanted =
      std::min<size_t>({static_cast<size_t>(job_.batch_size), static_cast<size_t>(credits)});
  // A part of a batch goes out only when no more rows are on their way.
  return feed.ready() >= wanted || feed.dry();
}

const LeaseTable::Lease* JobRunner::LostFor(WorkerKey worker, size_t model) const {
  for (BatchId batch : leases_.lost()) {
    const LeaseTable::Lease* lease = leases_.Find(batch);
    // Under a new epoch it would lose what it has done: it is asked first, by its next beat.
    if (lease->maybe_held && lease->worker == worker) continue;
    if (lease->grant.model() != model) continue;
    if (!lease->suspect || !leases_.HoldsAny(worker)) return lease;
  }
  return nullptr;
}

std::optional<v1::Grant> JobRunner::NextGrant(WorkerKey worker, const ModelCredits& credits) {
  if (stop_.has_value() || ended_.is_set() || learning_) return std::nullopt;
  if (leases_.HoldsSuspect(worker)) return std::nullopt;
  const std::optional<size_t> model =
      turns_.Next([this, worker, &credits](size_t i) { return Grantable(worker, i, credits[i]); });
  if (!model.has_value() || !MayHaveGrants(worker)) return std::nullopt;
  if (next_batch_ >= reserved_batches_) {
    if (!std::exchange(reserving_, true)) work_.Spawn(ReserveIds(this));
    return std::nullopt;
  }
  const size_t max_items = std::min<size_t>(credits[*model], job_.batch_size);
  v1::Grant grant = MakeGrant(worker, *model, max_items);
  // Everything that was ready may have been resolved by a late result.
  if (grant.items_size() == 0) return std::nullopt;
  turns_.Serve(*model, grant.items_size());
  return grant;
}

v1::Grant JobRunner::MakeGrant(WorkerKey worker, size_t model, size_t max_items) {
  const MonoTime expiry = reactor_->Now() + options_.lease;
  const BatchId id = next_batch_;
  next_batch_ = BatchId(next_batch_.value() + 1);
  if (const LeaseTable::Lease* lost = LostFor(worker, model)) {
    const BatchId batch(lost->grant.batch_id());
    return leases_.Reissue(batch, worker, id, max_items, expiry);
  }
  v1::Grant grant;
  grant.set_batch_id(id.value());
  grant.set_epoch(1);
  grant.set_job_id(options_.job_id);
  grant.set_model(static_cast<uint32_t>(model));
  grant.set_pass(feeds_[model]->pass());
  grant.set_ttl_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.lease)));
  for (v1::Item& item : feeds_[model]->Take(max_items, kMaxGrantBytes)) {
    *grant.add_items() = std::move(item);
  }
  if (grant.items_size() > 0) leases_.Add(worker, grant, expiry);
  return grant;
}

bool JobRunner::MayHaveGrants(WorkerKey worker) {
  if (!options_.record_workers) return true;
  auto [it, fresh] = recorded_.emplace(worker, Recorded::kUnderWay);
  if (fresh) work_.Spawn(RecordWorker(this, worker, names_[worker], /*present=*/true));
  return it->second == Recorded::kDone;
}

Task<void> JobRunner::RecordWorker(JobRunner* self, WorkerKey worker, WorkerName name,
                                   bool present) {
  const absl::Status status =
      co_await self->store_->RecordWorker(name.id, name.boot_nonce, present);
  if (!status.ok()) {
    self->Stop("error", ExitCode::kError, absl::StrCat("the journal: ", status.message()));
    co_return;
  }
  if (!present) co_return;
  self->recorded_[worker] = Recorded::kDone;
  self->Advance();
}

Task<void> JobRunner::ReserveIds(JobRunner* self) {
  const BatchId up_to(self->next_batch_.value() + kIdBlock);
  absl::Status status = co_await self->store_->ReserveBatchIds(up_to);
  self->reserving_ = false;
  if (!status.ok()) {
    self->Stop("error", ExitCode::kError, absl::StrCat("the journal: ", status.message()));
    co_return;
  }
  self->reserved_batches_ = up_to;
  self->Advance();
}

void JobRunner::SplitFor(WorkerKey worker, const ModelCredits& credits) {
  if (!job_.split_stragglers || stop_.has_value() || ended_.is_set() || learning_) return;
  for (size_t model = 0; model < feeds_.size(); ++model) {
    if (credits[model] == 0 || !feeds_[model]->dry() || feeds_[model]->ready() > 0) continue;
    const LeaseTable::Lease* victim = nullptr;
    bool idle = true;
    for (const auto& [id, lease] : leases_.all()) {
      if (!lease.live || lease.grant.model() != model || lease.not_started == 0) continue;
      idle = idle && lease.worker != worker;
      if (lease.not_started < 2 || lease.suspect || split_asked_.contains(id) ||
          !cluster_->connected(lease.worker)) {
        continue;
      }
      const bool more = victim == nullptr || lease.not_started > victim->not_started ||
                        (lease.not_started == victim->not_started &&
                         lease.grant.batch_id() < victim->grant.batch_id());
      if (more) victim = &lease;
    }
    if (!idle || victim == nullptr) continue;
    v1::CoordinatorMessage message;
    v1::GiveBack* give_back = message.mutable_give_back();
    give_back->set_job_id(options_.job_id);
    give_back->set_batch_id(victim->grant.batch_id());
    give_back->set_epoch(victim->grant.epoch());
    give_back->set_items(
        static_cast<uint32_t>(std::min<uint64_t>(victim->not_started / 2, credits[model])));
    split_asked_.insert(BatchId(victim->grant.batch_id()));
    cluster_->Send(victim->worker, std::move(message));
  }
}

// ---------------------------------------------------------------------------------------------
// Workers come and go

void JobRunner::OnHello(WorkerKey worker, const WorkerName& name,
                        const std::vector<v1::HeldBatch>& held) {
  if (ended_.is_set()) return;
  names_[worker] = name;
  absl::flat_hash_set<std::pair<BatchId, Epoch>> holds;
  for (const v1::HeldBatch& batch : held) {
    holds.emplace(BatchId(batch.batch_id()), Epoch(batch.epoch()));
    if (!Renew(worker, batch)) Adopt(worker, batch);
  }
  leases_.HoldsNoLost(worker);
  // What was on its way when the last session broke has not come.
  for (BatchId batch : leases_.OfWorker(worker)) {
    const Epoch epoch(leases_.Find(batch)->grant.epoch());
    if (!holds.contains({batch, epoch})) EndLease(batch, epoch);
  }
  // A worker that started again under its name has lost what the earlier process held.
  for (auto it = awaited_.begin(); it != awaited_.end();) {
    if (it->id != name.id) {
      ++it;
      continue;
    }
    if (*it == name) {
      recorded_[worker] = Recorded::kDone;
    } else {
      work_.Spawn(RecordWorker(this, WorkerKey(0), *it, /*present=*/false));
    }
    it = awaited_.erase(it);
  }
  if (learning_ && awaited_.empty()) EndLearning("all its workers have come");
  Advance();
}

void JobRunner::Adopt(WorkerKey worker, const v1::HeldBatch& held) {
  if (stop_.has_value() || leases_.Find(BatchId(held.batch_id())) != nullptr ||
      held.model() >= feeds_.size()) {
    return;  // the next beat tells the worker to cancel it
  }
  v1::Grant grant;
  grant.set_batch_id(held.batch_id());
  grant.set_epoch(held.epoch());
  grant.set_job_id(options_.job_id);
  grant.set_model(held.model());
  grant.set_pass(held.pass());
  v1::CoordinatorMessage message;
  v1::Cancel* cancel = message.mutable_cancel();
  for (uint64_t id : held.open_items()) {
    const ItemId item(id);
    if (state_->valid(item) && state_->model(item).value() == held.model() && state_->Adopt(item)) {
      grant.add_items()->set_item(id);
    } else {
      cancel->add_items(id);
    }
  }
  if (grant.items_size() == 0) return;
  leases_.Adopt(worker, std::move(grant), reactor_->Now() + options_.lease);
  ++totals_.adopted_batches;
  if (cancel->items_size() == 0) return;
  cancel->set_job_id(options_.job_id);
  cancel->set_batch_id(held.batch_id());
  cancel->set_epoch(held.epoch());
  cancel->set_stop_code(static_cast<uint32_t>(StopCode::kAlreadyDone));
  cancel->set_reason("another worker has it");
  cluster_->Send(worker, std::move(message));
}

bool JobRunner::Renew(WorkerKey worker, const v1::HeldBatch& held) {
  const BatchId batch(held.batch_id());
  if (!leases_.Renew(worker, batch, Epoch(held.epoch()), reactor_->Now() + options_.lease)) {
    return false;
  }
  leases_.SetNotStarted(batch, held.not_started());
  return true;
}

void JobRunner::OnBeat(WorkerKey worker) {
  if (leases_.HoldsNoLost(worker)) Advance();
}

void JobRunner::LoseWorker(WorkerKey worker, bool left) {
  if (ended_.is_set()) return;
  in_flight_.Forget(worker);
  if (left) {
    for (BatchId batch : leases_.OfWorker(worker)) {
      EndLease(batch, Epoch(leases_.Find(batch)->grant.epoch()));
    }
  } else {
    OnLost(leases_.LoseWorker(worker));
  }
  if (recorded_.erase(worker) > 0) {
    work_.Spawn(RecordWorker(this, worker, names_[worker], /*present=*/false));
  }
  names_.erase(worker);
  Advance();
}

void JobRunner::OnLost(const std::vector<BatchId>& batches) {
  totals_.lost_batches += static_cast<int64_t>(batches.size());
  for (BatchId batch : batches) {
    split_asked_.erase(batch);
    const LeaseTable::Lease* lease = leases_.Find(batch);
    const Epoch epoch(lease->grant.epoch());
    totals_.lost_items += static_cast<int64_t>(lease->open.size());
    if (leases_.IsPoison(batch)) {
      const uint32_t losses = lease->losses;
      for (const v1::Item& item : leases_.Remove(batch, epoch)) {
        FailItem(item, ErrorClass::kPoison,
                 absl::StrCat("each of the ", losses,
                              " workers that had this item alone was lost with it"),
                 batch);
      }
    } else if (lease->open.empty() || !lease->has_texts) {
      EndLease(batch, epoch);
    }
  }
}

// ---------------------------------------------------------------------------------------------
// Back

void JobRunner::GiveBack(const v1::Grant& grant, bool has_texts, std::vector<v1::Item> items) {
  std::vector<v1::Item> open;
  for (v1::Item& item : items) {
    if (!state_->resolved(ItemId(item.item()))) open.push_back(std::move(item));
  }
  totals_.given_back += static_cast<int64_t>(open.size());
  if (has_texts) {
    feeds_[grant.model()]->GiveBack(std::move(open));
    return;
  }
  for (const v1::Item& item : open) state_->Return(ItemId(item.item()));
}

void JobRunner::EndLease(BatchId batch, Epoch epoch) {
  const LeaseTable::Lease* lease = leases_.Find(batch);
  if (lease == nullptr || lease->grant.epoch() != epoch.value()) return;
  split_asked_.erase(batch);
  v1::Grant grant;
  grant.set_model(lease->grant.model());
  const bool has_texts = lease->has_texts;
  GiveBack(grant, has_texts, leases_.Remove(batch, epoch));
}

void JobRunner::CancelElsewhere(ItemId item) {
  for (const auto& [batch, lease] : leases_.all()) {
    if (!lease.open.contains(item.value())) continue;
    const Epoch epoch(lease.grant.epoch());
    v1::CoordinatorMessage message;
    v1::Cancel* cancel = message.mutable_cancel();
    cancel->set_job_id(options_.job_id);
    cancel->set_batch_id(batch.value());
    cancel->set_epoch(epoch.value());
    cancel->add_items(item.value());
    cancel->set_stop_code(static_cast<uint32_t>(StopCode::kAlreadyDone));
    cancel->set_reason("another worker has answered it");
    if (lease.live) cluster_->Send(lease.worker, std::move(message));
    leases_.Close(batch, epoch, item);
    return;
  }
}

void JobRunner::OnBadRow(v1::Item item, const std::string& error) {
  FailItem(item, ErrorClass::kBadRow, error, BatchId(0));
}

void JobRunner::FailItem(const v1::Item& item, ErrorClass error_class, const std::string& error,
                         BatchId batch) {
  ResultLine line;
  line.item = ItemId(item.item());
  line.row = state_->row(line.item);
  const uint32_t model = state_->model(line.item).value();
  line.model = job_.models[model].label;
  line.custom_id = item.custom_id();
  line.error_class = error_class;
  line.error_message = error;
  line.pass = feeds_[model]->pass();
  line.batch = batch;
  line.started = reactor_->WallNow();
  v1::ItemResult result;
  result.set_job_id(options_.job_id);
  result.set_item(item.item());
  result.set_error_class(static_cast<uint32_t>(error_class));
  result.set_prompt_tokens(-1);
  result.set_completion_tokens(-1);
  result.set_cached_tokens(-1);
  result.set_first_token_us(-1);
  AppendResultLine(line, result.mutable_line());
  Resolved resolved;
  Accept(std::move(result), Origin{}, &resolved);
  StartCommit(std::move(resolved), nullptr);
  CheckLimits();
}

}  // namespace headrace
