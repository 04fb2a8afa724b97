#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The main use case, live: three hosts behind two chained bridges with a transparent cube on one port. Every step is
# verified, so a demo that ends successfully has shown what it says. Everything is created in separate namespaces, a
# separate daemon instance and separate directories, and is removed at the end: it does not affect other use of the
# machine.
#
#   scripts/demo.sh [--keep]
#
# --keep leaves everything running, to look around, until Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

keep=no
pinger=
streamed=0

# learned CUBE prints the addresses that a bridge has learned and their ports, without their age.
learned() {
	polycubectl "$1" show fdb -json </dev/null | jq -r '.entry[] | "\(.address) \(.port)"' | sort
}

# stream SECONDS starts a ping of 200 packets per second from host1 to host3.
stream() {
	local seconds=$(($1 * longer))
	streamed=$((seconds * 200))
	nsenter --net="/run/netns/$machine-host1" -- \
		ping -n -i 0.005 -c "$streamed" -w $((seconds + patience)) 10.0.0.3 >"$state/ping" 2>&1 &
	pinger=$!
	background+=("$pinger")
}

# stream_end waits for the stream; no packet may be missing.
stream_end() {
	wait "$pinger" || die "the stream: $(tail -n 3 "$state/ping")"
	pinger=
	local got
	got=$(answered "$streamed" <"$state/ping")
	[ "$got" -eq "$streamed" ] || die "$1: $((streamed - got)) of $streamed packets have no answer: $(tail -n 3 "$state/ping")"
	ok "$1: $streamed packets sent, $got answered, none lost"
}

make_hosts() {
	say "Three hosts, each a network namespace with a wire to the machine: veth1, veth2, veth3."
	local i
	for i in 1 2 3; do new_host "$i" "10.0.0.$i/24"; done
}

build_chain() {
	say "Two bridges. host1 and host2 are on br1, host3 is on br2, and a wire connects the bridges."
	ctl simplebridge add br1
	ctl simplebridge add br2
	ctl br1 ports add p1 peer=veth1
	ctl br1 ports add p2 peer=veth2
	ctl br2 ports add p3 peer=veth3
	ctl br1 ports add up
	ctl br2 ports add up
	ctl connect br1:up br2:up
	say "A transparent cube on the port of host1: it sees all packets there."
	ctl transparenthelloworld add th1
	ctl attach th1 br1:p1
}

show_forwarding() {
	say "Real packets."
	reach 1 10.0.0.2 host2
	reach 1 10.0.0.3 host3
	reach 3 10.0.0.2 host2
	say "Status: the topology, the learned addresses, the counters of each port."
	ctl topology
	expect "the bridges are connected" 'up +.* br2:up'
	ctl topology show veth1
	expect "packets from veth1 pass th1 first" '^ingress service chain: th1 ---> br1:p1'
	ctl br1 show fdb
	expect "br1 learned host3 behind its wire to br2" "^$(ip -n "$machine-host3" -j link show eth0 | jq -r '.[].address') +up "
	ctl cubes show br1 stats -hide=fates
	expect "port p1 counted packets in both directions" '^p1( +[1-9][0-9]*){4}'
}

show_drop() {
	say "One packet dropped with a reason: th1 drops packets that enter the port."
	local before after
	ctl th1 set ingress-action=DROP
	before=$(fate th1 ingress-drop)
	! host 1 ping -n -q -c 1 -W 1 10.0.0.3 >/dev/null || die "the ping was answered, though th1 drops"
	after=$(fate th1 ingress-drop)
	echo "packets that th1 dropped, reason ingress-drop: $before before, $after after one ping"
	[ "$after" -gt "$before" ] || die "the drop was not counted"
	ok "the packet was dropped, and the counter gives the reason"
	ctl th1 set ingress-action=PASS
	reach 1 10.0.0.3 host3
}

show_live_changes() {
	say "Live changes, while host1 sends 200 packets per second to host3."
	stream 4
	ctl transparenthelloworld add th2
	ctl attach th2 br2:p3
	ctl topology show veth3
	expect "th2 is on the packets' path" '^ingress service chain: th2 ---> br2:p3'
	ctl br1 set loglevel=DEBUG
	ctl br1 fdb set aging-time=600
	ctl br2 ports add spare
	ctl br2 ports del spare
	ctl br1 set loglevel=INFO
	ctl detach th2 br2:p3
	ctl del th2
	stream_end "eight changes"
}

show_restart() {
	say "kill -9 of the daemon, still under traffic, and a restart."
	local before after killed
	before=$(learned br1)
	stream 5
	stop_daemon KILL
	! polycubectl version </dev/null >/dev/null 2>&1 || die "a daemon answers, though it was killed"
	host 2 ping -n -q -c 10 -i 0.1 10.0.0.3 >/dev/null || die "no traffic without the daemon"
	ok "host2 reaches host3 while there is no daemon"
	killed=$(now_ms)
	start_daemon
	ok "the new daemon answered after $(($(now_ms) - killed)) ms"
	stream_end "killed and restarted"
	after=$(learned br1)
	[ "$before" = "$after" ] || die "learned before: $before; after: $after"
	ok "br1 still knows $(wc -l <<<"$after") addresses"
	ctl topology
	expect "the configuration is back" '^th1 .* br1:p1$'
}

main() {
	case "${1:-}" in
	'') ;;
	--keep) keep=yes ;;
	*) die "unknown option $1; usage: scripts/demo.sh [--keep]" ;;
	esac
	lab_begin demo
	make_hosts
	say "The daemon, as a separate instance: polycubed --instance $instance"
	start_daemon
	ctl version
	build_chain
	show_forwarding
	show_drop
	show_live_changes
	show_restart
	if [ $keep = yes ]; then lab_keep; fi
	say "Cleaning up."
	ctl del th1
	ctl del br1
	ctl del br2
	ctl cubes show
	expect "nothing is left" '^(\{\})?$'
	say "The demo succeeded, in $SECONDS s."
}

main "$@"
