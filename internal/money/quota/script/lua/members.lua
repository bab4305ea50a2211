-- KEYS: sorted set of nodes by their last heartbeat, hash that describes the server's data: born, and the state of
--   a recovery from a loss of data.
-- ARGV: node, TTL in ms, number of nodes that the caller waits for: 0 without a recovery, -1 to leave, -2 to
--   declare the data lost; the time at which the data that the caller knows were born, 0: it knows none.
-- Data are born when the first node finds the server empty. A caller that knows other data is not added: it has to
--   register its leases first, and nodes that wait do not wait for it any more once it is in the set.
-- Returns the number of nodes, when the data were born, 1 if the caller has to wait, and the time in microseconds.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl, want, known = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if want == -1 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {0, known, 0, 0}
end
local born = tonumber(redis.call('HGET', KEYS[2], 'born') or 0)
if want == -2 and born == known then
  redis.call('DEL', KEYS[1], KEYS[2])
  born = 0
end
if born == 0 then
  born = math.max(known + 1, time[1] * 1000000 + time[2])
  redis.call('HSET', KEYS[2], 'born', string.format('%.0f', born))
end
redis.call('PEXPIRE', KEYS[2], 24 * 60 * 60000)
if known ~= 0 and known ~= born then return {0, born, 1, 0} end
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ttl)
redis.call('PEXPIRE', KEYS[1], ttl)
local nodes, wait = redis.call('ZCARD', KEYS[1]), 0
if want > 0 then
  local h = redis.call('HMGET', KEYS[2], 'want', 'since', 'over')
  want = math.max(want, tonumber(h[1] or 0))
  local since = tonumber(h[2] or now)
  if not h[3] and nodes < want and now - since < ttl then
    redis.call('HSET', KEYS[2], 'want', want, 'since', since)
    wait = 1
  else -- no other node starts to wait after this
    redis.call('HSET', KEYS[2], 'over', 1)
  end
end
return {nodes, born, wait, time[1] * 1000000 + time[2]}
