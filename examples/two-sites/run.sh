#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Two sites connected by their routers, for IPv4 and IPv6. See README.md.
#
#   examples/two-sites/run.sh [--keep]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

# with_ipv6 N ADDRESS GATEWAY also gives a host IPv6.
with_ipv6() {
	host "$1" tee /proc/sys/net/ipv6/conf/{all,default,eth0}/disable_ipv6 >/dev/null <<<0
	ip -n "$machine-host$1" -6 addr add "$2" dev eth0 nodad
	ip -n "$machine-host$1" -6 route add default via "$3"
}

main() {
	lab_begin sites
	say "Two hosts in the east, one in the west."
	new_host 1 10.1.0.11/24 10.1.0.1
	new_host 2 10.1.0.12/24 10.1.0.1
	new_host 3 10.2.0.13/24 10.2.0.1
	with_ipv6 1 2001:db8:1::11/64 2001:db8:1::1
	with_ipv6 3 2001:db8:2::13/64 2001:db8:2::1
	start_daemon
	ctl apply -f examples/two-sites/topology.yaml
	ctl r-east show route
	expect "the route to the network of the west is there" '10\.2\.0\.0/24 +10\.0\.0\.2'

	say "Packets of both families go from site to site."
	eventually 30 "the routers have resolved each other" host 1 ping -n -c 1 -W 1 10.2.0.13
	eventually 30 "for IPv6, too" host 1 ping -n -c 1 -W 1 2001:db8:2::13
	reach 1 10.1.0.12 host2
	reach 1 10.2.0.13 host3
	reach 1 2001:db8:2::13 "host3 by IPv6"
	reach 3 10.1.0.12 host2

	say "ICMP errors are returned as by any router."
	local said
	said=$(host 1 ping -n -c 1 -W 20 -t 2 10.2.0.13 || true)
	grep -q 'From 10.0.0.2 .*Time to live exceeded' <<<"$said" || die "no time exceeded from the second router: $said"
	ok "the second router answers a packet whose TTL expires there"
	said=$(host 1 ping -n -c 1 -W 20 10.99.0.1 || true)
	grep -q 'From 10.1.0.1 .*Net Unreachable' <<<"$said" || die "no unreachable from the first router: $said"
	ok "the first router reports an unknown network as unreachable"

	[ "${1:-}" != --keep ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
