#!/usr/bin/env bash
# Runs every fuzz target of the module for the given time, for example 15s. A finding
# does not stop the other targets. Its input stays in testdata/fuzz, where it becomes a
# test case.
set -euo pipefail
time=${1:-15s}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed=0
while read -r dir package; do
  for target in $(grep -hoP '^func \KFuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null); do
    echo "fuzz $package $target for $time"
    if go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null >"$log" 2>&1; then
      tail -n 1 "$log"
    elif ! grep -q 'Failing input' "$log" && grep -q 'context deadline exceeded' "$log"; then
      echo "the time was up during an input" # go test reports that as a failure now and then
    else
      cat "$log"
      failed=$((failed + 1))
    fi
  done
done < <(go list -f '{{.Dir}} {{.ImportPath}}' ./...)
echo "$failed targets failed"
[ "$failed" -eq 0 ]
