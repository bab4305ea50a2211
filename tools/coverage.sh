#!/usr/bin/env bash
# Counts the functions that tests reach, by name and not by path, so that a moved package does not change the figure. Runs
# the Go tests, then the given targets of the Makefile with an instrumented binary. Nothing that it runs measures time
# or memory.
#
#   tools/coverage.sh OUT [TARGET...]      # for example tools/coverage.sh /tmp/now conform chaos-short
#
# Writes OUT/functions: a line for each function that was reached.
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$1/counters"
out=$(cd "$1" && pwd)
shift
go test -vet=off -coverpkg=./... -coverprofile="$out/tests.txt" ./... >"$out/tests.log" || echo "coverage.sh: some tests failed, see $out/tests.log" >&2
if (($#)); then
  go build -cover -coverpkg=./... -o "$out/isogloss" ./cmd/isogloss
  for target in "$@"; do
    # The target's own build would replace the binary, so make takes it as up to date.
    GOCOVERDIR=$out/counters make --no-print-directory -o build BIN="$out/isogloss" "$target" >"$out/$target.log" 2>&1 ||
      echo "coverage.sh: $target failed, see $out/$target.log" >&2
  done
  go tool covdata textfmt -i="$out/counters" -o="$out/binary.txt"
fi
for profile in "$out"/tests.txt "$out"/binary.txt; do
  [[ -s $profile ]] && go tool cover -func="$profile"
done | awk '$NF != "0.0%" && $1 != "total:" { n = split($1, path, "/"); split(path[n], file, ":"); print file[1], $2 }' | sort -u >"$out/functions"
echo "$(wc -l <"$out/functions") functions reached, $(grep -rhE '^func ' --include='*.go' --exclude='*_test.go' . | wc -l) in the tree"
