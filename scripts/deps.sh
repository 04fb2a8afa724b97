#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs what a target needs and does not find, so that `make` works on a fresh
# machine. It asks the network only when something is missing.
#
#   scripts/deps.sh build   what building, testing and the demo need
#   scripts/deps.sh openapi what the tests of the API's description need on top of that
#   scripts/deps.sh lint    what `make lint` needs on top of that
#
# SKIP_DEPS=1 turns it off where packages come from elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

# Versions are pinned: the same commit gives the same findings next year.
GOLANGCI_VERSION=v2.15.0
PYANG_VERSION=2.7.1

BUILD_PACKAGES=(clang llvm gcc libc6-dev make pkg-config libyang2-dev libyang2-tools libbpf-dev
	linux-libc-dev bpftool iproute2 ethtool iputils-ping tcpdump iperf3 jq clang-format
	procps util-linux systemd bird2 python3-venv openssl curl
	openvswitch-switch frr nftables dnsmasq-base isc-dhcp-client socat)
LINT_PACKAGES=(shellcheck protobuf-compiler)

say() { echo "deps: $*" >&2; }
die() {
	say "$*"
	exit 1
}

# missing_packages prints those of its arguments that dpkg does not have installed.
missing_packages() {
	local -A have=()
	local name state
	while read -r name state; do
		[ "$state" = installed ] && have[$name]=1
	done < <(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
	for name in "$@"; do
		[ -n "${have[$name]:-}" ] || echo "$name"
	done
}

install_packages() {
	local missing
	command -v dpkg-query >/dev/null ||
		die "this is not a Debian system: install the equivalents of: $* and set SKIP_DEPS=1"
	mapfile -t missing < <(missing_packages "$@")
	[ ${#missing[@]} -gt 0 ] || return 0
	[ "$(id -u)" -eq 0 ] ||
		die "missing packages; as root run: apt-get install --no-install-recommends ${missing[*]}"
	say "installing ${missing[*]}"
	local apt=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
	export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # what has a service does not start it
	"${apt[@]}" update </dev/null
	"${apt[@]}" install --no-install-recommends "${missing[@]}" </dev/null
}

check_go() {
	command -v go >/dev/null ||
		die "Go is missing: install the version that go.mod names, or a newer one, and put it in PATH"
}

# once FILE VERSION COMMAND runs COMMAND, which makes FILE, unless this version of it is there.
once() {
	local file=$1 version=$2
	if [ -x "$file" ] && [ "$(cat "$file.version" 2>/dev/null)" = "$version" ]; then
		return 0
	fi
	"$3"
	echo "$version" >"$file.version"
}

install_golangci() {
	say "compiling golangci-lint $GOLANGCI_VERSION (minutes, once)"
	GOBIN="$PWD/.cache/bin" \
		go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$GOLANGCI_VERSION"
}

install_pyang() {
	say "installing pyang $PYANG_VERSION"
	python3 -m venv --clear .cache/pyang
	.cache/pyang/bin/pip install -q --disable-pip-version-check "pyang==$PYANG_VERSION"
}

# The versions and hashes of everything are in the file.
OPENAPI_REQUIREMENTS=test/e2e/testdata/openapi/requirements.txt

install_openapi() {
	say "installing schemathesis"
	python3 -m venv --clear .cache/openapi
	.cache/openapi/bin/pip install -q --disable-pip-version-check --require-hashes -r "$OPENAPI_REQUIREMENTS"
}

mkdir -p .cache/bin
[ "${SKIP_DEPS:-}" != 1 ] || exit 0
case "${1:-build}" in
build)
	check_go
	install_packages "${BUILD_PACKAGES[@]}"
	;;
openapi)
	install_packages python3-venv
	once .cache/openapi/bin/schemathesis "$(sha256sum <"$OPENAPI_REQUIREMENTS")" install_openapi
	;;
lint)
	check_go
	install_packages "${LINT_PACKAGES[@]}"
	once .cache/pyang/bin/pyang "$PYANG_VERSION" install_pyang
	once .cache/bin/golangci-lint "$GOLANGCI_VERSION" install_golangci
	;;
*)
	die "usage: scripts/deps.sh build|openapi|lint"
	;;
esac
