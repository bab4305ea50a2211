#!/usr/bin/env bash
# Installs the Debian packages of commands that are missing. A command is a name in PATH or a path, which may
# have a wildcard. Nothing that is installed is started: tests start their own servers.
#
#   tools/debian.sh redis-server=redis-server '/usr/lib/postgresql/*/bin/postgres=postgresql'
#   RECOMMENDS=1 tools/debian.sh buildah=buildah     # with the packages that it recommends
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
missing=()
for pair in "$@"; do
  command=${pair%%=*}
  case $command in
  /*) compgen -G "$command" >/dev/null || missing+=("${pair#*=}") ;;
  *) command -v "$command" >/dev/null || missing+=("${pair#*=}") ;;
  esac
done
((${#missing[@]} == 0)) && exit 0
command -v apt-get >/dev/null || { echo "debian.sh: there is no apt-get here; install ${missing[*]} by hand" >&2; exit 1; }
sudo=()
[[ $(id -u) == 0 ]] || sudo=(sudo)
options=(--yes -qq)
[[ ${RECOMMENDS:-} ]] || options+=(--no-install-recommends)
# Two scripts that run at the same time wait for each other's lock.
apt() { "$here/try.sh" "the Debian mirror" "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get -o DPkg::Lock::Timeout=600 "$@" >/dev/null; }
apt update -qq
apt install "${options[@]}" "${missing[@]}"
echo "installed ${missing[*]}"
