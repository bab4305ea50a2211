#!/usr/bin/env bash
# Builds the image for each architecture as IMAGE-ARCH, for example localhost/isogloss:v1-amd64.
# The same source gives the same digest: files and layers have the time of the commit.
# VERSION, REVISION and SOURCE_DATE_EPOCH replace what git says. The binaries are built,
# or copied from BINARIES/isogloss-ARCH.
#
#   deploy/image/build.sh localhost/isogloss:v1 amd64 arm64
set -euo pipefail
image=$1
shift
cd "$(dirname "$0")/../.."
version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo dev)}
revision=${REVISION:-$(git rev-parse HEAD 2>/dev/null || echo unknown)}
when=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
umask 022
context=$(mktemp -d)
trap 'rm -rf "$context"' EXIT
mkdir "$context/data"
mkdir -m 700 "$context/data/isogloss"
cp /etc/ssl/certs/ca-certificates.crt "$context"
python3 -m zipfile -e "$(go env GOROOT)/lib/time/zoneinfo.zip" "$context/zoneinfo"
for arch in "$@"; do
  echo "building $image-$arch"
  if [[ ${BINARIES:-} ]]; then
    install -m 755 "$BINARIES/isogloss-$arch" "$context"
  else
    VERSION=$version GOOS=linux GOARCH=$arch deploy/build.sh "$context/isogloss-$arch"
  fi
  buildah bud --quiet --isolation chroot --storage-driver vfs --platform "linux/$arch" --timestamp "$when" \
    --build-arg TARGETARCH="$arch" --build-arg VERSION="$version" --build-arg REVISION="$revision" \
    --file deploy/image/Containerfile --tag "$image-$arch" "$context"
done
