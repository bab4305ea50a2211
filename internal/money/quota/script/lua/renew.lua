-- KEYS: for each account its value and its three hashes.
-- ARGV: node, lease TTL in ms; for each account budget, window.
-- Returns the time in microseconds, and for each account the id of the node's lease, 0 if it has none.
local answer = {stamp}
for n = 1, #KEYS / 4 do
  local a = load(KEYS[4 * n - 3], ARGV[1 + 2 * n], ARGV[2 + 2 * n])
  local l = lease(a, ARGV[1])
  if l then
    extend(a, l, tonumber(ARGV[2]))
    keep(a, ARGV[1], l)
  end
  save(a)
  answer[n + 1] = l and l.id or 0
end
return answer
