-- What the provider says, and changes of the pool: model_feedback.cc, model.cc.

-- Calls visit(id, rec) for the open reservations that are sent after now, the newest first.
function F.each_booked(visit)
  F.flush_reservations()
  local from = 0
  local found = {}
  while true do
    local ids = call('ZREVRANGE', KEYS[4], from, from + 99)
    for i = 1, #ids do
      local rec = F.rec_of(ids[i])
      if not rec or rec.closed or rec[R_AT] <= now then ids = {}; break end
      found[#found + 1] = ids[i]
    end
    if #ids < 100 then break end
    from = from + 100
  end
  for i = 1, #found do visit(found[i], C.recs[found[i]]) end
end

function F.void_booked()
  S.epoch = S.epoch + 1
  C.announce = true
  F.each_booked(function(id, rec)
    if rec[R_VOID] == 1 then return end
    F.charge(rec, F.reserved_of(rec), {0, 0, 0, 0, 1, 0, 0})
    rec[R_VOID], C.changed[id] = 1, true
  end)
  if open > 0 then S.tid = '?' end
  S.head = 0
end


function F.report(pressure)
  F.age(pressure)
  pressure[1] = pressure[1] + 1
end

function F.is_real(pressure, least, answers)
  return pressure[1] >= least and pressure[1] * answers >= pressure[2]
end

function F.cut_capacity(sent)
  local share = S.capacity
  if sent <= share[CUT] then return end
  local was_full = share[VALUE] == FULL
  F.grow(share, 25)
  share[VALUE] = max(LEAST, floor(share[VALUE] * 179 / FULL))
  share[GROWN], share[CUT] = now, now
  if was_full then S.base = max(1, open) end
end

function F.cut_rate(sent, factor, ramp)
  local ramped = false
  for i = 1, #S.lim do
    local lim = S.lim[i]
    if ramp and lim[GROWTH] > 0 then
      ramped = true
      if sent > lim[R_CUT] then
        lim[R_VALUE] = max(LEAST, floor(lim[R_VALUE] * factor / FULL))
        lim[R_GROWN], lim[R_CUT] = now, now
      end
    end
  end
  if ramped or sent <= S.rate[CUT] then return end
  F.grow(S.rate, 7)
  S.rate[VALUE] = max(LEAST, floor(S.rate[VALUE] * factor / FULL))
  S.rate[GROWN], S.rate[CUT] = now, now
end

-- `dimension` and `retry` are -1 when the provider did not say.
function F.penalize(kind, dimension, retry, sent, text)
  F.advance()
  S.pen = S.pen + 1
  -- Where the number in flight is found by trying, who finds it hears of refusals by the samples.
  if S.found > 0 and kind ~= STOP and (kind == CAPACITY or dimension == IN_FLIGHT) then return end
  if kind == CAPACITY then
    F.report(S.cpress)
    if F.is_real(S.cpress, 3, 20) then F.cut_capacity(sent) end
    return
  end
  if kind == STOP then
    if S.closed == 0 then S.ctext = text end
    S.closed, S.probe = 1, now + 30000000
    F.void_booked()
    return
  end
  local hinted = retry > 0
  local gentle = hinted and kind == RATE
  local rates = false
  for i = 1, #S.lim do rates = rates or S.lim[i][PACED] == 1 end
  F.report(S.rpress)
  if F.is_real(S.rpress, gentle and 1 or 3, 50) then
    if rates then
      F.cut_rate(sent, gentle and 250 or 204, kind == RAMP)
    elseif F.is_real(S.rpress, 3, 50) then
      F.cut_capacity(sent)
    end
  end
  if not hinted then return end
  local gate = now + min(retry, 600000000)
  if gate <= S.gate then return end
  S.gate = gate
  S.gdim = dimension >= 0 and dimension or (S.lim[1] and S.lim[1][DIM] or IN_FLIGHT)
  F.void_booked()
end

-- What the provider did not say is -1.
function F.observe(dimension, stated, used, reset, expected, sent)
  F.advance()
  local lim
  for i = 1, #S.lim do if S.lim[i][DIM] == dimension then lim = S.lim[i] end end
  if not lim then return end
  local d = dimension + 1
  if stated > 0 then
    local ceiling = min(max(-floor(-min(stated, lim[LIMIT]) * FULL / lim[LIMIT]), LEAST), FULL)
    if ceiling ~= lim[C_CEIL] then
      F.grow_cap(lim)
      if lim[C_VALUE] >= min(ceiling, lim[C_CEIL]) then lim[C_GROWN] = now end
      lim[C_CEIL], lim[C_VALUE] = ceiling, min(lim[C_VALUE], ceiling)
    end
  end
  sent = min(sent, now)
  if used < 0 or sent <= S.seen[d] or sent < S.gate then return end
  expected = max(0, expected)
  if lim[SIZE] > 0 and lim[DAY] == 0 then
    if reset < 0 or reset > lim[WIDTH] - 2000000 then return end
    local slack = reset % 1000000 == 0 and 1000000 or 0
    expected = F.ring_between(lim, sent + reset - lim[WIDTH] - slack, sent)
  end
  local excess = min(used, lim[LIMIT]) - expected
  if excess <= max(1, floor(lim[LIMIT] / 200)) then return end
  if lim[SIZE] > 0 then
    F.ring_add(lim, now, excess)
    if lim[PACED] == 1 then lim[OUTSIDE_UNTIL] = now + lim[WIDTH] end
  else
    if lim[TAT] < now then lim[TAT], lim[TICKS] = now, 0 end
    F.move_tat(lim, F.ticks(lim, excess, F.share_of(lim)))
  end
  S.outside[d] = S.outside[d] + excess
  S.seen[d] = now
end

function F.take_over(lim, old)
  F.fill(lim)
  if lim[PACED] == 1 and old[PACED] == 1 then
    local ahead = max(F.tat_of(old), now) - now
    local allowance = floor((old[BURST] - ahead) * old[SCALE] / old[PRICE])
    local most = lim[LIMIT] * OVERRUN
    local t = max(-most, min(allowance, most)) * lim[PRICE]
    lim[TAT] = now + lim[BURST] - min(floor(t / lim[SCALE]), lim[BURST])
    lim[TICKS] = 0
  end
  if lim[GROWTH] > 0 and old[GROWTH] > 0 and lim[LIMIT] == old[LIMIT] then
    for k = R_VALUE, R_CUT do lim[k] = old[k] end
  end
end

function F.reconfigure(text)
  if text == S.cfg then return end
  F.advance()
  F.void_booked()
  local old, kept = {}, {}
  for i = 1, #S.lim do
    local lim = S.lim[i]
    old[lim[DIM]] = lim
    if lim[SIZE] > 0 then
      F.ring_of(lim)
      kept[lim[DIM]] = C.rings[lim[DIM]]
    end
  end
  local new = F.blank(text)
  S.cfg, S.gauge, S.timeout, S.learn, S.lim = text, new.gauge, new.timeout, new.learn, new.lim
  S.auto = new.auto
  if S.auto == 0 then S.found = 0 elseif S.found == 0 then S.found = KNEE_START end
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local before = old[lim[DIM]]
    if not before then
      F.fill(lim)
    else
      F.take_over(lim, before)
      if lim[SIZE] > 0 and before[SIZE] > 0 and lim[CELL] == before[CELL]
         and lim[SPAN] == before[SPAN] then
        C.rings[lim[DIM]], lim[LOW] = kept[lim[DIM]], before[LOW]
      end
    end
    old[lim[DIM]] = nil
  end
  for d in pairs(old) do C.rings[d] = nil; call('DEL', KEYS[9 + d]) end
  call('SET', KEYS[2], text)
  S.refreshed = 0
end

-- What a worker sent on its own while the server was away: `debt` of each limit is what is not
-- paid for yet, `cells` what was sent in each second before now.
function F.report_local(debt, cells)
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local d = lim[DIM] + 1
    if lim[PACED] == 1 then
      -- Others may have done the same: no credit is left from before.
      if lim[TAT] < now + lim[BURST] then lim[TAT], lim[TICKS] = now + lim[BURST], 0 end
      F.move_tat(lim, F.ticks(lim, debt[d], F.share_of(lim)))
    end
    if lim[SIZE] > 0 then
      for k = 1, #cells do F.ring_add(lim, now - cells[k][1] * 1000000, F.bounded(lim, cells[k][d + 1])) end
    end
  end
end

-- A reservation that its worker holds and the server has forgotten: what it took is in the cold
-- start, so it takes a slot and is settled without a charge.
function F.adopt(id, job, model, at)
  if F.rec_of(id) then return end
  local rec = {0, min(at, now), 0, REQ - 1, job, model}
  for d = 1, 7 do rec[R_COST + d], rec[R_SHARE + d] = 0, 0 end
  rec[R_COST + REQ], rec[R_COST + SLOT] = 1, 1
  rec[R_WORKER] = ARGV[3]
  F.add_open(id, rec)
  -- Not in the order of the send times.
  S.tid, S.head = '?', 0
end

function F.ring_between(lim, from, to)
  local ring, held = F.ring_of(lim), 0
  for cell = max(lim[LOW], floor(from / lim[CELL])), floor(to / lim[CELL]) do
    held = held + F.cell_of(lim, ring, cell)
  end
  return held
end
