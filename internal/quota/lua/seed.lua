-- KEYS: the account's value and the hashes beside it
-- ARGV: budget, window, source (1 what a node knew when Redis was lost, 0 the ledger),
--   the record that the node knew (as g; 0: none), and four parts of what was spent, those of the newest quarter of the window first
-- What nodes have settled before anybody seeded is in T already. The ledger may have
--   it too, so it only fills up to its sum; a node's last knowledge is from before and
--   is added. It also takes the ledger's place where that came first. Answers 1 where it did.
local a = load(KEYS[1], ARGV[1], ARGV[2])
local source, parts, sum = tonumber(ARGV[3]), {}, 0
for n = 1, 4 do
  parts[n] = tonumber(ARGV[4 + n])
  sum = sum + parts[n]
end
if a.g ~= 0 then
  if source == 0 or a.g == tonumber(ARGV[4]) or (a.f == 1 and sum <= a.b) then return {0} end
  spend(a, sum - a.b, a.bi)
  a.b, a.f = sum, 1
else
  local less = 0
  if source == 0 then less = math.min(a.T, sum) end
  a.b, a.bi, a.f, a.g = sum - less, a.i, source, stamp
  parts[1] = parts[1] - less
  for n = 1, 4 do spend(a, parts[n], a.i - 15 * (n - 1)) end
end
save(a)
return {1}
