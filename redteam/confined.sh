#!/usr/bin/env bash
# Runs the attacks as the user nobody on a read-only file system, without capabilities and
# with no way to get any. The gateway is started in the same way. It needs root.
#
#   redteam/confined.sh bin/redteam bin/isogloss [ARGUMENTS]
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$1" "$work/redteam"
cp "$2" "$work/isogloss"
shift 2
chown -R 65534:65534 "$work"
unshare --mount -- bash -euc '
  work=$1
  shift
  mount --bind "$work" "$work"
  mount -o remount,ro,bind /
  cd "$work"
  export HOME=$work TMPDIR=$work
  if setpriv --reuid 65534 --regid 65534 --clear-groups touch /confined 2>/dev/null; then
    echo "confined.sh: the file system can be written" >&2
    exit 1
  fi
  exec setpriv --reuid 65534 --regid 65534 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all \
    ./redteam --bin "$work/isogloss" "$@"
' confined "$work" "$@"
