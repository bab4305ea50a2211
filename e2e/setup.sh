#!/usr/bin/env bash
# Installs what the end-to-end tests need beyond Go, at pinned versions, for the parts
# that are named or for all. Does nothing for what is already there, so it is cheap to
# run before every test run. Two runs at the same time wait for each other.   usage: setup.sh [PART...]
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${ISOGLOSS_E2E_CACHE:-$HOME/.cache/isogloss-e2e}
mkdir -p "$cache"
exec 9>"$cache/.lock"
flock 9

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
  local which=$1 dir=$cache/python-$1 wanted=$here/sdks/python/requirements-$1.txt
  fresh "$dir" "$wanted" && return
  rm -rf "$dir"
  python3 -m venv "$dir"
  "$here/../tools/try.sh" PyPI "$dir/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
  stamp "$dir" "$wanted"
  echo "installed python-$which in $dir"
}

# install_npm NAME FOLDER installs what FOLDER has locked. No package's own scripts run.
install_npm() {
  local name=$1 from=$here/$2 dir=$cache/$1
  fresh "$dir" "$from/package.json" "$from/package-lock.json" && return
  rm -rf "$dir"
  mkdir -p "$dir"
  cp "$from/package.json" "$from/package-lock.json" "$from/.npmrc" "$dir"
  (cd "$dir" && "$here/../tools/try.sh" "the npm registry" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
  stamp "$dir" "$from/package.json" "$from/package-lock.json"
  echo "installed $name in $dir"
}

# The vendors' SDKs at their newest major and at the one before, Node 22, and the
# frameworks.
sdks() {
  install_python newest
  install_python before
  install_python frameworks
  install_npm node sdks/node
  install_npm node-frameworks sdks/node-frameworks
}

# A real engine, and real weights for it.
engines() {
  local engine=$cache/engine weights=$cache/weights
  if ! fresh "$engine" "$here/engines/build.sh" "$here"/engines/llama/*; then
    rm -rf "$engine"
    "$here/engines/build.sh" "$engine"
    stamp "$engine" "$here/engines/build.sh" "$here"/engines/llama/*
  fi
  if ! fresh "$weights" "$here/engines/weights.sh"; then
    rm -rf "$weights"
    "$here/engines/weights.sh" "$weights"
    stamp "$weights" "$here/engines/weights.sh"
  fi
}

# The coding agents, on the SDKs' Node 22.
signin() {
  install_npm node sdks/node
  install_npm agents agents/node
}

# The coding agents, and the engine that each is tried on.
agents() {
  engines
  signin
}

# Readers of exported files.
parquet() {
  install_python parquet
}

# What the crowd is made of, and whom it talks to.
crowd() {
  install_python newest
  install_npm node sdks/node
  engines
}

# All that docs/clients is about.
pages() {
  sdks
  agents
}

[[ $# -gt 0 ]] || set -- pages crowd
for part in "$@"; do
  "$part"
done
