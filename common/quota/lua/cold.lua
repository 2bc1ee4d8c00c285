-- How a pool begins: described for the first time, forgotten, or on another server.

function F.blank(text)
  local numbers, n = {}, 0
  for word in string.gmatch(text, '%S+') do n = n + 1; numbers[n] = tonumber(word) end
  local state = {cfg = text, gauge = numbers[1], timeout = numbers[2], learn = numbers[3], auto = numbers[4], lim = {}}
  local longest = state.timeout
  local at = 5
  for i = 1, numbers[5] do
    local lim = {}
    for k = 1, CONFIGURED do lim[k] = numbers[at + k] end
    for k = CONFIGURED + 1, OUTSIDE_UNTIL do lim[k] = 0 end
    lim[R_VALUE], lim[R_CUT], lim[C_VALUE], lim[C_CEIL] = FULL, -1, FULL, FULL
    at = at + CONFIGURED
    state.lim[i] = lim
    longest = max(longest, 2 * lim[WIDTH])
  end
  -- Longer than anything in the state can matter.
  state.ttl = floor(longest / 1000) + 3600000
  return state
end

function F.fresh(text)
  local state = F.blank(text)
  state.now, state.inc, state.boot, state.refreshed = now, now, '', 0
  state.gate, state.gdim, state.epoch, state.seq = 0, 0, 0, 0
  state.closed, state.ctext, state.probe, state.probeid = 0, '', 0, ''
  state.cid, state.cdim, state.csince, state.cseen = '', 0, 0, 0
  state.base, state.slotref, state.waited, state.wfor = 0, NEVER, 0, 0
  state.pen, state.expired = 0, 0
  state.rate, state.capacity = {FULL, FULL, 0, -1}, {FULL, FULL, 0, -1}
  state.rpress, state.cpress = {0, 0, 0}, {0, 0, 0}
  state.head, state.tid, state.tat, state.tvoid = 0, '', 0, 0
  state.seen, state.outside = {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0}
  state.jobs, state.models, state.use, state.open = {0}, {}, {}, 0
  state.learning, state.has = 0, 0
  state.found = state.auto == 1 and KNEE_START or 0
  return state
end

-- Rings: S keeps the first cell, the hash the sum and the cells.
function F.fill_ring(lim, size)
  local first = floor(now / lim[CELL]) - lim[SPAN] + 1
  local ring = {sum = size, cells = {}, touched = {}, dropped = {}, reset = true, dirty = true}
  local n = lim[SPAN] - 1
  local before = 0
  for i = 0, n - 1 do
    local upto = floor((i + 1) * size / n)
    if upto > before then ring.cells[first + i], ring.touched[first + i] = upto - before, true end
    before = upto
  end
  ring.all = true
  lim[LOW] = first
  C.rings[lim[DIM]] = ring
end

-- As after a while at the full rate.
function F.fill(lim)
  if lim[PACED] == 1 then lim[TAT], lim[TICKS] = now + lim[BURST], 0 end
  lim[R_VALUE] = lim[GROWTH] > 0 and lim[START] or FULL
  lim[R_GROWN], lim[R_USED] = now, now
  if lim[SIZE] > 0 then F.fill_ring(lim, lim[DAY] == 1 and 0 or lim[SIZE]) end
end

function F.server_boot()
  local ok, text = pcall(call, 'INFO', 'server')
  return ok and type(text) == 'string' and string.match(text, 'run_id:(%w+)') or ''
end

-- A server that was restarted or took over may have lost the last writes: no credit is left.
function F.start_anew(boot)
  for i = 1, #S.lim do
    local lim = S.lim[i]
    if lim[PACED] == 1 and lim[TAT] < now + lim[BURST] then lim[TAT], lim[TICKS] = now + lim[BURST], 0 end
    if lim[SIZE] > 0 and lim[DAY] == 0 then F.fill_ring(lim, lim[SIZE]) end
  end
  S.inc, S.boot = max(now, S.inc + 1), boot
  if S.gauge > 0 or S.auto > 0 then S.learning = now + S.learn end
end
