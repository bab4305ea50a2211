#!/usr/bin/env bash
# Installs what the tests of this folder need beyond Go, where it is not there yet. The network helpers of
# buildah are among its recommended packages.
set -euo pipefail
RECOMMENDS=1 exec "$(dirname "$0")/../../tools/debian.sh" buildah=buildah busybox=busybox-static systemd-analyze=systemd rpm=rpm openssl=openssl curl=curl prometheus=prometheus \
  /etc/ssl/certs/ca-certificates.crt=ca-certificates
