-- KEYS: the reservation's mark, then for each account its value and its three hashes.
-- ARGV: node, requests, tokens, cost, open, lease TTL in ms, mark TTL in ms, divisor, force, when the
--   node has checked the server's data, in microseconds;
--   then for each account requests, tokens, concurrency, budget, window, and 1 if Redis must have its record.
-- divisor: a slice takes at most that part of what is left; 0 for a request.
-- force: 1 registers requests that are open already, without checking limits.
-- Returns status (1 granted, 0 refused, -1 account not seeded, -2 too much for a slice,
--   -3 undone before it arrived, -4 the record was lost), account, reason, ms to wait (-1 never), time;
--   then for each account lease id, generation, spent, reserved, requests used, tokens used.
local node, lease_ms, mark_ms = ARGV[1], tonumber(ARGV[6]), ARGV[7]
local want = {tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[5]), tonumber(ARGV[4])}
local divisor, force, checked = tonumber(ARGV[8]), ARGV[9] == '1', tonumber(ARGV[10])

-- wait returns after how many ms n more fit under a limit per minute; -1 never.
local function wait(prev, cur, part, n, limit)
  if n > limit then return -1 end
  if cur + n <= limit then return (1 - (limit - cur - n) / prev - part) * minute end
  return (1 - part + 1 - (limit - n) / cur) * minute
end

-- leave returns after how many ms enough spending has left the window of a budget; -1 never.
local function leave(a, cost, limit)
  if cost > limit then return -1 end
  if a.T + cost <= limit then return 1000 end -- only reservations exceed the budget
  if a.W == 0 then return -1 end
  local over = a.T + cost - limit
  for n = a.i - buckets + 1, a.i do
    over = over - (redis.call('HGET', a.spent, bucket(a, n)) or 0)
    if over <= 0 then return (n + buckets) * a.W / buckets - now end
  end
  return a.W
end

local all = {}
local worst, answer = nil, {1, 0, 0, 0, now}
for n = 1, (#KEYS - 1) / 4 do
  local at = 4 + 6 * n
  local l = {tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])}
  local a = load(KEYS[4 * n - 2], l[4], ARGV[at + 5])
  if a.missing and ARGV[at + 6] == '1' and not force then return {-4} end
  if a.g < 0 and -a.g <= checked then a.g = -a.g end
  if l[4] > 0 and a.g <= 0 and not force then return {-1, n - 1, 0, 0, now} end
  all[n] = a
  local requests, tokens = used(a)
  local have = {requests, tokens, a.o, a.T + a.r}
  for reason = 1, 4 do
    local left = l[reason] - have[reason]
    if l[reason] > 0 and want[reason] > 0 and not force then
      if divisor > 0 and want[reason] * divisor > left then return {-2} end
      if want[reason] > left then
        local ms = 1000
        if reason == 1 then ms = wait(a.p, a.c, a.part, want[1], l[1])
        elseif reason == 2 then ms = wait(a.q, a.k, a.part, want[2], l[2])
        elseif reason == 4 then ms = leave(a, want[4], l[4]) end
        if ms >= 0 then ms = math.max(1, math.ceil(ms)) end
        -- The longest wait is the reason that the client gets.
        if not worst or (worst ~= -1 and (ms == -1 or ms > worst)) then
          worst = ms
          answer = {0, n - 1, reason, ms, now}
        end
      end
    end
  end
end
-- The mark stores the lease ids, so that an undo changes only these leases.
local leases, names = {}, {}
for n, a in ipairs(all) do
  leases[n] = lease(a, node)
  names[n] = int(leases[n] and leases[n].id or stamp)
end
if not worst and not redis.call('SET', KEYS[1], table.concat(names, ' '), 'PX', mark_ms, 'NX') then return {-3} end
for n, a in ipairs(all) do
  local l = leases[n]
  if not worst then
    local new = not l
    l = l or {id = stamp, open = 0, held = 0, ends = 0}
    l.open, l.held = l.open + want[3], l.held + want[4]
    a.o, a.r, a.c, a.k = a.o + want[3], a.r + want[4], a.c + want[1], a.k + want[2]
    if new then keep(a, node, l) end -- extend needs the hash to exist
    if l.ends < now + lease_ms / 2 then extend(a, l, lease_ms) end
    keep(a, node, l)
    save(a)
  end
  local requests, tokens = used(a)
  for _, v in ipairs({l and l.id or 0, a.g, a.T, a.r, requests, tokens}) do answer[#answer + 1] = v end
end
return answer
