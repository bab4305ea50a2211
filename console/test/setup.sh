#!/usr/bin/env bash
# Installs the browser that the tests of the console use, where there is none.
set -euo pipefail
for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit
done
exec "$(dirname "$0")/../../tools/debian.sh" chromium=chromium
