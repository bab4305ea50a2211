-- KEYS: for each account its value and the hashes beside it
-- ARGV: node, lease in ms; for each account budget, window
-- Answers the time in microseconds, and for each account when the node's lease was born, 0 where it has none
local answer = {stamp}
for n = 1, #KEYS / 3 do
  local a = load(KEYS[3 * n - 2], ARGV[1 + 2 * n], ARGV[2 + 2 * n])
  local l = lease(a, ARGV[1])
  if l then
    extend(a, l, tonumber(ARGV[2]))
    keep(a, ARGV[1], l)
  end
  save(a)
  answer[n + 1] = l and l.born or 0
end
return answer
