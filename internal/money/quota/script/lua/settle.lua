-- KEYS: for each account its value and its three hashes, then a mark for each change.
-- ARGV: node, mark TTL in ms, number of accounts; for each account budget, window (empty: not known; -: not
--   known, and nothing happens if the account does not exist);
--   for each change undo, requests, tokens, minute (0: the current one), open, reserved, log; then for
--   each account the id of the lease that it was reserved from (0: none; an undo reads the ids from
--   the mark), and for each account what it has spent in the log.
-- The mark makes the return of a reservation idempotent. An undo uses the mark of its reservation: it
--   returns what was taken, and blocks the reservation if that arrives later. Totals need no mark.
-- Returns for each account generation, spent, reserved.
local node, mark_ms, accounts = ARGV[1], ARGV[2], tonumber(ARGV[3])
local at = 3 + 2 * accounts
local all, leases, touched = {}, {}, {}
for n = 1, accounts do
  local window = ARGV[3 + 2 * n]
  if window == '-' then
    if redis.call('EXISTS', KEYS[4 * n - 3]) == 0 then return {0, 0, 0} end -- the call has one account
    window = ''
  end
  all[n] = load(KEYS[4 * n - 3], ARGV[2 + 2 * n], window ~= '' and window or nil)
  leases[n] = lease(all[n], node)
end

local function correct(a, w, requests, tokens)
  if w == 0 or w == a.w then
    a.c, a.k = a.c + requests, a.k + tokens
  elseif w == a.w - 1 then
    a.p, a.q = a.p + requests, a.q + tokens
  end
end

for n = 4 * accounts + 1, #KEYS do
  local undo = ARGV[at + 1] == '1'
  local v = {}
  for i = 2, 7 + 2 * accounts do v[i] = tonumber(ARGV[at + i]) end
  local log = ARGV[at + 7]
  at = at + 7 + 2 * accounts
  local first
  if undo then
    local names = redis.call('SET', KEYS[n], 'u', 'PX', mark_ms, 'GET')
    first = names and names ~= 'u'
    if first then
      local m = 7
      for name in string.gmatch(names, '%d+') do
        m = m + 1
        v[m] = tonumber(name)
      end
    end
  else
    first = redis.call('SET', KEYS[n], 'd', 'PX', mark_ms, 'NX')
  end
  if first then
    for m, a in ipairs(all) do
      correct(a, v[4], v[2], v[3])
      local l, id = leases[m], v[7 + m]
      if l and id == l.id then
        a.o, a.r = a.o - v[5], a.r - v[6]
        l.open, l.held = l.open - v[5], l.held - v[6]
        touched[m] = true
      end
    end
  end
  if not undo then
    for m, a in ipairs(all) do total(a, log, v[7 + accounts + m]) end
  end
end
local answer = {}
for n, a in ipairs(all) do
  a.c, a.k, a.p, a.q = math.max(a.c, 0), math.max(a.k, 0), math.max(a.p, 0), math.max(a.q, 0)
  if touched[n] then keep(a, node, leases[n]) end
  save(a)
  for _, v in ipairs({a.g, a.T, a.r}) do answer[#answer + 1] = v end
end
return answer
