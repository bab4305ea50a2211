#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the given time.
set -euo pipefail
time=${1:-15s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir package; do
  { grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null || true; } | sed 's/^func //' | while read -r target; do
    echo "fuzz $package $target for $time"
    if go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null >"$log" 2>&1; then
      tail -n 1 "$log"
    elif grep -q 'Failing input' "$log" || ! grep -q 'context deadline exceeded' "$log"; then
      cat "$log"
      exit 1
    else # the tool itself reports the end of its time as a failure now and then
      echo "the time was up while an input was being tried"
    fi
  done
done
