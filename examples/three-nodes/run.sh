#!/usr/bin/env bash
# Three gateways on PostgreSQL, Redis and etcd, all on this machine. See README.md.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
isogloss=${ISOGLOSS:-$here/../../bin/isogloss}
work=$(mktemp -d)
pids=()

# What was started is stopped by its pid, the last one first.
cleanup() {
  local code=$? i
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
    kill "${pids[i]}" 2>/dev/null && wait "${pids[i]}" 2>/dev/null || true
  done
  [ "$code" = 0 ] || tail -n 5 "$work"/*.log >&2
  rm -rf "$work"
  exit "$code"
}
trap cleanup EXIT

# start NAME COMMAND… leaves a command running, its output in a log.
start() {
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  pids+=($!)
}

# await COMMAND… repeats a command until it succeeds, for 20 seconds.
await() {
  local n
  for n in $(seq 200); do
    if "$@" >/dev/null 2>&1; then return; fi
    sleep 0.1
  done
  echo "waited in vain for: $*" >&2
  return 1
}

# Twelve ports that are free.
read -r -a port < <(python3 -c '
import socket
held = [socket.socket() for _ in range(12)]
for s in held: s.bind(("127.0.0.1", 0))
print(*(s.getsockname()[1] for s in held))')

echo "== stores"
pg=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
mkdir "$work/pg" "$work/redis"
chmod 755 "$work"
as=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
  chown postgres "$work/pg"
  as=(setpriv --reuid=postgres --regid=postgres --init-groups)
fi
(cd / && "${as[@]}" "$pg/initdb" -D "$work/pg" -U postgres -A trust --no-sync >/dev/null)
start postgres "${as[@]}" "$pg/postgres" -D "$work/pg" -h 127.0.0.1 -p "${port[0]}" -k ""
start redis redis-server --bind 127.0.0.1 --port "${port[1]}" --dir "$work/redis" --save "" --maxmemory-policy noeviction
start etcd etcd --data-dir "$work/etcd" --listen-client-urls "http://127.0.0.1:${port[2]}" --advertise-client-urls "http://127.0.0.1:${port[2]}" \
  --listen-peer-urls "http://127.0.0.1:${port[3]}" --initial-advertise-peer-urls "http://127.0.0.1:${port[3]}" --initial-cluster "default=http://127.0.0.1:${port[3]}"
export POSTGRES="postgres://postgres@127.0.0.1:${port[0]}/postgres?sslmode=disable"
export REDIS="redis://127.0.0.1:${port[1]}/0"
export ETCD="http://127.0.0.1:${port[2]}"
await "$pg/pg_isready" -q -d "$POSTGRES"
await redis-cli -p "${port[1]}" ping
await curl -fs "$ETCD/health"

echo "== an engine, and who registers it"
start engine python3 "$here/engine.py" "${port[4]}"
await curl -fs "http://127.0.0.1:${port[4]}/health"
start register "$isogloss" register --etcd "$ETCD" --model qwen3 --url "http://127.0.0.1:${port[4]}/v1" --check "http://127.0.0.1:${port[4]}/health"

echo "== three gateways"
PEPPER=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
export PEPPER
for n in 1 2 3; do
  export NODE=gw-$n DATA=$work/gw-$n LISTEN=127.0.0.1:${port[4 + n]} ADMIN=127.0.0.1:${port[7 + n]}
  start "gw-$n" "$isogloss" serve -c "$here/gateway.yaml"
done
for n in 1 2 3; do
  await curl -fs "http://127.0.0.1:${port[4 + n]}/health"
done

echo "== two keys"
admin=$("$isogloss" keys create -c "$here/gateway.yaml" --name me --role owner | head -n 1)
client=$("$isogloss" keys create -c "$here/gateway.yaml" --name demo --team search --models qwen3 --requests 60 --budget 0.01 | head -n 1)
echo "operator ${admin:0:9}…, client ${client:0:8}…"

echo "== one request to each node"
for n in 1 2 3; do
  served() { curl -fs "http://127.0.0.1:${port[4 + n]}/v1/models" -H "Authorization: Bearer $client" | grep -q qwen3; }
  await served
  curl -fsS "http://127.0.0.1:${port[4 + n]}/v1/chat/completions" -H "Authorization: Bearer $client" -H 'Content-Type: application/json' \
    -d '{"model": "qwen3", "max_tokens": 16, "messages": [{"role": "user", "content": "Say hello."}]}'
  echo
done

echo "== what was used, as any node tells it"
api() { curl -fsS "http://127.0.0.1:${port[10]}/api/v1/$1" -H "Authorization: Bearer $admin"; }
all() { api 'usage?group=team,model' | grep -q '"requests":3'; }
await all
api 'usage?group=team,model'
echo
api 'requests?limit=3' | grep -o '"node":"gw-[0-9]"' | sort
echo "done"
