#!/usr/bin/env bash
# Installs what `make bench` compares with or runs beside the gateway: nginx and Redis.
# Without them the tables have fewer rows. Nothing is started: the measurements start
# their own.
set -euo pipefail
missing=()
command -v nginx >/dev/null || missing+=(nginx-light)
command -v redis-server >/dev/null || missing+=(redis-server)
((${#missing[@]} == 0)) && exit
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo -n)
if ! command -v apt-get >/dev/null; then
  echo "there is no apt-get here; install ${missing[*]} by hand, or do without their rows" >&2
  exit
fi
install=("${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet "${missing[@]}")
"${install[@]}" || { "${as_root[@]}" apt-get update --quiet && "${install[@]}"; } ||
  echo "${missing[*]} could not be installed; the tables will do without their rows" >&2
