-- KEYS: for each account its value and the hashes beside it, then a mark for each item
-- ARGV: node, mark in ms, number of accounts; for each account budget, window;
--   for each item undo, requests, tokens, minute (0: the present), open, reserved, cost, and for each
--   account the name of the lease that it was taken from (0: none; an undo finds it in the mark)
-- An item is done once, by its mark. That of an undo is the reservation's: it takes back
--   what was taken, and where the reservation has not come yet it keeps it from coming.
-- Answers for each account seeded, spent, reserved
local node, mark_ms, accounts = ARGV[1], ARGV[2], tonumber(ARGV[3])
local at = 3 + 2 * accounts
local all, leases, touched = {}, {}, {}
for n = 1, accounts do
  all[n] = load(KEYS[3 * n - 2], ARGV[2 + 2 * n], ARGV[3 + 2 * n])
  leases[n] = lease(all[n], node)
end

local function correct(a, w, requests, tokens)
  if w == 0 or w == a.w then
    a.c, a.k = a.c + requests, a.k + tokens
  elseif w == a.w - 1 then
    a.p, a.q = a.p + requests, a.q + tokens
  end
end

for n = 3 * accounts + 1, #KEYS do
  local undo = ARGV[at + 1] == '1'
  local v = {}
  for i = 2, 7 + accounts do v[i] = tonumber(ARGV[at + i]) end
  at = at + 7 + accounts
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
      spend(a, v[7])
      local l, born = leases[m], v[7 + m]
      if l and born == l.born then
        a.o, a.r = a.o - v[5], a.r - v[6]
        l.open, l.held = l.open - v[5], l.held - v[6]
        touched[m] = true
      end
    end
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
