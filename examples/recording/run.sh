#!/usr/bin/env bash
# Writes docs/recording.svg: a terminal in which the built gateway translates a request with its report of losses, fails
# over to a second target, and refuses a request that a budget does not cover. `make recording` runs it.
#
#   examples/recording/run.sh bin/isogloss docs/recording.svg
#   PORTS="9000 9001 9002 9003" …   other ports: for clients, for operators, of the model, and one that nobody serves
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
binary=$(realpath "$1")
picture=$(realpath -m "$2")
work=$(mktemp -d)
pids=()

cleanup() {
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT

read -r clients operators model closed <<<"${PORTS:-8080 8081 8082 8083}"
mkdir "$work/bin"
ln -s "$binary" "$work/bin/isogloss"
export PATH=$work/bin:$PATH GATEWAY=http://127.0.0.1:$clients
cd "$work"
cat >isogloss.yaml <<END
listen: 127.0.0.1:$clients
admin: { listen: 127.0.0.1:$operators }
data: data
store: sqlite
providers:
  first: { protocol: openai-chat, base_url: "http://127.0.0.1:$closed/v1" }
  second: { protocol: openai-chat, base_url: "http://127.0.0.1:$model/v1" }
models:
  fast: { targets: [first/qwen3, second/qwen3] }
prices:
  models:
    "first/*": { input: 0.20, output: 0.60 }
    "second/*": { input: 0.20, output: 0.60 }
END
cat >request.json <<'END'
{"model": "fast", "max_tokens": 100, "top_k": 40, "messages": [{"role": "user", "content": "Hello"}]}
END
cat >long.json <<'END'
{"model": "fast", "max_tokens": 9000, "messages": [{"role": "user", "content": "Write a book"}]}
END

KEY=$(isogloss keys create --name demo --models fast --budget 0.001 --window 30d | head -n 1)
export KEY
python3 "$here/../three-nodes/engine.py" "$model" &
pids+=($!)
isogloss serve 2>gateway.log &
pids+=($!)
for url in "$GATEWAY/health" "http://127.0.0.1:$model/health"; do
  curl -fs --retry 60 --retry-delay 1 --retry-connrefused "$url" >/dev/null || { cat gateway.log >&2; exit 1; }
done

{
  while IFS= read -r line; do
    case $line in
    '# '*) printf '# %s\n' "${line#\# }" ;;
    *)
      printf '$ %s\n' "$line"
      bash -c "$line" 2>&1 | tr -d '\r' | sed 's/^/  /'
      ;;
    esac
  done <<'END'
# A request of the Messages dialect, for a model whose server speaks Chat Completions
isogloss translate --from anthropic --to openai-chat request.json
# The same over HTTP. The first target does not answer, so the second one does
curl -si $GATEWAY/v1/messages -H "x-api-key: $KEY" --json @request.json | grep -E 'HTTP|Isogloss'
# 9,000 tokens could cost more than is left of the key's budget
curl -s $GATEWAY/v1/messages -H "x-api-key: $KEY" --json @long.json
END
} | sed -E 's/(key:[A-Za-z0-9]{4})[A-Za-z0-9]*/\1…/' >transcript
cat transcript
python3 "$here/svg.py" <transcript >"$picture"
