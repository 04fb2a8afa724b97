#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# usage: baseline.sh [nat|upf|COMMIT]
#
# Builds an older polycubed and polycube-upf from the history of this repository, for tests of upgrades, and prints the folder
# with these programs, .cache/baseline/COMMIT/bin. It exits with 3 if the history does not have the commit, as in a shallow
# clone or an archive.
set -euo pipefail
cd "$(dirname "$0")/.."

case ${1:-nat} in
# The first with both load balancers and health checks. Its NAT has its sessions in the table of connections: those of much
# earlier ones end at the upgrade.
nat) COMMIT=eca54e2296ee1866bc1275bbfa3c533eec8b7e23 ;;
# Its upf has the tables of later ones, and other programs.
upf) COMMIT=57d0347947830ce2bbe1b1ce64a307e5db3755b2 ;;
*) COMMIT=$1 ;;
esac
DIR=$PWD/.cache/baseline/$COMMIT
git() { command git -c safe.directory='*' "$@"; }

if ! git cat-file -e "$COMMIT^{commit}" 2>/dev/null; then
	echo "baseline: the history has no commit $COMMIT" >&2
	exit 3
fi
mkdir -p "$DIR"
exec 9>"$DIR.lock"
flock 9
if [ ! -e "$DIR/bin" ]; then
	tmp=$(mktemp -d .cache/baseline-src.XXXXXX)
	trap 'rm -rf "$tmp"' EXIT
	git archive "$COMMIT" | tar -x -C "$tmp"
	mkdir -p "$tmp/.cache"
	# Only the eBPF programs that the daemon contains: those of tests and examples would take most of the time.
	env -u MAKEFLAGS -u GOFLAGS make -C "$tmp" SKIP_DEPS=1 BPF_DIRS='bpf cubes' VERSION="${COMMIT:0:7}" build >&2
	mv "$tmp/bin" "$DIR/bin"
fi
echo "$DIR/bin"
