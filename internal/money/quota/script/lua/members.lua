-- KEYS: sorted set of nodes by their last heartbeat, hash of the recovery from a loss of data.
-- ARGV: node, TTL in ms, number of nodes that the caller waits for: 0 without a recovery, -1 to leave.
-- Returns the number of nodes, 1 if the server did not know this one, and 1 if it has to wait.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ttl, want = tonumber(ARGV[2]), tonumber(ARGV[3])
if want < 0 then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return {0, 0, 0}
end
local new = redis.call('ZADD', KEYS[1], now, ARGV[1])
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
redis.call('PEXPIRE', KEYS[2], 10 * ttl)
return {nodes, new, wait}
