#!/usr/bin/env bash
# Writes the differences of the generated pages into bin/pages.patch, for `git apply`, and fails if a target has not written all
# that it should: it prints the lines of pages that name the target and are older than a day.
#
#   tools/pages.sh TARGET [VARIABLE=VALUE...] PAGE...
set -euo pipefail
cd "$(dirname "$0")/.."
target=$1
shift
pages=()
for word in "$@"; do
  [[ $word == *=* ]] || pages+=("$word")
done
mkdir -p bin
git diff --output=bin/pages.patch -- docs
git --no-pager diff --stat -- docs
yesterday=$(date -u -d yesterday +%F)
for page in "${pages[@]}"; do
  grep -H "^Run on .*: \`make $target[ \`]" "$page" || echo "$page: no line names make $target"
done | awk -v day="$yesterday" '
  !match($0, /Run on [0-9-]+/) || substr($0, RSTART + 7, 10) < day { print "not written: " $0; old = 1 }
  END { exit old }'
