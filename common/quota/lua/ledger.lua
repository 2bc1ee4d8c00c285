-- Reservations: ledger.cc, and what changes them.

function F.rec_of(id)
  local rec = C.recs[id]
  if rec == nil then
    local held = call('HGET', KEYS[3], id)
    rec = false
    if held then
      rec = string.byte(held) == 99 and {closed = tonumber(string.sub(held, 2))} or unpack_one(held)
    end
    C.recs[id] = rec
  end
  return rec
end

-- Reads those of `ids` at once.
function F.load_recs(ids)
  if not ids[1] then return end
  local held = call('HMGET', KEYS[3], unpack(ids))
  for i = 1, #ids do
    local value = held[i]
    if not value then
      C.recs[ids[i]] = false
    elseif string.byte(value) == 99 then
      C.recs[ids[i]] = {closed = tonumber(string.sub(value, 2))}
    else
      C.recs[ids[i]] = unpack_one(value)
    end
  end
end

function F.remember_closed(id, at)
  C.recs[id], C.changed[id] = {closed = at}, true
  C.closed_ids[#C.closed_ids + 1] = id
end

function F.close(id)
  F.remember_closed(id, C.recs[id][R_AT])
  C.ended[#C.ended + 1] = id
  open = open - 1
  if open == 0 then S.tid = '' elseif S.tid == id then S.tid = '?' end
end

function F.add_open(id, rec)
  S.seq = S.seq + 1
  rec[R_SEQ] = S.seq
  C.recs[id], C.changed[id] = rec, true
  C.opened[#C.opened + 1], C.opened[#C.opened + 2] = fmt('%d', S.seq), id
  -- A set without members does not exist, and has lost its time to live.
  if open == 0 then S.head, C.expiring[4] = rec[R_AT], true end
  open = open + 1
  S.tid, S.tat, S.tvoid = id, rec[R_AT], rec[R_VOID]
end

-- The first or last open reservation; false if none. Drops what has no record.
function F.end_of(command)
  F.flush_reservations()
  while true do
    local id = call(command, KEYS[4], 0, 0)[1]
    if not id then open = 0; return false end
    local rec = F.rec_of(id)
    if rec and not rec.closed then return id, rec end
    call('ZREM', KEYS[4], id)
    open = open - 1
  end
end

function F.last_booked()
  if S.tid == '?' then
    local id, rec = F.end_of('ZREVRANGE')
    S.tid = id or ''
    if id then S.tat, S.tvoid = rec[R_AT], rec[R_VOID] end
  end
  if S.tid == '' or S.tvoid == 1 then return now end
  return max(now, S.tat)
end

-- S.head is at most the send time of the oldest reservation, or 0 when nothing is known: send
-- times never go back behind one that is not void.
function F.reap()
  for _ = 1, 16 do
    if open == 0 or (S.head > 0 and S.head + S.timeout > now) then return end
    local id, rec = F.end_of('ZRANGE')
    if not id then return end
    S.head = rec[R_VOID] == 1 and 0 or rec[R_AT]
    if rec[R_AT] + S.timeout > now then return end
    F.close(id)
    S.expired = S.expired + 1
  end
end

function F.note_usage(at, costs, sign)
  local use, second, k = S.use, floor(at / 1000000), 1
  while use[k] and use[k] ~= second do k = k + 8 end
  if not use[k] then
    use[k] = second
    for d = 1, 7 do use[k + d] = sign * costs[d] end
    return
  end
  for d = 1, 7 do use[k + d] = use[k + d] + sign * costs[d] end
end

function F.reserved_of(rec)
  local costs = {}
  for d = 1, 7 do costs[d] = rec[R_COST + d] end
  return costs
end

-- Moves the charge of a reservation from `before` to `after`, at the price of its booking.
function F.charge(rec, before, after)
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local d = lim[DIM] + 1
    local share = rec[R_SHARE + d]
    if share ~= 0 then F.correct(lim, rec[R_AT], before[d], after[d], share) end
  end
  F.fair_correct(rec[R_JOB], rec[R_MODEL],
               F.pool_us(after, rec, R_SHARE) - F.pool_us(before, rec, R_SHARE))
  F.note_usage(rec[R_AT], after, 1)
  F.note_usage(rec[R_AT], before, -1)
end

function F.slots()
  local gauge = S.gauge == 0 and math.huge or S.gauge
  if S.found > 0 then return min(gauge, S.found) end
  if S.capacity[VALUE] == FULL then return gauge end
  return min(gauge, max(1, floor(S.base * S.capacity[VALUE] / FULL)))
end
