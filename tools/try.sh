#!/usr/bin/env bash
# Runs a download up to three times, and names the server that did not answer.
#
#   tools/try.sh PyPI pip install boto3
set -uo pipefail
server=$1
shift
for pause in 5 20 0; do
  timeout --foreground 900 "$@" && exit 0
  echo "try.sh: $server: failed: $*" >&2
  ((pause == 0)) || { echo "try.sh: next try in $pause s" >&2; sleep "$pause"; }
done
echo "try.sh: $server: three tries failed. Check that this machine reaches it, also through the proxy if there is one, then run the command again." >&2
exit 1
