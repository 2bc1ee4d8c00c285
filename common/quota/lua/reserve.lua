-- Reserve and settle: model.cc.


function F.note_wait(binding) S.waited, S.wfor = now, binding end

function F.refuse(id, job, model, at, binding)
  if S.cid == id then S.cseen = now end
  F.fair_refused(job, model)
  F.note_wait(binding)
  return fmt('%d %d %d', RETRY_AT, at, binding)
end

function F.renew_claim(id, at, binding)
  if S.cid == id then
    S.cseen = now
  elseif S.cid == '' and at <= now + 120000000 then
    S.cid, S.cdim, S.csince, S.cseen = id, binding, now, now
  end
end

function F.book(id, job, model, costs, at, binding)
  local rec = {0, at, 0, binding, job, model}
  for d = 1, 7 do rec[R_COST + d], rec[R_SHARE + d] = costs[d], 0 end
  rec[R_WORKER] = ARGV[3]
  local used = {0, 0, 0, 0, 0, 0, 0}
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local d = lim[DIM] + 1
    local share = F.share_of(lim)
    rec[R_SHARE + d] = share
    if lim[PACED] == 1 then
      local tat = max(F.tat_of(lim), at)
      if tat ~= lim[TAT] then lim[TAT], lim[TICKS] = tat, 0 end
      F.move_tat(lim, F.ticks(lim, costs[d], share))
    end
    if lim[SIZE] > 0 then
      F.ring_add(lim, at, F.bounded(lim, costs[d]))
      used[d] = F.ring_used(lim, at)
    elseif lim[TAT] > at then
      used[d] = floor(((lim[TAT] - at) * lim[SCALE] + lim[TICKS]) / F.price(lim, share))
    end
  end
  F.fair_served(job, model, F.pool_us(costs, rec, R_SHARE))
  F.note_usage(at, costs, 1)
  F.add_open(id, rec)
  if S.cid == id then S.cid = '' end
  if S.closed == 1 then S.probeid, S.probe = id, now + 30000000 end
  return fmt('%d %d %d %d %d %d %d %d %d %d', SEND_AT, at, binding, unpack(used))
end

-- `costs` are normalised by the caller.
function F.reserve(id, job, model, job_weight, weight, costs)
  F.advance()
  local rec = F.rec_of(id)
  if rec then
    if rec.closed then return fmt('%d %d 0', SEND_AT, rec.closed) end
    return fmt('%d %d %d', SEND_AT, rec[R_AT], rec[R_BIND])
  end
  if S.closed == 1 and now < S.probe then return fmt('%d 0 0 ', CLOSED) .. S.ctext end
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local cost = costs[lim[DIM] + 1]
    if cost > lim[LIMIT] then
      return fmt('%d 0 %d %d %d', NEVER_FITS, lim[DIM], cost, lim[LIMIT])
    end
  end
  F.reap()
  local window = 2 * C.horizon
  F.fair_ask(job, model, job_weight, weight, window)
  if now < S.gate then return F.refuse(id, job, model, S.gate, S.gdim) end
  if now < S.learning then return F.refuse(id, job, model, S.learning, IN_FLIGHT) end
  if open >= min(F.slots(), 1048576) then
    S.slotref = now
    return F.refuse(id, job, model, now + max(C.horizon, 1000), IN_FLIGHT)
  end
  local at, binding = F.last_booked(), S.wfor
  for i = 1, #S.lim do
    local lim = S.lim[i]
    if lim[PACED] == 1 then
      local earliest = F.tat_of(lim) - lim[BURST]
      if earliest > at then at, binding = earliest, lim[DIM] end
    end
  end
  local paced = at
  if paced > now + C.horizon then
    return F.refuse(id, job, model, paced - C.horizon + floor(C.horizon / 8), binding)
  end
  for i = 1, #S.lim do
    local lim = S.lim[i]
    if lim[SIZE] > 0 then
      local fits = F.fit_at(lim, at, costs[lim[DIM] + 1])
      if fits > at then at, binding = fits, lim[DIM] end
    end
  end
  local part = max(floor(C.horizon / 8), 1000)
  if S.cid ~= '' and S.cid ~= id and S.cseen < now - max(window, 1000000) then S.cid = '' end
  local patient = S.cid ~= '' and S.csince <= now - 4000000
  local first = patient and S.cid == id
  if not first and (at > now or S.slotref >= now - window) and F.fair_yields(job, model, window) then
    return F.refuse(id, job, model, now + part, binding)
  end
  if not first and patient then return F.refuse(id, job, model, now + part, S.cdim) end
  local latest = first and now + C.horizon or min(now + C.horizon, paced + 250000)
  if at > latest then
    F.renew_claim(id, at, binding)
    local ask = at - (first and C.horizon or min(C.horizon, 250000))
    return F.refuse(id, job, model, min(max(ask, now + 1000), now + 60000000), binding)
  end
  if at > now then F.note_wait(binding) end
  return F.book(id, job, model, costs, at, binding)
end

function F.age(pressure)
  if now - pressure[3] < 5000000 then return end
  local halves = 2 ^ min(62, floor((now - pressure[3]) / 5000000))
  pressure[1], pressure[2] = floor(pressure[1] / halves), floor(pressure[2] / halves)
  pressure[3] = now
end

function F.note_answer(pressure)
  F.age(pressure)
  pressure[2] = pressure[2] + 1
end

-- `outcome`: the numbers of Settlement in pool_store.h.

function F.settle(id, outcome, actual)
  F.advance()
  local rec = F.rec_of(id)
  if not rec or rec.closed then
    -- A cancellation can overtake the question that it cancels.
    if not rec and outcome == NOT_SENT then F.remember_closed(id, now) end
    return
  end
  local reserved = F.reserved_of(rec)
  local before = rec[R_VOID] == 1 and {0, 0, 0, 0, 0, 0, 0} or reserved
  local after = {0, 0, 0, 0, 0, 0, 0}
  if outcome == UNKNOWN then
    after = F.reserved_of(rec)
  elseif outcome == REJECTED then
    after[REQ] = reserved[REQ]
  elseif outcome == CHARGED then
    for d = 1, 7 do after[d] = max(0, actual[d]) end
    after[REQ] = max(after[REQ], reserved[REQ])
  end
  after[REQ_DAY] = after[REQ]
  after[TOK_DAY] = max(after[TOK], after[INP] + after[OUT])
  after[SLOT] = before[SLOT]
  F.charge(rec, before, after)
  if outcome == CHARGED then
    F.note_answer(S.rpress)
    F.note_answer(S.cpress)
    if S.closed == 1 and id == S.probeid then S.closed = 0; C.announce = true end
  end
  F.close(id)
end
