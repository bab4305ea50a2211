-- What all scripts share: an account is read, brought up to the server's time, and
-- written back. The time is the server's alone: the nodes' clocks do not matter.
--
-- An account's hash:
--   g  when it was seeded, in microseconds; absent where nobody knows its spending
--   f  1 where the seed is a node's last knowledge, 0 where it is the ledger's
--   b  what the seed has added to T        bi  the bucket that corrections of it go to
--   W  the budget's window in ms           i   the newest bucket
--   T  spent in the window                 B<W>:<i>  of that, by bucket
--   o  open requests                       r   cost reserved for them
--   e  when the first lease may have run out
--   w  the minute that is counted, c p requests of it and of the one before, k q tokens
-- A hash beside it has for each node what it holds: "born open reserved expires".

local time = redis.call('TIME')
local stamp = time[1] * 1000000 + time[2]
local now = math.floor(stamp / 1000)
local minute = 60000
local buckets = 60
local fields = {'g', 'f', 'b', 'bi', 'W', 'i', 'T', 'o', 'r', 'e', 'w', 'c', 'p', 'k', 'q'}

-- Lua would write large numbers with an exponent.
local function int(x) return string.format('%.0f', x) end

local function bucket(a, i) return 'B' .. int(a.W) .. ':' .. int(i) end

-- roll brings the two counters of a minute to the present one. A clock that is set
-- back a little, as by a failover, stays where it was.
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

-- sweep drops what nodes held that no longer renew it.
local function sweep(a)
  if a.e == 0 or now < a.e then return end
  local all = redis.call('HGETALL', a.nodes)
  a.e = 0
  for n = 1, #all, 2 do
    local open, held, ends = string.match(all[n + 1], '^%d+ (%-?%d+) (%-?%d+) (%d+)$')
    ends = tonumber(ends)
    if ends <= now then
      redis.call('HDEL', a.nodes, all[n])
      a.o, a.r = a.o - open, a.r - held
      a.dirty = true
    elseif a.e == 0 or ends < a.e then
      a.e = ends
    end
  end
end

-- forget takes out of T what has left the window.
local function forget(a, window)
  if a.W ~= window then -- the operator has changed it: the ledger is asked again
    a.known, a.W, a.T, a.b, a.i = false, window, 0, 0, 0
  end
  if window == 0 then return end
  local i = math.floor(now * buckets / window)
  if a.i == 0 then a.i = i end
  if i <= a.i then return end
  local names = {}
  for n = a.i - buckets + 1, math.min(i - buckets, a.i) do names[#names + 1] = bucket(a, n) end
  a.i = i
  if #names == 0 then return end
  for _, v in ipairs(redis.call('HMGET', a.key, unpack(names))) do
    if v then a.T = a.T - v end
  end
  redis.call('HDEL', a.key, unpack(names))
  a.dirty = true
end

-- save writes an account back. It is kept for as long as it says something that the
-- ledger does not, and a day longer where a budget is for all time.
local function save(a)
  local all = {}
  for _, name in ipairs(fields) do
    if name ~= 'g' or a.known then
      all[#all + 1] = name
      all[#all + 1] = int(a[name])
    end
  end
  redis.call('HSET', a.key, unpack(all))
  if not a.known and a.g ~= 0 then redis.call('HDEL', a.key, 'g') end
  local keep = 3 * minute
  if a.budget > 0 then keep = a.W == 0 and 24 * 60 * minute or math.max(keep, a.W * 61 / 60) end
  redis.call('PEXPIRE', a.key, int(keep))
  redis.call('PEXPIRE', a.nodes, int(keep))
end

local function load(key, nodes, budget, window)
  local v = redis.call('HMGET', key, unpack(fields))
  local a = {key = key, nodes = nodes, budget = tonumber(budget), known = v[1] ~= false}
  for n, name in ipairs(fields) do a[name] = tonumber(v[n]) or 0 end
  roll(a)
  sweep(a)
  forget(a, tonumber(window))
  if a.dirty then save(a) end -- also where the request is refused
  return a
end

-- spend adds to what was spent, in a bucket or in the newest.
local function spend(a, cost, at)
  if cost == 0 then return end
  if a.W > 0 then
    at = at or a.i
    if at <= a.i - buckets then return end
    redis.call('HINCRBY', a.key, bucket(a, at), int(cost))
  end
  a.T = a.T + cost
end

-- lease is what a node holds of an account.
local function lease(a, node)
  local born, open, held = string.match(redis.call('HGET', a.nodes, node) or '', '^(%d+) (%-?%d+) (%-?%d+)')
  if not born then return nil end
  return {born = tonumber(born), open = tonumber(open), held = tonumber(held)}
end

local function keep(a, node, l, ttl)
  redis.call('HSET', a.nodes, node, int(l.born) .. ' ' .. int(l.open) .. ' ' .. int(l.held) .. ' ' .. int(now + ttl))
  if a.e == 0 then a.e = now + ttl end
end

local function used(a) return a.p * (1 - a.part) + a.c, a.q * (1 - a.part) + a.k end
