#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the given time.
set -euo pipefail
time=${1:-10s}
go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir package; do
  { grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null || true; } | sed 's/^func //' | while read -r target; do
    echo "fuzz $package $target for $time"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null
  done
done
