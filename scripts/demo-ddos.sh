#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A flood, live: a victim behind a bridge, a client and an attacker. A DDoS mitigator on the port of the uplink drops a
# list of sources, then finds the attacker by its rate, lists it and releases it again; the client has answers. Figures
# before and after are shown, and every step is verified. Everything is created in separate namespaces, a separate daemon
# instance and separate directories, and is removed at the end.
#
#   scripts/demo-ddos.sh [--keep]
#
# --keep leaves everything running, to look around, until Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

keep=no

# received is how many packets have reached the victim.
received() { ip -n "$machine-host1" -s -j link show eth0 | jq -r '.[0].stats64.rx.packets'; }

# dropped prints how many packets the mitigator has dropped.
dropped() { polycubectl ddos1 show stats pkts </dev/null; }

# flood SECONDS KIND sends small datagrams from host3 to the victim, from one source or from random ones, and shows how many
# arrive.
flood() {
	local seconds=$1 kind=$2 before now drops begin took
	before=$(received)
	drops=$(dropped)
	begin=$(now_ms)
	host 3 bin/flood -from "$kind" -to 10.0.0.1 -mac "$victim" -for "${seconds}s" eth0 >"$state/flood" || die "the flood: $(cat "$state/flood")"
	took=$(($(now_ms) - begin))
	now=$(received)
	printf '  %-34s %9s packets sent, %9s dropped, %9s reached the victim: %s per second\n' "$kind" "$(cat "$state/flood")" \
		$(($(dropped) - drops)) $((now - before)) $(((now - before) * 1000 / took))
	reached=$((now - before))
}

# lists ADDRESS succeeds if it is listed automatically.
lists() { polycubectl ddos1 show detected -json </dev/null | jq -e --arg ip "$1" 'any(.[]; .ip == $ip)'; }
# lists_not ADDRESS is the opposite.
lists_not() { ! lists "$1"; }

# announced succeeds if the events have both.
announced() { grep -q 'was listed' "$state/background" && grep -q 'was released' "$state/background"; }

build() {
	say "A victim (host1), a client (host2) and an attacker (host3) on a bridge, and a mitigator at each of the outer ports."
	new_host 1 10.0.0.1/24
	new_host 2 10.0.0.2/24
	new_host 3 10.0.0.3/24
	start_daemon
	ctl simplebridge add br1
	ctl br1 ports add victim peer=veth1
	ctl br1 ports add client peer=veth2
	ctl br1 ports add attacker peer=veth3
	ctl ddosmitigator add ddos1
	ctl attach ddos1 br1:attacker
	victim=$(ip -n "$machine-host1" -j link show eth0 | jq -r '.[0].address')
	reach 2 10.0.0.1 "the victim"
	reach 3 10.0.0.1 "the victim"
}

show_lists() {
	say "Without a list, everything arrives."
	flood 2 10.0.0.66
	local before=$reached
	[ "$before" -gt 1000 ] || die "the flood did not reach the victim"
	say "With its prefix in a list, nothing does."
	ctl ddos1 blacklist-src add 10.0.0.64/26 lifetime=3600
	flood 2 10.0.0.66
	[ "$reached" -lt $((before / 100 + 100)) ] || die "$reached packets reached the victim"
	ctl ddos1 show blacklist-src
	expect "the entry counts what it drops" '^10\.0\.0\.64/26 .* [1-9][0-9]{3,} '
	reach 2 10.0.0.1 "the victim"
	ctl ddos1 blacklist-src del 10.0.0.64/26
}

show_automatic() {
	say "Automatic: sources above 2000 packets per second are listed for 5 seconds. The client sends less."
	in_background "$machine" polycubectl events ddos1 --type cube
	ctl ddos1 set auto-src-packets=2000
	ctl ddos1 set auto-lifetime=5
	flood 3 10.0.0.67
	eventually 5 "the attacker is listed" lists 10.0.0.67
	ctl ddos1 show detected
	expect "with the rate that it exceeded" '^SRC +10\.0\.0\.67 +PACKETS +[0-9]{4,} '
	reach 2 10.0.0.1 "the victim"
	reach 3 10.0.0.1 "the victim, with another address"
	say "It is released when its time is over."
	eventually 20 "the attacker is released" lists_not 10.0.0.67
	eventually 5 "both were announced as events" announced
	grep -E 'was (listed|released)' "$state/background"
}

show_random() {
	say "Forged sources: each sends little, so none is listed. The limit for the destination protects what is behind the victim."
	ctl ddos1 set auto-lifetime=5
	flood 3 random
	local before=$reached
	ctl ddos1 set auto-dst-packets=5000
	flood 3 random
	[ "$reached" -lt $((before * 9 / 10)) ] || die "$reached packets reached the victim, $before before"
	ctl ddos1 show detected
	expect "the victim is listed as a destination" '^DST +10\.0\.0\.1 +PACKETS '
	reach 2 10.0.0.1 "the victim, by another port"
	ctl cubes show ddos1 stats
}

main() {
	case "${1:-}" in
	'') ;;
	--keep) keep=yes ;;
	*) die "unknown option $1; usage: scripts/demo-ddos.sh [--keep]" ;;
	esac
	lab_begin ddos
	build
	show_lists
	show_automatic
	show_random
	if [ $keep = yes ]; then lab_keep; fi
	say "Cleaning up."
	ctl del ddos1
	ctl del br1
	ctl cubes show
	expect "nothing is left" '^(\{\})?$'
	say "The demo succeeded, in $SECONDS s."
}

main "$@"
