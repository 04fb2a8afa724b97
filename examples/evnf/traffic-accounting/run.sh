#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Traffic accounting: a firewall of iptables that has a fast path, and a classifier that knows what the traffic is, on one
# machine or on two. See README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh
# shellcheck source=examples/evnf/switch.sh
. examples/evnf/switch.sh

here=examples/evnf/traffic-accounting
# shellcheck source=examples/evnf/places.sh
. examples/evnf/places.sh
contained="each daemon and the classifier in a container of its own, by runc"

# at FUNCTION goes to the machine of a function.
at() {
	case $1 in
	firewall) on_machine "${machines[0]}" ;;
	accounting) on_machine "$second" ;;
	esac
}

# address NETDEV ADDRESS/LENGTH gives the machine an address that its firewall alone checks.
address() {
	ip -n "$machine" addr add "$2" dev "$1"
	inside "$machine" tee "/proc/sys/net/ipv4/conf/$1/rp_filter" >/dev/null <<<0
}

# router makes the machine one.
router() {
	ip -n "$machine" link set lo up
	inside "$machine" tee /proc/sys/net/ipv4/conf/all/rp_filter >/dev/null <<<0
	inside "$machine" tee /proc/sys/net/ipv4/ip_forward >/dev/null <<<1
}

# one_machine and two_machines create the client, the server and what is between them.
one_machine() {
	say "A client, a server, and the router between them, which has a firewall."
	second=$machine
	new_host 1 10.1.0.1/24 10.1.0.254
	new_host 2 10.2.0.1/24 10.2.0.254
	router
	address veth1 10.1.0.254/24
	address veth2 10.2.0.254/24
}

two_machines() {
	say "A client, a router with a firewall, a second router, and a server. Between the routers is a switch: $kind."
	new_host 1 10.1.0.1/24 10.1.0.254
	second=$machine-2
	new_machine "$second"
	new_host 2 10.2.0.1/24 10.2.0.254
	named "${machines[0]}" veth1 eth0
	named "$second" veth2 eth1
	switch_between "$kind" "${machines[0]}" eth1 "$second" eth0
	at firewall
	router
	address eth0 10.1.0.254/24
	address eth1 10.3.0.1/24
	ip -n "$machine" route add 10.2.0.0/24 via 10.3.0.2
	at accounting
	router
	address eth1 10.2.0.254/24
	address eth0 10.3.0.2/24
	ip -n "$machine" route add 10.1.0.0/24 via 10.3.0.1
}

# seen_by_rules NUMBER prints how many packets a rule of the chain FORWARD has counted in the stack.
seen_by_rules() { inside "${machines[0]}" iptables-legacy -L FORWARD "$1" -nvx | awk '{ print $1 }'; }

# together CUBE NUMBER prints how many packets a rule has counted in the stack and in front of it.
together() { polycubectl "$1" chain show IPV4 FORWARD "$2" packets </dev/null; }

# refused PORT FATE succeeds if a port of the server cannot be reached, and the fast path has dropped packets with a fate.
refused() {
	! host 1 curl -sS -m 1 -o /dev/null "http://10.2.0.1:$1/" 2>/dev/null || die "port $1 was reached"
	[ "$(fate efw-in "$2")" -gt 0 ]
}

# accounted N succeeds if the packets of HTTP in both directions are more than those of one.
accounted() { [ "$(polycubectl dpi protocol HTTP show packets </dev/null)" -gt "$1" ]; }

# classifier starts nDPI beside the daemon of the machine.
classifier() {
	if [ -n "$containers" ]; then
		contain "$instance-ndpi" polycube-ndpi --cube dpi
		background+=($!)
		return
	fi
	in_background "$machine" polycube-ndpi --cube dpi --socket "/run/polycube/$instance/polycubed.sock" \
		--bpffs "/sys/fs/bpf/polycube-$instance" --control "$state/ndpi.sock" --log "$state/eve.json"
}

# begin starts daemons and the classifier, and loads the functions.
begin() {
	say "The functions are files; nDPI is a process of its own."
	at firewall
	start_daemon
	if [ "$count" = 1 ]; then
		ctl apply -f $here/topology.yaml
	else
		ctl apply -f "$here/$hook/firewall.yaml"
		at accounting
		start_daemon
		ctl apply -f "$here/$hook/accounting.yaml"
	fi
	at accounting
	classifier
	eventually 30 "the classifier is there" shows UP dpi classifier show status
	at firewall
	eventually 30 "the rules are in the fast path of both directions" shows OPEN efw-in status show gate
	eventually 30 "and of answers" shows OPEN efw-out status show gate
}

# read_page reads a page, which the stack of the firewall's machine does not see.
read_page() {
	say "The client reads a page. Its packets pass the firewall in front of the stack, and nDPI recognises them."
	local stack all
	eventually 30 "host1 reads a page" host 1 curl -sS -m 5 -o "$state/page" http://10.2.0.1/GPL-2
	cmp "$state/page" /usr/share/common-licenses/GPL-2 || die "the page was damaged"
	at accounting
	eventually 30 "the flow is one of HTTP" shows 'HTTP' dpi flow show
	ctl dpi flows
	at firewall
	stack=$(seen_by_rules 1)
	all=$(together efw-in 1)
	[ "$all" -ge 4 ] || die "only $all packets of requests were counted"
	[ "$stack" -lt "$all" ] || die "all $all packets of requests took the stack"
	ok "of $all packets of requests, the stack has seen $stack; the others left in front of it"
	at accounting
	eventually 30 "both directions are accounted" accounted "$all"
	at firewall
	[ "$count" = 1 ] || ok "the switch has sent $(switched 1) packets to the firewall and $(switched 2) to the accounting"
	ctl efw-in report show
	expect "the report says why a rule stays in the stack" 'NO .*-m limit'
}

main() {
	parse "$@"
	lab_begin accounting
	[ -x bin/polycube-ndpi ] || die "bin/polycube-ndpi is missing: run make build"
	in_containers
	if [ "$count" = 1 ]; then one_machine; else two_machines; fi
	inside "${machines[0]}" iptables-legacy-restore <$here/firewall.rules
	reach 1 10.2.0.1 "the server"
	in_background "${machines[0]}-host2" python3 -u -m http.server --bind 10.2.0.1 --directory /usr/share/common-licenses 80
	begin
	read_page

	say "What a rule cannot decide in front of the stack is left to it, and what no rule accepts is dropped."
	reach 1 10.2.0.1 "the server: -m limit decides in the stack"
	eventually 30 "the policy drops packets to port 81 in front of the stack" refused 81 policy

	say "The firewall is changed as before, and the fast path follows."
	inside "$machine" iptables-legacy -I FORWARD -s 10.1.0.1 -p tcp --dport 80 -j DROP
	eventually 30 "the new rule is compiled" shows '10\.1\.0\.1.*DROP +YES' efw-in report show
	eventually 30 "and in the fast path" shows OPEN efw-in status show gate
	eventually 30 "the page cannot be read any more" refused 80 rule

	say "Accounts of protocols are complete, although few packets were inspected."
	at accounting
	ctl dpi protocol HTTP show
	ctl dpi statistics show

	[ -z "$keep" ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
