#!/usr/bin/env bash
# Builds llama.cpp's llama-server into a folder: build.sh FOLDER
#
# The project has no release that every machine can fetch, but node-llama-cpp publishes
# its sources and, in a package per platform, its libraries. So only the server itself,
# thirteen files, has to be compiled: a minute or two on two cores.
set -euo pipefail

version=3.22.1 # of the two packages; the engine inside calls itself 0.5.0
sources_sum=a0d9dd80eacd2ab1cfe71aee57ac8a806487fd70b3d2a38fbec637752d9e5c5f
libraries_sum=0d953e1503d5ab4608d8ed5b739132308c81ac05ffeb760d2a7f30e08a9f90e0

here=$(cd "$(dirname "$0")" && pwd)
[[ $# == 1 ]] || { echo "usage: build.sh FOLDER" >&2; exit 2; }
[[ $(uname -sm) == "Linux x86_64" ]] || { echo "build.sh: the engine's libraries are for Linux on x86_64, and this is $(uname -sm)" >&2; exit 1; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# tools installs what the build needs and the machine does not have.
tools() {
  "$here/../../tools/debian.sh" git=git g++=g++ make=make npm=npm
}

# fetch PACKAGE SUM FILE gets a package and holds that it is the one we know.
fetch() {
  local package=$1 sum=$2 file=$3
  (cd "$work" && "$here/../../tools/try.sh" "the npm registry" npm pack --silent "$package@$version" >/dev/null)
  echo "$sum  $work/$file" | sha256sum --check --quiet
}

# libraries puts those that are prebuilt into the folder.
libraries() {
  fetch @node-llama-cpp/linux-x64 "$libraries_sum" "node-llama-cpp-linux-x64-$version.tgz"
  tar xzf "$work/node-llama-cpp-linux-x64-$version.tgz" -C "$out" --strip-components=3 --wildcards 'package/bins/linux-x64/*.so'
}

# sources unpacks the engine's repository, which comes as a git bundle.
sources() {
  fetch node-llama-cpp "$sources_sum" "node-llama-cpp-$version.tgz"
  tar xzf "$work/node-llama-cpp-$version.tgz" -C "$work" package/llama/gitRelease.bundle
  git -c advice.detachedHead=false clone --quiet "$work/package/llama/gitRelease.bundle" "$work/src"
}

# compile makes the server, and keeps the one chat template that knows of tools and that
# the scripted weights are written for.
compile() {
  mkdir "$work/build"
  make --no-print-directory -C "$work/build" -f "$here/llama/Makefile" -j "$(nproc)" SRC="$work/src" OUT="$out"
  cp "$work/src/models/templates/Qwen-Qwen2.5-7B-Instruct.jinja" "$out/qwen2.5.jinja"
}

SECONDS=0
tools
echo "engine: fetching the sources and libraries of node-llama-cpp $version"
libraries
sources
echo "engine: compiling llama-server"
compile
"$out/llama-server" --version >/dev/null 2>&1 || { echo "build.sh: $out/llama-server was built and does not run" >&2; exit 1; }
echo "engine: built in $out in $SECONDS s"
