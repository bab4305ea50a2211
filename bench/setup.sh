#!/usr/bin/env bash
# Installs what `make bench` compares with or runs beside the gateway: nginx, Redis and NATS. Without them the
# tables have fewer rows.
set -euo pipefail
"$(dirname "$0")/../tools/debian.sh" nginx=nginx-light redis-server=redis-server nats-server=nats-server ||
  echo "setup.sh: the tables will do without the rows of nginx, Redis and NATS" >&2
