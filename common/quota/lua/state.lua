-- The state of one pool, and one call on it. docs/redis_schema.md says what everything means; the
-- arithmetic is that of common/quota/model.cc, to the unit. The files of this folder are joined
-- into one script in the order of CMakeLists.txt.
--
-- KEYS  1 pool  2 cfg  3 rsv  4 exp  5 closed  6 workers  7 use  8 calls
--       9..15 ring of each dimension, in the order of quota.h (that of slots is never used)
--       16 samples of calls in flight
-- ARGV  1 clock in microseconds, for tests only; empty: that of the server
--       2 '1': the caller has a new connection, so this may be another server
--       3 the caller's worker   4 number of the call   5 horizon   6 channel of hints
--       7.. operations: a letter and its arguments, see main.lua
--
-- Numbers are integers below 2^53, so floor(a / b) is exact. Nothing is written before flush(),
-- apart from what a test of the whole call has been passed for.

local floor, max, min = math.floor, math.max, math.min
local call, pack, unpack_one = redis.call, cmsgpack.pack, cmsgpack.unpack
local fmt = string.format

local F = {}           -- the functions of these files
local S                -- the pool, see F.blank()
local now              -- time of this call
local open             -- reservations that are open
-- What this call has looked at and decided. Locals are few: see constants.lua.
local C = {
  raw = 0,             -- time of the server
  known = false,       -- the state was there
  horizon = 0,
  rings = {},          -- by dimension: {sum, cells, touched, dropped, reset}
  recs = {},           -- by id: a reservation, {closed = time}, or false
  changed = {},        -- ids of recs to be written
  opened = {}, ended = {}, closed_ids = {},
  expiring = {},       -- keys to be given a time to live
  announce = false,    -- others should hear of this call
  worker_count = 0, was_known = 1,
}

-- One command with any number of arguments: Lua passes a few thousand at most.
function F.send(command, key, args)
  for i = 1, #args, 1000 do call(command, key, unpack(args, i, min(i + 999, #args))) end
end

-- Before a write to KEYS[i]: a key that is new is given its time to live in the same call.
function F.touch(i)
  local bit = 2 ^ i
  if floor(S.has / bit) % 2 == 1 then return end
  S.has = S.has + bit
  C.expiring[i] = true
end

function F.write_ring(d, ring)
  local key = KEYS[9 + d]
  F.touch(9 + d)
  if ring.reset then C.expiring[9 + d] = true end
  if ring.reset then call('DEL', key) end
  if ring.dropped[1] and not ring.reset then F.send('HDEL', key, ring.dropped) end
  local args, n = {'s', fmt('%d', ring.sum)}, 2
  for cell in pairs(ring.touched) do
    args[n + 1], args[n + 2] = fmt('%d', cell), fmt('%d', ring.cells[cell])
    n = n + 2
  end
  call('HSET', key, unpack(args))
  ring.touched, ring.dropped, ring.reset, ring.dirty = {}, {}, false, false
end

-- Writes what has been decided so far about reservations, for reading them in order.
function F.flush_reservations()
  local args, n = {}, 0
  for id in pairs(C.changed) do
    local rec = C.recs[id]
    args[n + 1] = id
    args[n + 2] = rec.closed and fmt('c%d', rec.closed) or pack(rec)
    n = n + 2
  end
  if n > 0 then F.touch(3); F.send('HSET', KEYS[3], args); C.changed = {} end
  if C.opened[1] then F.send('ZADD', KEYS[4], C.opened); C.opened = {} end
  if C.ended[1] then F.send('ZREM', KEYS[4], C.ended); C.ended = {} end
  if C.closed_ids[1] then
    F.touch(5)
    local count = call('RPUSH', KEYS[5], unpack(C.closed_ids, 1, min(1000, #C.closed_ids)))
    for i = 1001, #C.closed_ids do count = call('RPUSH', KEYS[5], C.closed_ids[i]) end
    C.closed_ids = {}
    -- Some at a time.
    if count > MAX_CLOSED + 128 then
      local oldest = call('LRANGE', KEYS[5], 0, count - MAX_CLOSED - 1)
      call('LTRIM', KEYS[5], count - MAX_CLOSED, -1)
      F.send('HDEL', KEYS[3], oldest)
    end
  end
end

-- The state last, as it knows of the keys.
function F.flush()
  F.flush_reservations()
  for d, ring in pairs(C.rings) do if ring.dirty then F.write_ring(d, ring) end end
  if #S.use > 80 then F.flush_usage() end
  -- Seldom, as so many commands cost more than the rest.
  if now - S.refreshed >= min(60000000, S.ttl * 250) then
    S.refreshed = now
    for i = 3, 16 do C.expiring[i] = true end
  end
  for i in pairs(C.expiring) do call('PEXPIRE', KEYS[i], S.ttl) end
  S.open = open
  call('SET', KEYS[1], pack(S), 'PX', S.ttl)
end
