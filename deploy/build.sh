#!/usr/bin/env bash
# Builds the stripped static binary as OUT, for GOOS and GOARCH or this machine. VERSION is
# what `isogloss version` prints. The same source gives the same bytes in any folder.
#
#   VERSION=v1.2.3 GOOS=linux GOARCH=arm64 deploy/build.sh OUT
#
# The console is built before where npm is. CONSOLE=off leaves it out, CONSOLE=required fails
# without npm.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
case ${CONSOLE:-auto} in
required) console/build.sh ;;
auto)
  if command -v npm >/dev/null; then
    console/build.sh || { echo "build.sh: the console was not built; CONSOLE=off builds the gateway without it" >&2; exit 1; }
  else
    echo "build.sh: npm is missing, so the binary has no console" >&2
  fi
  ;;
esac
CGO_ENABLED=0 GOFLAGS=$(deploy/goflags.sh) go build -ldflags "-s -w -X main.version=$version" -o "$1" ./cmd/isogloss
