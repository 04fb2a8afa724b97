#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Writes the reference of every service: its data tree, drawn from its model. The result is generated, not committed.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:?usage: scripts/reference.sh FOLDER}
mkdir -p "$out"

shopt -s nullglob
for model in cubes/*/*.yang; do
	name=$(basename "$model" .yang)
	yanglint -p yang -f tree -o "$out/$name.tree" "$model"
	echo "docs: $out/$name.tree" >&2
done
