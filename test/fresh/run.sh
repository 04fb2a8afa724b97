#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A bare Debian 12 (no Go, no make, no git) gets a clean clone of the committed files, and runs the commands of the
# README, which install what they need. It uses this machine's kernel and network, its own root directory and mount and
# PID namespaces, and leaves nothing behind. It takes a quarter of an hour longer than the targets.
#
#   test/fresh/run.sh [TARGET...]   make targets, demo and test if none is given
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ $# -gt 0 ] || set -- demo test
RELEASE=bookworm

if [ "${FRESH_STAGE:-}" = inside ]; then
	# In the namespaces: the bare system becomes the root directory.
	root=$FRESH_ROOT
	mount --make-rprivate /
	mount --bind "$root" "$root"
	mount -t proc proc "$root/proc"
	mount --rbind /sys "$root/sys"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs run "$root/run"
	mount -t tmpfs tmp "$root/tmp"
	cd "$root"
	pivot_root . mnt
	umount -l /mnt
	cd /polycube
	# The environment of a shell there, and this machine's network configuration.
	known=(HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
	for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY GOPROXY GOSUMDB GONOSUMDB GOPRIVATE PIP_INDEX_URL PIP_DEFAULT_TIMEOUT; do
		[ -z "${!name:-}" ] || known+=("$name=${!name}")
	done
	exec env -i "${known[@]}" "$@"
fi

[ "$(id -u)" -eq 0 ] || { echo "fresh: needs root: it makes a root directory and mounts" >&2 && exit 1; }
# shellcheck disable=SC2016 # apt's variables
mirror=${FRESH_MIRROR:-$(apt-get indextargets --format '$(LABEL) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
	awk '$1 == "Debian" && $2 == "main" { print $3; exit }')}
[ -n "$mirror" ] || { echo "fresh: apt has no mirror of Debian: name one in FRESH_MIRROR" >&2 && exit 1; }

FRESH_ROOT=$(mktemp -d)
export FRESH_ROOT
chmod 755 "$FRESH_ROOT" # it becomes /, which other users must be able to enter
# The processes of a step are a process group. Its mounts are in another namespace, so only files must be removed.
set -m
running=
clean() {
	[ -z "$running" ] || { kill -KILL -- "-$running" && wait "$running"; } 2>/dev/null || true
	rm -rf --one-file-system "$FRESH_ROOT"
}
trap clean EXIT
trap 'exit 130' INT TERM

step() {
	local start=$SECONDS what=$1
	shift
	printf '\n==> %s\n' "$what"
	"$@" </dev/null &
	running=$!
	wait "$running"
	running=
	printf '==> %s: done in %d s\n' "$what" $((SECONDS - start))
}

bare() {
	debootstrap --variant=minbase "$RELEASE" "$FRESH_ROOT" "$mirror" >"$FRESH_ROOT/bare.log" && return 0
	cat "$FRESH_ROOT/bare.log" >&2
	return 1
}

# Configuration that an administrator would have set up before: name resolution, and trusted certificates.
clone() {
	cp /etc/resolv.conf /etc/hosts "$FRESH_ROOT/etc/"
	mkdir -p "$FRESH_ROOT/usr/local/share/ca-certificates"
	cp -R /usr/local/share/ca-certificates/. "$FRESH_ROOT/usr/local/share/ca-certificates/"
	git -c safe.directory='*' clone -q --no-hardlinks . "$FRESH_ROOT/polycube"
}

inside() {
	FRESH_STAGE=inside GOPROXY=$(go env GOPROXY) GOSUMDB=$(go env GOSUMDB) \
		unshare --mount --pid --fork --kill-child "$@"
}
there() { inside "$PWD/test/fresh/run.sh" "$@"; }

nothing_there() {
	local name found=0
	for name in go make git gcc clang; do
		[ -z "$(find "$FRESH_ROOT"/usr/bin "$FRESH_ROOT"/usr/local -name "$name" 2>/dev/null)" ] || { echo "it has $name" && found=1; }
	done
	return $found
}

step "Debian $RELEASE of $mirror" bare
step "a clone of the committed files" clone
step "nothing is installed" nothing_there
step "scripts/deps.sh build" there scripts/deps.sh build
step "again, without a network" inside --net "$PWD/test/fresh/run.sh" scripts/deps.sh build
for target in "$@"; do
	step "make $target" there make "$target"
done
printf '\n==> all passed in %d s\n' "$SECONDS"
