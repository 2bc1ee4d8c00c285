-- For people, and what few calls need.

-- S.use holds the last seconds; the others are in a hash.
function F.flush_usage()
  local fields, n = {}, 0
  for i = 1, #S.use, 8 do n = n + 1; fields[n] = fmt('%d', S.use[i] % 128) end
  if n == 0 then return end
  local held, args, newest = call('HMGET', KEYS[7], unpack(fields)), {}, {}
  for i = 1, n do
    local at = 8 * i - 7
    local cell = newest[fields[i]] or (held[i] and unpack_one(held[i]))
    if not cell or cell[1] < S.use[at] then cell = {S.use[at], 0, 0, 0, 0, 0, 0, 0} end
    if cell[1] == S.use[at] then
      for d = 1, 7 do cell[d + 1] = cell[d + 1] + S.use[at + d] end
    end
    newest[fields[i]] = cell
    args[2 * i - 1], args[2 * i] = fields[i], pack(cell)
  end
  F.touch(7)
  F.send('HSET', KEYS[7], args)
  S.use = {}
end

function F.snapshot()
  local answer = {S.pen, S.expired, S.waited, S.wfor, S.closed, S.capacity[VALUE], open}
  local share = S.rate[VALUE]
  for i = 1, #S.lim do share = min(share, F.share_of(S.lim[i])) end
  answer[8] = share
  F.flush_usage()
  local sums, limits = {0, 0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0, 0}
  local second = floor(now / 1000000)
  for _, value in ipairs(call('HVALS', KEYS[7])) do
    local cell = unpack_one(value)
    if cell[1] <= second and cell[1] > second - 60 then
      for d = 1, 7 do sums[d] = sums[d] + cell[d + 1] end
    end
  end
  for i = 1, #S.lim do limits[S.lim[i][DIM] + 1] = S.lim[i][LIMIT] end
  limits[SLOT] = S.gauge
  for d = 1, 7 do answer[8 + d], answer[15 + d], answer[22 + d] = sums[d], limits[d], S.outside[d] end
  for i = 1, #answer do answer[i] = fmt('%d', answer[i]) end
  return table.concat(answer, ' ') .. ' ' .. S.ctext
end

-- True for an operation that was done by an earlier sending of this very call.
function F.is_repeated()
  if ARGV[4] == '' then return false end
  local last = tonumber(call('HGET', KEYS[8], ARGV[3]) or -1)
  if last >= F.number(4) then return true end
  F.touch(8)
  call('HSET', KEYS[8], ARGV[3], ARGV[4])
  return false
end

function F.forget_models()
  for job in pairs(S.models) do
    if not F.flow_of(S.jobs, job) then S.models[job] = nil end
  end
end
