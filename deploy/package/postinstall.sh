#!/bin/sh
# Debian passes "configure" and, on an upgrade, the old version; RPM passes the number of
# installed versions.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl --quiet is-active isogloss.service; then
  # The installed binary takes over the ports. Open streams finish in the old process.
  systemctl reload isogloss.service
elif { [ "$1" = configure ] && [ -z "$2" ]; } || [ "$1" = 1 ]; then
  systemctl --quiet enable isogloss.service
  echo "isogloss: write a provider's key to /etc/isogloss/isogloss.env, then: systemctl start isogloss"
fi
