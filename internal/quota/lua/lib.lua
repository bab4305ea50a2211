-- What all scripts share: an account is read, brought up to the server's time, and
-- written back. The time is the server's alone: the nodes' clocks do not matter.
--
-- An account is one value, numbers packed one after the other, since to read and write
-- a hash field by field costs several times as much:
--   g  when it was seeded, in microseconds; 0 where nobody knows its spending
--   f  1 where the seed is a node's last knowledge, 0 where it is the ledger's
--   b  what the seed has added to T        bi  the bucket that corrections of it go to
--   W  the budget's window in ms           i   the newest bucket
--   T  spent in the window; a hash beside it, :b, has that by bucket
--   o  open requests                       r   cost reserved for them
--   e  when the first lease may have run out
--   w  the minute that is counted, c p requests of it and of the one before, k q tokens
-- A hash beside it, :n, has for each node what it holds: born, open, reserved, ends.

local time = redis.call('TIME')
local stamp = time[1] * 1000000 + time[2]
local now = math.floor(stamp / 1000)
local minute = 60000
local buckets = 60
local shape = '<ddddddddddddddd'

-- Lua would write large numbers with an exponent.
local function int(x) return string.format('%.0f', x) end

local function bucket(a, i) return int(a.W) .. ':' .. int(i) end

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

-- sweep drops what nodes held that no longer renew it, and adds up the rest.
local function sweep(a)
  if a.e == 0 or now < a.e then return end
  local all = redis.call('HGETALL', a.nodes)
  a.e, a.o, a.r = 0, 0, 0
  for n = 1, #all, 2 do
    local _, open, held, ends = struct.unpack('<dddd', all[n + 1])
    if ends <= now then
      redis.call('HDEL', a.nodes, all[n])
    else
      a.o, a.r = a.o + open, a.r + held
      if a.e == 0 or ends < a.e then a.e = ends end
    end
  end
  a.dirty = true
end

-- forget takes out of T what has left the window.
local function forget(a, window)
  if a.W ~= window then -- the operator has changed it: the ledger is asked again
    a.g, a.W, a.T, a.b, a.i = 0, window, 0, 0, 0
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

-- save writes an account back. It is kept for as long as it says something that the
-- ledger does not, and for a day where a budget is for all time.
local function save(a)
  local keep = 3 * minute
  if a.budget > 0 then keep = a.W == 0 and 24 * 60 * minute or math.max(keep, a.W * 61 / 60) end
  local text = struct.pack(shape, a.g, a.f, a.b, a.bi, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q)
  redis.call('SET', a.key, text, 'PX', int(keep))
end

local function load(key, budget, window)
  local a = {key = key, nodes = key .. ':n', spent = key .. ':b', budget = tonumber(budget)}
  local text = redis.call('GET', key)
  if text then
    a.g, a.f, a.b, a.bi, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q = struct.unpack(shape, text)
  else
    a.g, a.f, a.b, a.bi, a.W, a.i, a.T, a.o, a.r, a.e, a.w, a.c, a.p, a.k, a.q = 0, 0, 0, 0, tonumber(window), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
  end
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
    local sum = redis.call('HINCRBY', a.spent, bucket(a, at), int(cost))
    if sum == cost then redis.call('PEXPIRE', a.spent, int(math.max(3 * minute, a.W * 61 / 60))) end -- the bucket is new
  end
  a.T = a.T + cost
end

-- lease is what a node holds of an account.
local function lease(a, node)
  local text = redis.call('HGET', a.nodes, node)
  if not text then return nil end
  local l = {}
  l.born, l.open, l.held, l.ends = struct.unpack('<dddd', text)
  return l
end

-- keep writes a lease back.
local function keep(a, node, l)
  redis.call('HSET', a.nodes, node, struct.pack('<dddd', l.born, l.open, l.held, l.ends))
end

-- extend lets a lease last. The hash is kept for longer than any in it.
local function extend(a, l, ttl)
  l.ends = now + ttl
  if a.e == 0 or l.ends < a.e then a.e = l.ends end
  redis.call('PEXPIRE', a.nodes, int(4 * ttl))
end

local function used(a) return a.p * (1 - a.part) + a.c, a.q * (1 - a.part) + a.k end
