#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Traffic accounting: a router whose iptables have a fast path, and which knows what its traffic is. See README.md.
#
#   examples/traffic-accounting/run.sh [--keep]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

# rules are those of the router. They track no connections, so both directions are named.
rules() {
	inside "$machine" iptables-legacy-restore <<-END
		*filter
		:INPUT ACCEPT [0:0]
		:FORWARD DROP [0:0]
		:OUTPUT ACCEPT [0:0]
		-A FORWARD -p tcp --dport 80 -j ACCEPT
		-A FORWARD -p tcp --sport 80 -j ACCEPT
		-A FORWARD -p icmp -m limit --limit 100/second -j ACCEPT
		COMMIT
	END
}

# seen_by_rules NUMBER prints how many packets a rule of the chain FORWARD has counted in the stack.
seen_by_rules() { inside "$machine" iptables-legacy -L FORWARD "$1" -nvx | awk '{ print $1 }'; }

# together CUBE NUMBER prints how many packets a rule has counted in the stack and in front of it.
together() { polycubectl "$1" chain show IPV4 FORWARD "$2" packets </dev/null; }

# refused PORT FATE succeeds if a port of the server cannot be reached, and the fast path has dropped packets with a fate.
refused() {
	! host 1 curl -sS -m 1 -o /dev/null "http://10.2.0.1:$1/" 2>/dev/null || die "port $1 was reached"
	[ "$(fate efw-in "$2")" -gt 0 ]
}

main() {
	lab_begin accounting
	[ -x bin/polycube-ndpi ] || die "bin/polycube-ndpi is missing: run make build"
	say "A client, a server, and the router between them, which has a firewall."
	new_host 1 10.1.0.1/24 10.1.0.254
	new_host 2 10.2.0.1/24 10.2.0.254
	ip -n "$machine" link set lo up
	for n in 1 2; do
		ip -n "$machine" addr add "10.$n.0.254/24" dev "veth$n"
		inside "$machine" tee "/proc/sys/net/ipv4/conf/veth$n/rp_filter" >/dev/null <<<0
	done
	inside "$machine" tee /proc/sys/net/ipv4/conf/all/rp_filter >/dev/null <<<0
	inside "$machine" tee /proc/sys/net/ipv4/ip_forward >/dev/null <<<1
	rules
	reach 1 10.2.0.1 "the server"
	in_background "$machine-host2" python3 -u -m http.server --bind 10.2.0.1 --directory /usr/share/common-licenses 80

	say "The functions are one file; nDPI is a process of its own."
	start_daemon
	ctl apply -f examples/traffic-accounting/topology.yaml
	in_background "$machine" polycube-ndpi --cube dpi --socket "/run/polycube/$instance/polycubed.sock" \
		--bpffs "/sys/fs/bpf/polycube-$instance" --control "$state/ndpi.sock" --log "$state/eve.json"
	eventually 30 "the rules are in the fast path of both directions" shows OPEN efw-in status show gate
	eventually 30 "and of answers" shows OPEN efw-out status show gate
	eventually 30 "the classifier is there" shows UP dpi classifier show status

	say "The client reads a page. Its packets pass the router without its stack, and nDPI recognises them."
	eventually 30 "host1 reads a page" host 1 curl -sS -m 5 -o "$state/page" http://10.2.0.1/GPL-2
	cmp "$state/page" /usr/share/common-licenses/GPL-2 || die "the page was damaged"
	eventually 30 "the flow is one of HTTP" shows 'HTTP' dpi flow show
	ctl dpi flows
	local stack all
	stack=$(seen_by_rules 1)
	all=$(together efw-in 1)
	[ "$all" -ge 4 ] || die "only $all packets of requests were counted"
	[ "$stack" -lt "$all" ] || die "all $all packets of requests took the stack"
	ok "of $all packets of requests, the stack has seen $stack; the others left in front of it"
	ctl efw-in report show
	expect "the report says why a rule stays in the stack" 'NO .*-m limit'

	say "What a rule cannot decide in front of the stack is left to it, and what no rule accepts is dropped."
	reach 1 10.2.0.1 "the server: -m limit decides in the stack"
	eventually 30 "the policy drops packets to port 81 in front of the stack" refused 81 policy

	say "The firewall is changed as before, and the fast path follows."
	inside "$machine" iptables-legacy -I FORWARD -s 10.1.0.1 -p tcp --dport 80 -j DROP
	eventually 30 "the new rule is compiled" shows '10\.1\.0\.1.*DROP +YES' efw-in report show
	eventually 30 "and in the fast path" shows OPEN efw-in status show gate
	eventually 30 "the page cannot be read any more" refused 80 rule

	say "Accounts of protocols are complete, although few packets were inspected."
	ctl dpi protocol HTTP show
	ctl dpi statistics show

	[ "${1:-}" != --keep ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
