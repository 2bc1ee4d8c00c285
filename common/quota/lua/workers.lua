-- Who is there. A worker that has missed three beats is dead: what it had booked and not sent is
-- taken back; what it had sent stays charged, and keeps its slot until the reservation times out.

function F.bury(dead)
  F.each_booked(function(id, rec)
    if rec[R_WORKER] ~= dead then return end
    if rec[R_VOID] == 0 then F.charge(rec, F.reserved_of(rec), {0, 0, 0, 0, 1, 0, 0}) end
    F.close(id)
  end)
end

function F.beat()
  C.was_known = call('ZSCORE', KEYS[6], ARGV[3]) and 1 or 0
  if C.was_known == 0 then C.expiring[6] = true end
  call('ZADD', KEYS[6], fmt('%d', now), ARGV[3])
  local silent = call('ZRANGEBYSCORE', KEYS[6], '-inf', fmt('%d', now - 3 * BEAT), 'LIMIT', 0, 4)
  for _, dead in ipairs(silent) do
    F.bury(dead)
    call('ZREM', KEYS[6], dead)
  end
  C.worker_count = call('ZCARD', KEYS[6])
  -- Should a reservation have been lost, by eviction say, its slot comes back here.
  F.flush_reservations()
  open = call('ZCARD', KEYS[4])
end
