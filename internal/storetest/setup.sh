#!/usr/bin/env bash
# Installs the servers that tests run, where they are not there yet. Debian starts
# what it installs; tests start their own, so that is not wanted here.
set -euo pipefail
missing=()
command -v pebble >/dev/null || missing+=(pebble)
command -v redis-server >/dev/null || missing+=(redis-server)
command -v pgbouncer >/dev/null || missing+=(pgbouncer)
command -v haproxy >/dev/null || missing+=(haproxy)
command -v etcd >/dev/null || missing+=(etcd-server)
command -v prometheus >/dev/null || missing+=(prometheus)
command -v etcdctl >/dev/null || missing+=(etcd-client)
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
((${#missing[@]} == 0)) && exit 0
sudo=()
[[ $(id -u) == 0 ]] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1
"${sudo[@]}" apt-get update -qq
"${sudo[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
