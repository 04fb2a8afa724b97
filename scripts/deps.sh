#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Installs the missing packages that a target needs, so that `make` works on a fresh machine. It uses the network only
# if something is missing.
#
#   scripts/deps.sh build   what building, testing and the demo need
#   scripts/deps.sh openapi what the tests of the API's description need on top of that
#   scripts/deps.sh monitoring what the tests of dashboards and alert rules need on top of that
#   scripts/deps.sh captures what the comparison with ndpiReader needs on top of that; without it, the test is skipped
#   scripts/deps.sh core    what `make test-core` needs on top of that: Rust
#   scripts/deps.sh kernels what other kernels and architectures need
#   scripts/deps.sh bench   what `make bench` needs on top of that
#   scripts/deps.sh evnf    what `make check-evnf` needs
#   scripts/deps.sh lint    what `make lint` needs on top of that
#   scripts/deps.sh soak    what `make soak` needs on top of that
#
# SKIP_DEPS=1 turns it off if packages come from elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

# Versions are pinned, so that the same commit gives the same findings next year.
GOLANGCI_VERSION=v2.15.0
PYANG_VERSION=2.7.1
CAPTURES=ndpi_4.2.orig.tar.gz
CAPTURES_SHA256=e54ce8fe13adc5d747be7553513657fae78f796e0bd459e122c280cc06ce4daf

BUILD_PACKAGES=(clang llvm gcc libc6-dev make pkg-config libyang2-dev libyang2-tools libbpf-dev libndpi-dev
	linux-libc-dev bpftool iproute2 ethtool iputils-ping tcpdump iperf3 jq clang-format
	procps util-linux systemd bird2 python3-venv openssl curl ca-certificates git openssh-server openssh-client traceroute
	openvswitch-switch frr nftables iptables ipset ufw fail2ban firewalld dbus dnsmasq-base isc-dhcp-client socat nginx tshark python3-scapy snmpd haproxy libndpi-bin runc)
KERNEL_PACKAGES=(qemu-system-x86 qemu-system-arm lld kmod e2fsprogs xz-utils)
BENCH_PACKAGES=(wrk libnetfilter-queue-dev)
LINT_PACKAGES=(shellcheck protobuf-compiler)
SOAK_PACKAGES=(debootstrap)
EVNF_PACKAGES=(python3-venv libvirt-clients libxml2-utils)

APT=(apt-get -q -y -o DPkg::Lock::Timeout=600 -o Dpkg::Use-Pty=0)
export DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 # what has a service does not start it

say() { echo "deps: $*" >&2; }
die() {
	say "$*"
	exit 1
}
usage() { die "usage: scripts/deps.sh build|openapi|monitoring|captures|core|kernels|bench|lint|soak|evnf (one of them)"; }

# missing_packages prints the arguments that are not installed packages.
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
	"${APT[@]}" update </dev/null
	"${APT[@]}" install --no-install-recommends "${missing[@]}" </dev/null
}

# Go 1.21 or newer downloads the version in go.mod if it is older itself.
MIN_GO=21
# Where Go may be installed without a link in PATH; the Makefile checks there as well.
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin

# have_go succeeds if there is a Go that can build this, or download one that can.
have_go() {
	local version
	version=$(cd / && GOTOOLCHAIN=local go version 2>/dev/null) || return 1
	[[ $version =~ go1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge $MIN_GO ]
}

# go_candidate prints the minor number of the Go 1.x that apt would install.
go_candidate() {
	apt-cache policy golang-go | sed -n 's/^ *Candidate: \(.*:\)\?1\.\([0-9]*\).*/\2/p'
}

# add_backports adds Debian's backports, from the mirror that the release itself comes from.
add_backports() {
	local codename=$1 mirror list=/etc/apt/sources.list.d/polycube-backports.sources
	# shellcheck disable=SC2016 # apt's variables
	mirror=$(apt-get indextargets --format '$(CODENAME) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
		awk -v codename="$codename" '$1 == codename && $2 == "main" { print $3; exit }')
	[ -n "$mirror" ] || return 1
	say "adding $codename-backports of $mirror for Go: $list"
	{
		echo "# Made by Polycube's scripts/deps.sh, for Go. Nothing else is installed from here unless it is asked for."
		printf 'Types: deb\nURIs: %s\nSuites: %s-backports\nComponents: main\n' "$mirror" "$codename"
		local keys=/usr/share/keyrings/debian-archive-keyring.gpg
		[ ! -e $keys ] || echo "Signed-By: $keys"
	} >"$list"
	if ! "${APT[@]}" update </dev/null; then
		rm -f "$list"
		die "$mirror has no backports of $codename; $GO_BY_HAND"
	fi
}

GO_BY_HAND="install Go 1.$MIN_GO or newer (https://go.dev/doc/install) and put it in PATH"

# need_go installs Go if none in PATH is new enough.
need_go() {
	have_go && return 0
	local codename backports=()
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		die "Go is missing, or older than 1.$MIN_GO: $GO_BY_HAND"
	fi
	"${APT[@]}" update </dev/null
	if [ "$(go_candidate)" -lt $MIN_GO ] 2>/dev/null; then
		codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
		backports=(-t "$codename-backports")
		[ -n "$(apt-get indextargets "Codename: $codename-backports")" ] ||
			add_backports "$codename" || die "apt has no Go 1.$MIN_GO: $GO_BY_HAND"
	fi
	say "installing golang-go"
	"${APT[@]}" install --no-install-recommends "${backports[@]}" golang-go </dev/null
	hash -r
	have_go || die "$(command -v go || echo "no Go in PATH"): the Go that comes first in PATH is older than 1.$MIN_GO: $GO_BY_HAND"
}

# What test/core/smf needs. Debian has it as cargo-web, in its security updates; its package cargo is older.
MIN_RUST=87

# have_rust succeeds if the cargo and the rustc in PATH are new enough.
have_rust() {
	local tool version
	for tool in cargo rustc; do
		version=$(cd / && $tool --version 2>/dev/null) || return 1
		[[ $version =~ ^$tool\ 1\.([0-9]+) ]] && [ "${BASH_REMATCH[1]}" -ge $MIN_RUST ] || return 1
	done
}

need_rust() {
	have_rust && return 0
	local by_hand="install Rust 1.$MIN_RUST or newer (https://www.rust-lang.org/tools/install) and put it in PATH"
	if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
		die "Rust is missing, or older than 1.$MIN_RUST: $by_hand"
	fi
	say "installing cargo-web and rustc-web"
	"${APT[@]}" update </dev/null
	"${APT[@]}" install --no-install-recommends --no-remove cargo-web rustc-web </dev/null || die "apt cannot install them: $by_hand"
	hash -r
	have_rust || die "$(command -v cargo): the Rust that comes first in PATH is older than 1.$MIN_RUST: $by_hand"
}

# once FILE VERSION COMMAND runs COMMAND, which creates FILE, unless this version of it exists.
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

# The file contains the versions and hashes of everything.
OPENAPI_REQUIREMENTS=test/e2e/testdata/openapi/requirements.txt

install_openapi() {
	say "installing schemathesis"
	python3 -m venv --clear .cache/openapi
	.cache/openapi/bin/pip install -q --disable-pip-version-check --require-hashes -r "$OPENAPI_REQUIREMENTS"
}

# unpack_package NAME INTO PATH... unpacks a part of a Debian package, which is not installed.
unpack_package() {
	local name=$1 into=$2 dir
	say "unpacking Debian's package $name"
	dir=$(mktemp -d)
	(
		cd "$dir"
		"${APT[@]}" -o APT::Sandbox::User=root download "$name" </dev/null ||
			{ [ "$(id -u)" -eq 0 ] && "${APT[@]}" update </dev/null &&
				"${APT[@]}" -o APT::Sandbox::User=root download "$name" </dev/null; }
		mkdir tree
		dpkg-deb --fsys-tarfile "$name"_*.deb | tar -x -C tree "${@:3}"
	) || {
		rm -rf "$dir"
		return 1
	}
	rm -rf "$into"
	mkdir -p "$(dirname "$into")"
	mv "$dir/tree" "$into"
	rm -rf "$dir"
}

# promtool, from Debian's package of Prometheus. Only this program is unpacked: the package would start a server.
install_promtool() {
	unpack_package prometheus .cache/prometheus ./usr/bin/promtool ||
		die "promtool is missing: run scripts/deps.sh monitoring as root, or put promtool 2.42 or newer into PATH and set SKIP_DEPS=1"
	install -m 0755 .cache/prometheus/usr/bin/promtool .cache/bin/promtool
	rm -rf .cache/prometheus
}

# The versions of Heat and of what it needs.
HEAT_REQUIREMENTS=examples/evnf/traffic-accounting/cloud/requirements.txt

# Heat, and cloud-init, of which only the code is unpacked: the package would configure this machine at its next boot.
install_heat() {
	say "installing Heat (a minute, 400 MB)"
	python3 -m venv --clear .cache/heat
	.cache/heat/bin/pip install -q --disable-pip-version-check -r "$HEAT_REQUIREMENTS"
	unpack_package cloud-init .cache/heat/cloud-init ./usr/lib/python3 ||
		die "cloud-init is missing: run scripts/deps.sh evnf as root"
}

# The captures of Debian's source package ndpi, up to 60 KB each, from the mirror that has libndpi-bin. Nothing else is
# unpacked. Without them a test is skipped, so this does not fail.
install_captures() {
	local dir package
	say "fetching the captures of Debian's source package ndpi, 127 MB"
	dir=$(mktemp -d)
	if package=$(apt-get --print-uris download libndpi-bin | sed -n "s/^'\([^']*\)'.*/\1/p") && [ -n "$package" ] &&
		curl -fsSL --retry 2 --max-time 300 -o "$dir/$CAPTURES" "${package%/*}/$CAPTURES" &&
		echo "$CAPTURES_SHA256  $dir/$CAPTURES" | sha256sum -c --quiet &&
		tar -xzf "$dir/$CAPTURES" -C "$dir" --strip-components=3 --wildcards '*/tests/pcap/*.pcap'; then
		rm -rf .cache/captures
		mkdir .cache/captures
		find "$dir" -name '*.pcap' -size -60k -exec mv -t .cache/captures {} +
		install -m 0755 /dev/null .cache/captures/complete
	else
		mkdir -p .cache/captures
		say "there are no captures: the comparison with ndpiReader will be skipped"
	fi
	rm -rf "$dir"
}

[ $# -le 1 ] || usage
mkdir -p .cache/bin
[ "${SKIP_DEPS:-}" != 1 ] || exit 0
case "${1:-build}" in
build)
	install_packages "${BUILD_PACKAGES[@]}"
	need_go
	;;
core)
	need_rust
	;;
kernels)
	install_packages "${KERNEL_PACKAGES[@]}"
	;;
bench)
	install_packages "${BENCH_PACKAGES[@]}"
	;;
openapi)
	install_packages python3-venv
	once .cache/openapi/bin/schemathesis "$(sha256sum <"$OPENAPI_REQUIREMENTS")" install_openapi
	;;
monitoring)
	command -v promtool >/dev/null || once .cache/bin/promtool debian install_promtool
	;;
captures)
	once .cache/captures/complete "$CAPTURES_SHA256" install_captures
	;;
lint)
	need_go
	install_packages "${LINT_PACKAGES[@]}"
	once .cache/pyang/bin/pyang "$PYANG_VERSION" install_pyang
	once .cache/bin/golangci-lint "$GOLANGCI_VERSION" install_golangci
	;;
evnf)
	install_packages "${EVNF_PACKAGES[@]}"
	once .cache/heat/bin/heat-engine "$(sha256sum <"$HEAT_REQUIREMENTS")" install_heat
	;;
soak)
	install_packages "${SOAK_PACKAGES[@]}"
	;;
*)
	usage
	;;
esac
