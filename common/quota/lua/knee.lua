-- How many calls in flight pay, found by trying. The rules are not here but in common/quota/knee.cc:
-- workers add up here what they saw, and one of them at a time takes the sum, makes a step with it,
-- and brings back the new state.
--
-- KEYS[16], a hash: state (of the finder), why (for people), at (the last step that was given out),
-- token and until (to whom, and how long it may take), s<i> (sums of the numbers of samples).

-- `pairs` is {number, value, ...}. The answer: 'limit why', or, to who is to make the step,
-- '! limit now workers n {number value}*n state'.
function F.knee_sample(pairs, repeated)
  if S.auto == 0 then return '0 ' end
  F.touch(16)
  if not repeated then
    for i = 1, #pairs, 2 do call('HINCRBY', KEYS[16], fmt('s%d', pairs[i]), fmt('%d', pairs[i + 1])) end
  end
  local held = call('HMGET', KEYS[16], 'at', 'until', 'why', 'state')
  local at, till = tonumber(held[1] or 0), tonumber(held[2] or 0)
  if repeated or now - at < KNEE_STEP or now < till then
    return fmt('%d ', S.found) .. (held[3] or '')
  end
  call('HSET', KEYS[16], 'at', fmt('%d', now), 'until', fmt('%d', now + KNEE_LEASE), 'token',
       ARGV[3] .. ' ' .. ARGV[4])
  local all, sums = call('HGETALL', KEYS[16]), {}
  for i = 1, #all, 2 do
    local number = string.match(all[i], '^s(%d+)$')
    if number and all[i + 1] ~= '0' then sums[#sums + 1] = number .. ' ' .. all[i + 1] end
  end
  local workers = max(1, call('ZCARD', KEYS[6]))
  sums[#sums + 1] = held[4] or ''
  return fmt('! %d %d %d %d ', S.found, now, workers, #sums - 1) .. table.concat(sums, ' ')
end

-- The step of a sum is made: `pairs` are taken off it. Nothing if somebody else has the token now.
function F.knee_step(token, limit, why, state, pairs)
  if S.auto == 0 or call('HGET', KEYS[16], 'token') ~= token then return end
  for i = 1, #pairs, 2 do call('HINCRBY', KEYS[16], fmt('s%d', pairs[i]), fmt('%d', -pairs[i + 1])) end
  call('HSET', KEYS[16], 'token', '', 'until', '0', 'why', why, 'state', state)
  S.found = max(1, limit)
end
