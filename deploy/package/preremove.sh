#!/bin/sh
# Debian passes "remove" or "upgrade"; RPM passes 0 for the last version.
set -e
[ -d /run/systemd/system ] || exit 0
if [ "$1" = remove ] || [ "$1" = 0 ]; then
  systemctl --quiet disable --now isogloss.service
fi
