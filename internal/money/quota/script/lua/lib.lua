-- Shared by all scripts: read an account, move it to the server's current time, write it back.
-- Only the server's clock counts; the nodes' clocks do not matter.
--
-- An account is one value of packed numbers: reading and writing a hash field by field costs
-- several times as much.
--   g  generation: when it was seeded, in microseconds; 0: not seeded; negative: no node has checked the server's data since
--   E  the server that has written it. The scripts are loaded with the id of their server as epoch.
--      A record of another one comes from a snapshot or a replica and may be old: it is seeded again.
--   W  the budget's window in ms           i   the newest bucket
--   T  spent in the window; the hash KEY:b has it by bucket
--   o  open requests                       r   cost reserved for them
--   e  when the first lease may expire
--   w  the current minute; c, p requests of this and the previous minute; k, q tokens
-- The hash KEY:n has the lease of each node: id, open, reserved, expiry.
-- The hash KEY:l has for each log what the account has spent in it, and when that was set. T includes
-- it.

local time = redis.call('TIME')
local stamp = time[1] * 1000000 + time[2]
local now = math.floor(stamp / 1000)
local minute = 60000
local buckets = 60
local shape = '<ddddddddddddd'

-- int formats a number without an exponent.
local function int(x) return string.format('%.0f', x) end

local function bucket(a, i) return int(a.W) .. ':' .. int(i) end

-- roll moves the minute's counters to the current minute. If the clock was set back a little,
-- as by a failover, they stay.
local function roll(a)
  local w = math.floor(now / minute)
  a.part = (now % minute) / minute
  if w < a.w and a.w - w <= 2 then
    w, a.part = a.w, 0
  end
  if w == a.w + 1 then
    a.p, a.q, a.c, a.k = a.c, a.k, 0, 0
  elseif w ~= a.w then
    a.p, a.q, a.c, a.k = 0, 0, 0, 0
  end
  a.w = w
end

-- sweep deletes expired leases and sums the others, also if only the account's record is missing.
local function sweep(a)
  if a.e == 0 or now < a.e then return end
  local all = redis.call('HGETALL', a.nodes)
  a.e, a.o, a.r = 0, 0, 0
  for n = 1, #all, 2 do
    local _, open, held, ends = struct.unpack('<dddd', all[n + 1])
    if ends <= now then
      redis.call('HDEL', a.nodes, all[n])
      if open > 0 or held > 0 then a.g = 0 end -- the node is dead, and the ledger may know more than it has settled
    else
      a.o, a.r = a.o + open, a.r + held
      if a.e == 0 or ends < a.e then a.e = ends end
    end
  end
  a.dirty = true
end

-- forget subtracts from T the buckets that have left the window.
local function forget(a, window)
  if a.W ~= window then -- the operator has changed the window: seed again
    a.g, a.W, a.T, a.i = 0, window, 0, 0
  end
  if window == 0 then return end
  local i = math.floor(now * buckets / window)
  if a.i == 0 then a.i = i end
  if i <= a.i then return end
  local names = {}
  for n = a.i - buckets + 1, math.min(i - buckets, a.i) do names[#names + 1] = bucket(a, n) end
  a.i = i
  if #names == 0 then return end
  for _, v in ipairs(redis.call('HMGET', a.spent, unpack(names))) do
    if v then a.T = a.T - v end
  end
  redis.call('HDEL', a.spent, unpack(names))
  a.dirty = true
end

-- save writes an account back. Its TTL covers everything that the ledger cannot restore; it is a
-- day for a budget for all time.
local function save(a)
  local keep = 3 * minute
  if a.budget > 0 or a.g ~= 0 then keep = a.W == 0 and 24 * 60 * minute or math.max(keep, a.W * 61 / 60) end
  local text = struct.pack(shape, a.g, a.E, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q)
  redis.call('SET', a.key, text, 'PX', int(keep))
end

-- load reads an account. Without a window it keeps the one that it has.
local function load(key, budget, window)
  local a = {key = key, nodes = key .. ':n', spent = key .. ':b', logs = key .. ':l', budget = tonumber(budget)}
  local text = redis.call('GET', key)
  if text then
    a.g, a.E, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q = struct.unpack(shape, text)
  else
    a.g, a.E, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q = 0, epoch, tonumber(window or 0), 0, 0, 0, 0, 1, 0, 0, 0, 0, 0
  end
  if a.E ~= epoch then
    redis.call('DEL', a.nodes) -- the nodes register their leases again
    a.g, a.E, a.o, a.r, a.e, a.dirty = 0, epoch, 0, 0, 0, true
  end
  roll(a)
  sweep(a)
  forget(a, tonumber(window or a.W))
  a.missing = not text
  if a.dirty and text then save(a) end -- also if the request is refused
  return a
end

-- spend adds a cost to the given bucket or to the newest.
local function spend(a, cost, at)
  if cost == 0 then return end
  if a.W > 0 then
    at = at or a.i
    if at <= a.i - buckets then return end
    local sum = redis.call('HINCRBY', a.spent, bucket(a, at), int(cost))
    if sum == cost then redis.call('PEXPIRE', a.spent, int(math.max(3 * minute, a.W * 61 / 60))) end -- a new bucket
  end
  a.T = a.T + cost
end

-- logs_ms is how long the total of a log stays after it was set.
local logs_ms = 25 * 60 * minute

-- total sets what an account has spent in a log. A total only grows, so it may be set twice and in
-- any order.
local function total(a, log, sum)
  if sum == 0 then return end
  local text = redis.call('HGET', a.logs, log)
  local have = text and struct.unpack('<dd', text) or 0
  if sum <= have then return end
  redis.call('HSET', a.logs, log, struct.pack('<dd', sum, now))
  redis.call('PEXPIRE', a.logs, int(2 * logs_ms))
  spend(a, sum - have) -- an account that is not seeded is summed up anew by its seed
end

-- lease reads a node's lease on an account; nil: none.
local function lease(a, node)
  local text = redis.call('HGET', a.nodes, node)
  if not text then return nil end
  local l = {}
  l.id, l.open, l.held, l.ends = struct.unpack('<dddd', text)
  return l
end

-- keep writes a lease.
local function keep(a, node, l)
  redis.call('HSET', a.nodes, node, struct.pack('<dddd', l.id, l.open, l.held, l.ends))
end

-- extend renews a lease. The hash outlives its leases.
local function extend(a, l, ttl)
  l.ends = now + ttl
  if a.e == 0 or l.ends < a.e then a.e = l.ends end
  redis.call('PEXPIRE', a.nodes, int(4 * ttl))
end

local function used(a) return a.p * (1 - a.part) + a.c, a.q * (1 - a.part) + a.k end
