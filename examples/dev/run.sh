#!/usr/bin/env bash
# A gateway to develop with: `make dev`. It runs in front of a scripted upstream, with the console
# and a SQLite store in a temporary folder, and is built and started again when a source changes.
#
#   PORTS="9000 9001 9002" make dev    other ports: for clients, for operators, of the upstream
#   ISOGLOSS=FILE examples/dev/run.sh   runs a built binary, and again when that file changes
set -euo pipefail
cd "$(dirname "$0")/../.."
read -r clients operators provider <<<"${PORTS:-8080 8081 8082}"
work=$(mktemp -d)
gateway= upstream=

stop() { # PID
  [[ $1 ]] && kill "$1" 2>/dev/null && wait "$1" 2>/dev/null || true
}

cleanup() {
  trap - EXIT INT TERM
  stop "$gateway"
  stop "$upstream"
  rm -rf "$work"
  echo "stopped"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

cat >"$work/isogloss.yaml" <<END
listen: 127.0.0.1:$clients
admin: { listen: 127.0.0.1:$operators }
data: $work/data
store: sqlite
providers:
  local: { protocol: openai-chat, base_url: "http://127.0.0.1:$provider/v1" }
models:
  fast: { targets: [local/scripted] }
prices:
  models:
    "local/*": { input: 0.20, output: 0.60 }
END

# build leaves the running binary alone if it fails.
build() {
  if [[ ${ISOGLOSS:-} ]]; then cp "$ISOGLOSS" "$work/new"; else ./deploy/build.sh "$work/new"; fi && mv "$work/new" "$work/isogloss"
}

# sources is a digest of the names and times of what the binary is made of.
sources() {
  find ${ISOGLOSS:-cmd internal llm protocol sse conform console go.mod go.sum} \
    \( -name node_modules -o -name dist -o -name shots -o -path console/test -o -name testdata \) -prune -o \
    -type f ! -name '*_test.go' ! -name '*.md' ! -name 'schema.d.ts' -printf '%p %T@\n' 2>/dev/null | sort | sha256sum
}

serve() {
  "$work/isogloss" serve -c "$work/isogloss.yaml" &
  gateway=$!
}

now=$(sources)
build
python3 examples/three-nodes/engine.py "$provider" &
upstream=$!
owner=$("$work/isogloss" keys create -c "$work/isogloss.yaml" --name me --role owner | head -n 1)
until curl -fs "http://127.0.0.1:$provider/health" >/dev/null; do
  kill -0 "$upstream" || exit # it says why it ended
  sleep 0.1
done
client=$("$work/isogloss" keys create -c "$work/isogloss.yaml" --name demo --models fast | head -n 1)
serve
cat <<END

console    http://127.0.0.1:$operators/console/ with the owner's key $owner
clients    http://127.0.0.1:$clients with the key $client:
           curl http://127.0.0.1:$clients/v1/chat/completions -H "Authorization: Bearer $client" -H 'Content-Type: application/json' -d '{"model": "fast", "messages": [{"role": "user", "content": "Hello"}]}'
Ctrl-C ends all of it.

END

while sleep 1; do
  seen=$(sources)
  if [[ $seen != "$now" ]]; then
    now=$seen
    echo "== a source has changed"
    if build; then
      stop "$gateway"
      serve
    else
      echo "== the build failed; the gateway before it still runs"
    fi
  fi
done
