#!/usr/bin/env bash
# Installs what the end-to-end tests need beyond Go: the vendors' SDKs for Python and
# Node at their pinned versions, each at its newest major and at the one before, and
# Node 22. Does nothing for a part that is already there, so it is cheap to run before
# every test run.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${ISOGLOSS_E2E_CACHE:-$HOME/.cache/isogloss-e2e}
mkdir -p "$cache"

# fresh DIR FILE... succeeds if DIR was installed from exactly these files.
fresh() {
  local dir=$1
  shift
  [[ -f $dir/.stamp && $(cat "$@" | sha256sum) == "$(cat "$dir/.stamp")" ]]
}

# stamp DIR FILE... is written last, so that an interrupted install starts over.
stamp() {
  local dir=$1
  shift
  cat "$@" | sha256sum >"$dir/.stamp"
}

install_python() {
  local which=$1 dir=$cache/python-$1 wanted=$here/python/requirements-$1.txt
  fresh "$dir" "$wanted" && return
  rm -rf "$dir"
  python3 -m venv "$dir"
  "$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
  stamp "$dir" "$wanted"
  echo "installed python-$which in $dir"
}

install_node() {
  local dir=$cache/node
  fresh "$dir" "$here/node/package.json" "$here/node/package-lock.json" && return
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$here/node/package.json" "$here/node/package-lock.json" "$here/node/.npmrc" "$dir"
  (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  stamp "$dir" "$here/node/package.json" "$here/node/package-lock.json"
  echo "installed node in $dir"
}

install_python newest
install_python before
install_node
