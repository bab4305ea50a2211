#!/bin/sh
# Debian passes "purge" to remove data and settings too; RPM keeps them.
set -e
if [ "$1" = purge ]; then
  rm -rf /var/lib/isogloss /var/lib/private/isogloss /etc/isogloss
fi
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
fi
