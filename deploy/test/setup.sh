#!/usr/bin/env bash
# Installs what the tests of this folder need beyond Go, where it is not there yet.
set -euo pipefail
missing=()
command -v buildah >/dev/null || missing+=(buildah)
command -v busybox >/dev/null || missing+=(busybox-static)
command -v systemd-analyze >/dev/null || missing+=(systemd)
[[ -f /etc/ssl/certs/ca-certificates.crt ]] || missing+=(ca-certificates)
((${#missing[@]} == 0)) && exit 0
sudo=()
[[ $(id -u) == 0 ]] || sudo=(sudo)
export DEBIAN_FRONTEND=noninteractive
"${sudo[@]}" apt-get update -qq
# With recommended packages: buildah's network helpers are among them.
"${sudo[@]}" apt-get install -y -qq "${missing[@]}" >/dev/null
