#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the given time.
#
#   fuzz.sh TIME all      any finding fails: for whoever goes looking
#   fuzz.sh TIME crashes  only panics, hangs and growth fail; a law that does not
#                         hold for some input is printed, with the input, and does
#                         not stop a change that has nothing to do with it
set -euo pipefail
time=${1:-15s}
fails=${2:-all}
log=$(mktemp)
trap 'rm -f "$log"' EXIT
go list -f '{{.Dir}} {{.ImportPath}}' ./... | while read -r dir package; do
  { grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null || true; } | sed 's/^func //' | while read -r target; do
    echo "fuzz $package $target for $time"
    if go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$time" </dev/null >"$log" 2>&1; then
      tail -n 1 "$log"
    elif ! grep -q 'Failing input' "$log" && grep -q 'context deadline exceeded' "$log"; then
      echo "the time was up while an input was being tried" # go test takes that for a failure now and then
    elif [ "$fails" = crashes ] && grep -q 'Failing input' "$log" && ! grep -qE 'panic:|fatal error:|hung or terminated|out of memory' "$log"; then
      echo "FINDING in $package $target: make it a case and mend it"
      grep -v '^fuzz: ' "$log"
      input=$(sed -n 's/.*Failing input written to \(testdata.*\)/\1/p' "$log")
      cat "$dir/$input"
      rm -f "$dir/$input"
    else
      cat "$log"
      exit 1
    fi
  done
done
