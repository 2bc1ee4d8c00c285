-- One call: the operations in their order, then one write.
--
--   R id job model job_weight weight c1..c7   reserve; weights in thousandths, costs normalised
--   S id outcome [c1..c7]                     settle; costs only of what was charged
--   P kind dimension retry sent text          penalty
--   O dimension limit used reset expected sent
--   C text                                    the pool's configuration
--   A id job model at                         adopt
--   D debt1..debt7 n {age c1..c7}*n           what was sent on its own while the server was away
--   B                                         beat
--   X                                         the worker leaves
--   Q                                         snapshot
--   K n {number value}*n                      a sample of calls in flight, see knee.lua
--   L token limit why state n {number value}*n  the step that was made with the samples
--
-- Answers, each a text of numbers: now, incarnation, epoch, gate, slots (-1: no end), open, 1 if packed, 1 if closed,
-- 1 if the worker was known (B), workers (B), then one answer for each R, Q and K. A pool that nobody
-- has described: the word NOCONFIG, and nothing is done.

function F.number(i)
  local value = tonumber(ARGV[i])
  if not value or value % 1 ~= 0 then error('argument ' .. i .. ' is no integer') end
  return value
end

function F.numbers(i, count)
  local values = {}
  for k = 1, count do values[k] = F.number(i + k - 1) end
  return values
end

function F.costs(i)
  local n = F.number
  return {n(i), n(i + 1), n(i + 2), n(i + 3), n(i + 4), n(i + 5), n(i + 6)}
end

-- All operations are read before the first one is done.
function F.parse()
  local ops, ids, i, count = {}, {}, 7, #ARGV
  local number = F.number
  while i <= count do
    local letter = ARGV[i]
    local op
    if letter == 'R' then
      op = {letter, ARGV[i + 1], ARGV[i + 2], number(i + 3), number(i + 4), number(i + 5),
            F.costs(i + 6)}
      ids[#ids + 1] = op[2]
      i = i + 13
    elseif letter == 'S' then
      op = {letter, ARGV[i + 1], number(i + 2)}
      ids[#ids + 1] = op[2]
      i = i + 3
      if op[3] == CHARGED then op[4] = F.costs(i); i = i + 7 end
    elseif letter == 'P' then
      op = {letter, number(i + 1), number(i + 2), number(i + 3), number(i + 4), ARGV[i + 5] or ''}
      i = i + 6
    elseif letter == 'O' then
      op = {letter, F.numbers(i + 1, 6)}
      i = i + 7
    elseif letter == 'C' then
      op = {letter, ARGV[i + 1]}
      i = i + 2
    elseif letter == 'A' then
      op = {letter, ARGV[i + 1], ARGV[i + 2], number(i + 3), number(i + 4)}
      ids[#ids + 1] = op[2]
      i = i + 5
    elseif letter == 'D' then
      local cells = {}
      for k = 1, number(i + 8) do cells[k] = F.numbers(i + 1 + 8 * k, 8) end
      op = {letter, F.costs(i + 1), cells}
      i = i + 9 + 8 * #cells
    elseif letter == 'K' then
      op = {letter, F.numbers(i + 2, 2 * number(i + 1))}
      i = i + 2 + #op[2]
    elseif letter == 'L' then
      op = {letter, ARGV[i + 1], number(i + 2), ARGV[i + 3], ARGV[i + 4],
            F.numbers(i + 6, 2 * number(i + 5))}
      i = i + 6 + #op[6]
    elseif letter == 'B' or letter == 'X' or letter == 'Q' then
      op = {letter}
      i = i + 1
    else
      error('there is no operation ' .. tostring(letter))
    end
    ops[#ops + 1] = op
  end
  return ops, ids
end

-- Returns false for a pool that nobody has described.
function F.load_pool(ops)
  local held = call('GET', KEYS[1])
  C.known = held and true or false
  if held then
    S = unpack_one(held)
    S.auto, S.found = S.auto or 0, S.found or 0
  end
  if ARGV[1] ~= '' then
    C.raw = F.number(1)
  else
    local time = call('TIME')
    C.raw = tonumber(time[1]) * 1000000 + tonumber(time[2])
  end
  now = C.known and max(C.raw, S.now) or C.raw
  if C.known and now - C.raw > STEP_BACK and ARGV[1] == '' then C.known = false; now = C.raw end
  if not C.known then
    local text = call('GET', KEYS[2])
    for i = 1, #ops do if ops[i][1] == 'C' then text = ops[i][2] end end
    if not text then return false end
    local before = S
    S = F.fresh(text)
    if before then S.closed, S.ctext, S.probe, S.epoch = before.closed, before.ctext, now, before.epoch + 1 end
    -- Remains of what expired or was evicted count for nothing.
    call('DEL', KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], unpack(KEYS, 9, 16))
    call('SET', KEYS[2], text)
    open = 0
    for i = 1, #S.lim do F.fill(S.lim[i]) end
    if S.gauge > 0 or S.auto > 0 then S.learning = now + S.learn end
    if ARGV[2] == '1' then S.boot = F.server_boot() end
    return true
  end
  S.now = now
  open = S.open
  if ARGV[2] == '1' then
    local boot = F.server_boot()
    if S.boot == '' then S.boot = boot end
    if boot ~= S.boot and boot ~= '' then
      F.void_booked()
      F.start_anew(boot)
    end
  end
  return true
end

local ops, ids = F.parse()
C.horizon = min(max(F.number(5), 0), 60000000)
if not F.load_pool(ops) then return 'NOCONFIG' end
F.load_recs(ids)
local repeated = false
for i = 1, #ops do
  local letter = ops[i][1]
  if letter == 'P' or letter == 'O' or letter == 'D' or letter == 'C' or letter == 'K' then
    repeated = F.is_repeated()
    break
  end
end
local answers, left = {}, false
for i = 1, #ops do
  local op = ops[i]
  local letter = op[1]
  if letter == 'R' then
    answers[#answers + 1] = F.reserve(op[2], op[3], op[4], op[5], op[6], op[7])
  elseif letter == 'S' then
    F.settle(op[2], op[3], op[4])
  elseif letter == 'A' then
    F.adopt(op[2], op[3], op[4], op[5])
  elseif letter == 'K' then
    F.advance()
    answers[#answers + 1] = F.knee_sample(op[2], repeated)
  elseif letter == 'L' then
    F.knee_step(op[2], op[3], op[4], op[5], op[6])
  elseif letter == 'B' then
    F.beat()
  elseif letter == 'X' then
    left = true
  elseif letter == 'Q' then
    F.advance()
    answers[#answers + 1] = F.snapshot()
  elseif repeated then
    C.announce = true
  elseif letter == 'P' then
    F.penalize(op[2], op[3], op[4], op[5], op[6])
  elseif letter == 'O' then
    F.observe(unpack(op[2]))
  elseif letter == 'C' then
    F.reconfigure(op[2])
  elseif letter == 'D' then
    F.report_local(op[2], op[3])
  end
end
F.flush()
if left then call('ZREM', KEYS[6], ARGV[3]); call('HDEL', KEYS[8], ARGV[3]) end
if C.announce and ARGV[6] ~= '' then pcall(call, 'PUBLISH', ARGV[6], fmt('%d', S.epoch)) end
local free = F.slots()
local packed = 0
for i = 1, #S.lim do if S.lim[i][SIZE] > 0 then packed = 1 end end
local head = fmt('%d %d %d %d %d %d %d %d %d %d', now, S.inc, S.epoch, S.gate,
                 free == math.huge and -1 or free, open, packed, S.closed, C.was_known,
                 C.worker_count)
return {head, unpack(answers)}
