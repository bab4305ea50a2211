#!/usr/bin/env bash
# Builds the console into dist, which the binary embeds. Needs Node 20 and npm. Does nothing if dist
# was built from these sources, and waits for another build of it. No package's own scripts run.
set -euo pipefail
cd "$(dirname "$0")"
if command -v flock >/dev/null; then # one build at a time
  exec 9<.
  flock 9
fi
sources() { find src index.html package.json package-lock.json tsconfig.json vite.config.ts build.sh -type f ! -name schema.d.ts | LC_ALL=C sort | xargs sha256sum | sha256sum; }
installed() { cat package.json package-lock.json | sha256sum; }
now=$(sources)
[[ -f dist/.stamp && $now == "$(cat dist/.stamp)" ]] && exit
if [[ ! -f node_modules/.stamp || $(installed) != "$(cat node_modules/.stamp)" ]]; then
  ../tools/try.sh "the npm registry" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
  installed >node_modules/.stamp
fi
npm run --silent build
echo "$now" >dist/.stamp
