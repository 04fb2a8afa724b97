#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A complete home router: dnsmasq serves addresses at home and at the provider, dhclient requests them, and packets that
# leave home have the one address that the provider assigned. See README.md.
#
#   examples/home-router/run.sh [--keep]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

# serve_leases NAMESPACE INTERFACE FIRST LAST GATEWAY starts a DHCP server.
serve_leases() {
	in_background "$1" dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --user=root --pid-file= \
		--interface="$2" --except-interface=lo --bind-interfaces --dhcp-authoritative --log-facility=- --log-dhcp \
		--dhcp-leasefile="$state/leases-$2-$5" --dhcp-range="$3,$4,1h" --dhcp-option="option:router,$5"
}

# ask_for_lease NAMESPACE INTERFACE starts a DHCP client.
ask_for_lease() {
	in_background "$1" dhclient -4 -d -v -pf "$state/dhclient-$1-$2.pid" -lf "$state/dhclient-$1-$2.leases" \
		-cf /dev/null -sf "$PWD/examples/home-router/lease.sh" "$2"
}

# has_address NAMESPACE INTERFACE PREFIX succeeds if an address of the interface starts with the text.
has_address() { ip -n "$1" -4 -o addr show dev "$2" | grep -q "inet $3"; }

# has_gateway NAMESPACE ADDRESS succeeds if the default route uses the gateway.
has_gateway() { ip -n "$1" -4 route show default | grep -q "via $2 "; }

address_of() { ip -n "$1" -4 -o addr show dev "$2" | sed -n 's/.*inet \([0-9.]*\).*/\1/p'; }

# port_has CUBE PORT LEAF PREFIX succeeds if a leaf of a port has a value that starts with the text.
port_has() { polycubectl "$1" ports "$2" show "$3" </dev/null | grep -q "^$4"; }

main() {
	lab_begin home
	say "Two hosts at home, and the provider, which has no route to the networks at home."
	new_host 1
	new_host 2
	new_host 3 203.0.113.1/24
	start_daemon

	say "The topology is one file."
	ctl apply -f examples/home-router/topology.yaml
	local router=pcn-$instance@gw

	say "The provider assigns the router's address: dnsmasq there, dhclient in the router's namespace."
	serve_leases "$machine-host3" eth0 203.0.113.100 203.0.113.150 203.0.113.1
	ask_for_lease "$router" wan
	eventually 30 "the interface of the port has a lease" has_address "$router" wan 203.0.113.1
	eventually 30 "and the port has the same address" port_has gw wan ip 203.0.113.1
	eventually 30 "the cube has the route that dhclient added" shows '^0\.0\.0\.0/0 +203\.0\.113\.1' gw show route
	ctl gw show route

	say "The router assigns addresses at home: dnsmasq in its namespace, dhclient on the hosts."
	serve_leases "$router" lan 192.168.1.100 192.168.1.150 192.168.1.1
	ask_for_lease "$machine-host1" eth0
	ask_for_lease "$machine-host2" eth0
	eventually 30 "host1 has a lease" has_address "$machine-host1" eth0 192.168.1.1
	eventually 30 "host2 has a lease" has_address "$machine-host2" eth0 192.168.1.1
	eventually 30 "and host1 has a default route, which dhclient adds after the address" has_gateway "$machine-host1" 192.168.1.1

	say "Packets: at home through the bridge, outside through bridge, router and masquerade."
	reach 1 "$(address_of "$machine-host2" eth0)" host2
	reach 1 203.0.113.1 "the provider"
	local outside
	outside=$(address_of "$router" wan)
	in_background "$machine-host3" python3 -u -m http.server --bind 203.0.113.1 --directory /usr/share/common-licenses 80
	eventually 30 "host1 reads a page outside" host 1 curl -sS -m 5 -o "$state/page" http://203.0.113.1/GPL-2
	cmp "$state/page" /usr/share/common-licenses/GPL-2 || die "the page was damaged"
	eventually 30 "the provider saw the router's address, $outside" grep -q "^$outside .*GET /GPL-2" "$state/background"
	ctl masq show natting-table
	expect "the session of the page is listed" "192\.168\.1\.1.* +203\.0\.113\.1 .*80 "

	say "A server at home, which the provider reaches through a forwarded port."
	in_background "$machine-host2" python3 -u -m http.server --bind 0.0.0.0 --directory /usr/share/common-licenses 8080
	ctl masq rule port-forwarding append "external-ip=$outside" external-port=80 proto=tcp \
		"internal-ip=$(address_of "$machine-host2" eth0)" internal-port=8080
	eventually 30 "the provider reads a page at home" \
		host 3 curl -sS -m 5 -o "$state/page" "http://$outside/Apache-2.0"
	cmp "$state/page" /usr/share/common-licenses/Apache-2.0 || die "the page was damaged"

	say "A host at home uses the same address as hosts outside: hairpinning."
	eventually 30 "host1 reads the page at home through the router's address" \
		host 1 curl -sS -m 5 -o "$state/page" "http://$outside/BSD"
	cmp "$state/page" /usr/share/common-licenses/BSD || die "the page was damaged"
	eventually 30 "host2, which serves the page, saw that address, too" grep -q "^$outside .*GET /BSD" "$state/background"
	reach 1 "$outside" "the router itself, by the address outside"

	[ "${1:-}" != --keep ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
