-- KEYS: the account's value and its three hashes; the hash of logs of its owner, which is another one for a
--   further budget. All budgets of an owner have the same totals.
-- ARGV: budget, window, the ledger's spending in the four quarters of the window, newest first; then
--   for each log its name, what the ledger's sum has of it, and what the node knows of it.
-- The account has then spent the ledger's sum, and what the logs have beyond it.
-- The seed counts when a node has checked the server's data after it: a check before it would miss a loss between them.
-- Returns 1 if the seed was applied, 0 if the account was seeded already.
local a = load(KEYS[1], ARGV[1], ARGV[2])
if a.g ~= 0 then return {0} end
redis.call('DEL', a.spent)
a.T, a.g = 0, -stamp
for n = 1, 4 do spend(a, tonumber(ARGV[2 + n]), a.i - 15 * (n - 1)) end
local ledger, sums, at = {}, {}, {}
for _, logs in ipairs({a.logs, KEYS[5]}) do
  local all = redis.call('HGETALL', logs)
  for n = 1, #all, 2 do
    local sum, set = struct.unpack('<dd', all[n + 1])
    sums[all[n]], at[all[n]] = math.max(sums[all[n]] or 0, sum), math.max(at[all[n]] or 0, set)
  end
end
for n = 7, #ARGV, 3 do
  local log = ARGV[n]
  ledger[log] = tonumber(ARGV[n + 1])
  sums[log] = math.max(sums[log] or 0, ledger[log], tonumber(ARGV[n + 2]))
  at[log] = now
end
for log, sum in pairs(sums) do
  if at[log] < now - logs_ms then -- the log is complete, and the ledger's sum has it
    redis.call('HDEL', a.logs, log)
  else
    spend(a, sum - (ledger[log] or 0))
    redis.call('HSET', a.logs, log, struct.pack('<dd', sum, at[log]))
  end
end
if next(sums) then redis.call('PEXPIRE', a.logs, int(2 * logs_ms)) end
save(a)
return {1}
