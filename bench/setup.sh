#!/usr/bin/env bash
# Installs nginx, which `make bench` compares with. Without it the tables have one row
# less. Nothing is started: the measurements start their own.
set -euo pipefail
command -v nginx >/dev/null && exit
as_root=()
[[ $(id -u) == 0 ]] || as_root=(sudo -n)
if ! command -v apt-get >/dev/null; then
  echo "there is no apt-get here; install nginx by hand, or do without its row" >&2
  exit
fi
install=("${as_root[@]}" env RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet nginx-light)
"${install[@]}" || { "${as_root[@]}" apt-get update --quiet && "${install[@]}"; } ||
  echo "nginx could not be installed; the tables will do without its row" >&2
