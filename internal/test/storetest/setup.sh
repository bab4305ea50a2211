#!/usr/bin/env bash
# Installs the servers that tests run, where they are not there yet.
set -euo pipefail
exec "$(dirname "$0")/../../../tools/debian.sh" pebble=pebble redis-server=redis-server pgbouncer=pgbouncer haproxy=haproxy etcd=etcd-server \
  etcdctl=etcd-client prometheus=prometheus '/usr/lib/postgresql/*/bin/postgres=postgresql'
