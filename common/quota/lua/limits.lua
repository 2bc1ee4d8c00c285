-- Buckets, rings and shares: bucket.cc, ring.cc, shares.h, limit.cc.

function F.price(lim, share)
  if share == FULL then return lim[PRICE] end
  return -floor(-lim[PRICE] * FULL / share)
end

function F.bounded(lim, cost)
  if cost <= 0 then return 0 end
  return min(cost, lim[LIMIT] * OVERRUN)
end

function F.ticks(lim, cost, share) return F.bounded(lim, cost) * F.price(lim, share) end

function F.tat_of(lim) return max(lim[TAT], S.gate + lim[BURST]) end

function F.move_tat(lim, t)
  local n = lim[TICKS] + t
  local m = floor(n / lim[SCALE])
  lim[TAT] = lim[TAT] + m
  lim[TICKS] = n - m * lim[SCALE]
end

-- For those who go from cell to cell: reads several at once.
function F.cell_of(lim, ring, cell)
  local held = ring.cells[cell]
  if held then return held end
  if ring.all then return 0 end
  local fields = {}
  for i = 0, 15 do fields[i + 1] = fmt('%d', cell + i) end
  local values = call('HMGET', KEYS[9 + lim[DIM]], unpack(fields))
  for i = 0, 15 do
    if not ring.cells[cell + i] then ring.cells[cell + i] = tonumber(values[i + 1] or 0) end
  end
  return ring.cells[cell]
end

function F.ring_of(lim)
  local ring = C.rings[lim[DIM]]
  if ring then return ring end
  local low, current = lim[LOW], floor(now / lim[CELL])
  local values = call('HMGET', KEYS[9 + lim[DIM]], 's', fmt('%d', current))
  if not values[1] then
    -- It was lost on its own.
    F.fill_ring(lim, lim[DAY] == 1 and 0 or lim[SIZE])
    return C.rings[lim[DIM]]
  end
  ring = {sum = tonumber(values[1]), cells = {[current] = tonumber(values[2] or 0)}, touched = {},
          dropped = {}}
  C.rings[lim[DIM]] = ring
  local first = current - lim[SPAN] + 1
  if low >= first then return ring end
  ring.dirty = true
  local last = low + lim[SPAN] + floor(60000000 / lim[CELL]) + 1
  if first > last then
    ring.sum, ring.reset, ring.all, ring.cells = 0, true, true, {}
  else
    for cell = low, first - 1 do
      local held = F.cell_of(lim, ring, cell)
      if held ~= 0 then
        ring.sum = ring.sum - held
        ring.dropped[#ring.dropped + 1] = fmt('%d', cell)
      end
    end
  end
  lim[LOW] = first
  return ring
end

function F.ring_add(lim, at, units)
  local ring, cell = F.ring_of(lim), floor(at / lim[CELL])
  if cell < lim[LOW] or units == 0 then return end
  local held = ring.cells[cell]
  if not held then
    held = ring.all and 0 or tonumber(call('HGET', KEYS[9 + lim[DIM]], fmt('%d', cell)) or 0)
  end
  ring.cells[cell] = held + units
  ring.sum = ring.sum + units
  ring.touched[cell], ring.dirty = true, true
end

function F.ring_holds(lim, at)
  F.ring_of(lim)
  return floor(at / lim[CELL]) >= lim[LOW]
end

function F.ring_used(lim, at)
  local ring = F.ring_of(lim)
  local held = ring.sum
  for cell = lim[LOW], floor(at / lim[CELL]) - lim[SPAN] do
    held = held - F.cell_of(lim, ring, cell)
  end
  return held
end

function F.room_of(lim, at)
  local cap, size = lim[C_VALUE], lim[SIZE]
  local room = size
  if cap ~= FULL then room = floor(size / FULL) * cap + floor(size % FULL * cap / FULL) end
  if at < lim[OUTSIDE_UNTIL] then room = room - floor(room / 16) end
  return max(1, room)
end

function F.fit_at(lim, at, cost)
  local ring, room = F.ring_of(lim), F.room_of(lim, at)
  local most = cost > room and 0 or room - cost
  local first = floor(at / lim[CELL]) - lim[SPAN] + 1
  local held, cell = ring.sum, lim[LOW]
  -- Nothing is booked behind this, so a sum that were wrong would not hang the server.
  local last = max(first, lim[LOW] + lim[SPAN] + floor(60000000 / lim[CELL]) + 2)
  while not (cell >= first and held <= most) and cell < last do
    held = held - F.cell_of(lim, ring, cell)
    cell = cell + 1
  end
  return max(at, (cell - 1 + lim[SPAN]) * lim[CELL])
end

-- Shares.
function F.grow(share, per_minute)
  if share[VALUE] >= share[CEIL] then return end
  local grown = floor(max(0, now - share[GROWN]) * per_minute / 60000000)
  if grown == 0 then return end
  share[VALUE] = min(share[CEIL], share[VALUE] + grown)
  share[GROWN] = share[GROWN] + floor(grown * 60000000 / per_minute)
end

function F.grow_cap(lim)
  if lim[C_VALUE] >= lim[C_CEIL] then return end
  local share = {lim[C_VALUE], lim[C_CEIL], lim[C_GROWN]}
  F.grow(share, 7)
  lim[C_VALUE], lim[C_GROWN] = share[VALUE], share[GROWN]
end

function F.grow_ramp(lim)
  if lim[GROWTH] == 0 then return end
  if lim[TAT] <= now then
    if now - lim[R_USED] >= 900000000 then lim[R_VALUE] = lim[START] end
    lim[R_GROWN] = max(lim[R_GROWN], now)
    return
  end
  lim[R_USED] = now
  while lim[R_VALUE] < FULL do
    local step = floor(600000000000 / (lim[R_VALUE] * lim[GROWTH]))
    if now - lim[R_GROWN] < step then return end
    lim[R_GROWN] = lim[R_GROWN] + step
    lim[R_VALUE] = lim[R_VALUE] + 1
  end
  lim[R_GROWN] = now
end

function F.share_of(lim)
  return min(S.rate[VALUE], lim[C_VALUE], lim[R_VALUE])
end

-- Before every operation: time has passed.
function F.advance()
  for i = 1, #S.lim do
    local lim = S.lim[i]
    F.grow_cap(lim)
    F.grow_ramp(lim)
  end
  F.grow(S.rate, 7)
  F.grow(S.capacity, 25)
end

function F.correct(lim, at, before, after, share)
  if before == after then return end
  if lim[SIZE] > 0 then
    if not F.ring_holds(lim, at) then return end
    F.ring_add(lim, at, F.bounded(lim, after) - F.bounded(lim, before))
  end
  if lim[PACED] == 1 then F.move_tat(lim, F.ticks(lim, after, share) - F.ticks(lim, before, share)) end
end

-- How much of the pool's time `costs` take, at the prices `shares` (which start behind `offset`).
function F.pool_us(costs, shares, offset)
  local most, paced = 0, false
  for i = 1, #S.lim do
    local lim = S.lim[i]
    local d = lim[DIM] + 1
    local share = shares[offset + d]
    if lim[PACED] == 1 and share ~= 0 then
      paced = true
      most = max(most, floor(F.ticks(lim, costs[d], share) / lim[SCALE]))
    end
  end
  if paced then return most end
  return costs[REQ] > 0 and 50000 or 0
end
