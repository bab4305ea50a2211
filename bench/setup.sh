#!/usr/bin/env bash
# Installs what `make bench` compares with or runs beside the gateway: nginx and Redis. Without them the
# tables have fewer rows.
set -euo pipefail
"$(dirname "$0")/../tools/debian.sh" nginx=nginx-light redis-server=redis-server ||
  echo "setup.sh: the tables will do without the rows of nginx and Redis" >&2
