#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Three routers with FRR in their namespaces: OSPF computes the routes, eBPF forwards, and traffic recovers from a cut
# link in seconds. See README.md.
#
#   examples/three-routers/run.sh [--keep]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

frr=/usr/lib/frr

# start_frr N starts zebra and ospfd in the namespace of router N.
start_frr() {
	local dir=$state/frr$1 ns="pcn-$instance@r$1"
	mkdir -p "$dir"
	cp examples/three-routers/ospfd.conf "$dir/ospfd.conf"
	echo "hostname r$1" >"$dir/zebra.conf"
	chown -R frr:frr "$dir"
	in_background "$ns" "$frr/zebra" -u frr -g frr -z "$dir/zserv" -i "$dir/zebra.pid" -f "$dir/zebra.conf" \
		--vty_socket "$dir" -P 0 --log stdout
	eventually 30 "zebra runs in the namespace of r$1" test -S "$dir/zserv"
	in_background "$ns" "$frr/ospfd" -u frr -g frr -z "$dir/zserv" -i "$dir/ospfd.pid" -f "$dir/ospfd.conf" \
		--vty_socket "$dir" -P 0 --log stdout
}

# knows N NETWORK NEXTHOP succeeds if a router forwards to a network through a next hop.
knows() { polycubectl "r$1" show route </dev/null | grep -Eq "^$2 +$3 "; }

main() {
	lab_begin triangle
	say "Three hosts, each behind its own router."
	local i
	for i in 1 2 3; do new_host "$i" "10.$i.0.2/24" "10.$i.0.1"; done
	chmod 711 "$state" # FRR's daemons are a user of their own
	start_daemon
	ctl apply -f examples/three-routers/topology.yaml

	say "FRR starts on each of them."
	for i in 1 2 3; do start_frr "$i"; done
	eventually 60 "r1 learned the network of r2, through the wire to it" knows 1 10.2.0.0/24 10.0.12.2
	eventually 60 "r1 learned the network of r3, through the wire to it" knows 1 10.3.0.0/24 10.0.13.2
	eventually 60 "r2 learned the network of r3" knows 2 10.3.0.0/24 10.0.23.2
	eventually 60 "r3 learned the network of r1" knows 3 10.1.0.0/24 10.0.13.1
	eventually 60 "r2 learned the network of r1" knows 2 10.1.0.0/24 10.0.12.1
	ctl r1 show route
	eventually 30 "host1 reaches host3" host 1 ping -n -c 1 -W 1 10.3.0.2
	reach 1 10.2.0.2 host2
	reach 1 10.3.0.2 host3
	reach 3 10.2.0.2 host2

	say "The cubes forward the packets, which do not pass the namespaces."
	local before after got
	before=$(ip -n "pcn-$instance@r1" -s -j link show dev to3 | jq '.[].stats64.tx.packets')
	got=$(answers 1 10.3.0.2 500 0.001)
	[ "$got" -eq 500 ] || die "$((500 - got)) packets of 500 were lost"
	after=$(ip -n "pcn-$instance@r1" -s -j link show dev to3 | jq '.[].stats64.tx.packets')
	[ $((after - before)) -lt 100 ] || die "the namespace sent $((after - before)) packets meanwhile"
	ok "500 packets went through r1; meanwhile $((after - before)) of FRR's own left its namespace"

	say "The wire between r1 and r3 is cut: the route leads through r2."
	ctl disconnect r1:to3 r3:to1
	eventually 60 "r1 reaches the network of r3 through r2" knows 1 10.3.0.0/24 10.0.12.2
	eventually 60 "r3 reaches the network of r1 through r2" knows 3 10.1.0.0/24 10.0.23.1
	reach 1 10.3.0.2 host3

	say "The wire is restored."
	ctl connect r1:to3 r3:to1
	eventually 60 "r1 uses the direct wire again" knows 1 10.3.0.0/24 10.0.13.2
	eventually 60 "r3, too" knows 3 10.1.0.0/24 10.0.13.1
	reach 1 10.3.0.2 host3

	[ "${1:-}" != --keep ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
