#!/bin/sh
# Writes the secrets of this installation into .env beside it, where Docker Compose finds them. It keeps those
# that are there.
set -eu
umask 077
cd "$(dirname "$0")"
touch .env
for name in PEPPER POSTGRES_PASSWORD GRAFANA_PASSWORD; do
  grep -q "^$name=." .env && continue
  value=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  [ "${#value}" = 64 ] || { echo "setup.sh: /dev/urandom gave no random bytes" >&2; exit 1; }
  echo "$name=$value" >> .env
  echo "wrote a new $name into $(pwd)/.env; keep a copy"
done
