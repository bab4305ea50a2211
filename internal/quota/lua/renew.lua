-- KEYS: for each account its hash and that of its nodes
-- ARGV: node, lease in ms; for each account budget, window
-- Answers the time in microseconds, and for each account when the node's lease was born, 0 where it has none
local answer = {stamp}
for n = 1, #KEYS / 2 do
  local a = load(KEYS[2 * n - 1], KEYS[2 * n], ARGV[1 + 2 * n], ARGV[2 + 2 * n])
  local l = lease(a, ARGV[1])
  if l then keep(a, ARGV[1], l, tonumber(ARGV[2])) end
  save(a)
  answer[n + 1] = l and l.born or 0
end
return answer
