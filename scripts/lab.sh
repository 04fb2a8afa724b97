# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Shared by the demo and the examples: a machine and its hosts, which are network namespaces, a separate daemon instance
# and directories, checks that print their results, and a cleanup that removes all of this and nothing else. It is
# sourced by a script that has set `set -euo pipefail` and the directory of the repository.
#
# lab_begin NAME creates the machine; the daemon runs in it, and hosts created by new_host are connected to it. With
# new_machine there are several: all functions refer to the one that on_machine has chosen.

bold='' green='' red='' plain=''
if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then
	bold=$'\e[1m' green=$'\e[32m' red=$'\e[31m' plain=$'\e[0m'
fi

lab=lab       # the name of the script, for messages
instance=     # of the daemon
machine=      # its namespace
state=        # directory of all files
daemon=       # process
machines=()   # namespaces of all machines
hosts=()      # namespaces of the hosts
background=() # processes to end
declare -A daemons

# With emulated CPUs, everything takes many times longer: waits have this limit in seconds, and streams of packets are
# longer too, so that they outlast a change.
patience=$(awk -v scale="${POLYCUBE_TIME_SCALE:-1}" 'BEGIN { printf "%d", 20 * scale }')
export longer=1 # demo.sh reads it
[ "$patience" -le 20 ] || longer=4

say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }
ok() { printf '%s  ok: %s%s\n' "$green" "$*" "$plain"; }
die() {
	printf '%s%s: %s%s\n' "$red" "$lab" "$*" "$plain" >&2
	exit 1
}

# host N COMMAND... runs a command on a host; bpffs and all other mounts remain visible.
host() { nsenter --net="/run/netns/${machines[0]}-host$1" -- "${@:2}"; }

# inside NAMESPACE COMMAND... does the same in any namespace.
inside() { nsenter --net="/run/netns/$1" -- "${@:2}"; }

# ctl runs polycubectl and shows the command and its output; the output is also in $output.
ctl() {
	printf '$ polycubectl %s\n' "$*"
	output=$(polycubectl "$@" </dev/null) || die "polycubectl $* ended with $?: $output"
	[ -z "$output" ] || printf '%s\n' "$output"
}

# expect WHAT PATTERN checks the output of the last ctl.
expect() {
	grep -Eq -e "$2" <<<"$output" || die "not shown: $1 (no line matches $2)"
	ok "$1"
}

# fate CUBE NAME prints the number of packets with a fate in a cube.
fate() {
	polycubectl cubes show "$1" stats -json </dev/null |
		jq -er --arg name "$2" '.fates[] | select(.name == $name) | .packets'
}

# sent CUBE PORT prints the number of packets that a port has sent.
sent() {
	polycubectl cubes show "$1" stats -json </dev/null |
		jq -er --arg name "$2" '.ports[] | select(.name == $name) | .["tx-packets"]'
}

# now_ms is the time since boot in milliseconds.
now_ms() { awk '{ printf "%d\n", $1 * 1000 }' /proc/uptime; }

# eventually SECONDS WHAT COMMAND... repeats a command until it succeeds.
eventually() {
	local until=$(($(now_ms) + $1 * patience * 1000 / 20)) what=$2
	shift 2
	until "$@" >"$state/eventually" 2>&1; do
		[ "$(now_ms)" -lt "$until" ] || die "not in time: $what: $(cat "$state/eventually")"
		sleep 0.1
	done
	ok "$what"
}

# shows PATTERN WORDS... succeeds if polycubectl prints a line that matches.
shows() { polycubectl "${@:2}" </dev/null | grep -Eq -e "$1"; }

# answered COUNT reads the output of ping, and prints how many of the first COUNT requests were answered. With -W, ping
# hardly waits longer for the last replies than for earlier ones, and a busy machine would lose them; with -w it sends
# more requests meanwhile.
answered() {
	sed -n 's/^[0-9]* bytes from .* icmp_seq=\([0-9]*\) .*/\1/p' | awk -v count="$1" '$1 <= count && !seen[$1]++ { n++ } END { print n + 0 }'
}

# answers FROM ADDRESS COUNT INTERVAL sends echo requests, and prints how many were answered.
answers() { host "$1" ping -n -c "$3" -i "$4" -w "$patience" "$2" | answered "$3" || true; }

# reach FROM ADDRESS [WHAT] sends three echo requests, all of which must be answered.
reach() {
	local n
	n=$(answers "$1" "$2" 3 0.05)
	[ "$n" -gt 0 ] || die "host$1 does not reach $2"
	[ "$n" -eq 3 ] || die "host$1 to $2: 3 packets transmitted, $n received"
	ok "host$1 reaches ${3:-$2}: 3 packets transmitted, 3 received"
}

# launch starts the daemon's process, whose state is in $state/$instance/state. An example may redefine it.
launch() {
	mkdir -p "$state/$instance"
	nsenter --net="/run/netns/$machine" -- polycubed --configfile /dev/null --instance "$instance" \
		--state-dir "$state/$instance/state" --run-dir "/run/polycube/$instance" >>"$state/log" 2>&1 &
}

start_daemon() {
	launch
	daemon=$!
	daemons[$machine]=$daemon
	local until=$(($(now_ms) + patience * 1000))
	until polycubectl version </dev/null >/dev/null 2>&1; do
		kill -0 "$daemon" 2>/dev/null || die "the daemon ended: $(cat "$state/log")"
		[ "$(now_ms)" -lt "$until" ] || die "no answer from the daemon in $patience s: $(cat "$state/log")"
		sleep 0.02
	done
}

stop_daemon() {
	[ -n "$daemon" ] || return 0
	kill "-$1" "$daemon" 2>/dev/null || true
	wait "$daemon" 2>/dev/null || true
	daemon=
	daemons[$machine]=
}

# in_background NAMESPACE COMMAND... starts a process that ends with the script; it writes to $state/background.
in_background() {
	nsenter --net="/run/netns/$1" -- "${@:2}" >>"$state/background" 2>&1 &
	background+=($!)
}

# clean_up removes everything that this run created and nothing else; it may be called at any point.
clean_up() {
	local status=$? pid name
	trap - EXIT INT TERM HUP
	for pid in "${background[@]}"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	for name in log background; do
		if [ $status -ne 1 ] || [ ! -s "$state/$name" ]; then continue; fi
		printf '%s: the last lines of %s:\n' "$lab" "$name" >&2
		tail -n 20 "$state/$name" >&2
	done
	for name in "${machines[@]}"; do
		on_machine "$name"
		clean_up_machine || status=1
	done
	for name in "${hosts[@]}" "${machines[@]}"; do
		[ ! -e "/run/netns/$name" ] || ip netns del "$name" || status=1
	done
	rm -rf "$state"
	exit $status
}

# clean_up_machine ends the daemon of the machine, and removes what it keeps in the kernel.
clean_up_machine() {
	local status=0
	stop_daemon TERM
	if [ -e "/run/netns/$machine" ]; then
		inside "$machine" polycubed cleanup --configfile /dev/null --instance "$instance" \
			--state-dir "$state/$instance/state" --run-dir "/run/polycube/$instance" >"$state/cleanup" 2>&1 ||
			{ cat "$state/cleanup" >&2 && status=1; }
	fi
	if [ -e "/sys/fs/bpf/polycube-$instance" ]; then
		echo "$lab: pins are left in /sys/fs/bpf/polycube-$instance" >&2
		status=1
	fi
	rm -rf "/run/polycube/$instance"
	return $status
}

# namespace NAME creates a namespace without IPv6, whose own packets would disturb the counters.
namespace() {
	ip netns add "$1"
	[ ! -d /proc/sys/net/ipv6 ] || inside "$1" tee /proc/sys/net/ipv6/conf/{all,default}/disable_ipv6 >/dev/null <<<1
}

# new_host N [ADDRESS/LENGTH [GATEWAY]] creates a host, a network namespace with a wire to the machine: vethN.
new_host() {
	local ns=${machines[0]}-host$1
	namespace "$ns"
	hosts+=("$ns")
	ip -n "$machine" link add "veth$1" type veth peer name eth0 netns "$ns"
	ip -n "$machine" link set "veth$1" up
	ip -n "$ns" link set lo up
	ip -n "$ns" link set eth0 up
	[ -z "${2:-}" ] || ip -n "$ns" addr add "$2" dev eth0
	[ -z "${3:-}" ] || ip -n "$ns" route add default via "$3"
	echo "host$1: ${2:-no address yet} behind veth$1"
}

# lab_begin NAME creates the machine and prints its directories.
lab_begin() {
	lab=$1
	[ "$(id -u)" -eq 0 ] || die "it makes network namespaces: run it as root"
	if ! [ -x bin/polycubed ] || ! [ -x bin/polycubectl ]; then
		die "bin/polycubed and bin/polycubectl are missing: run make build"
	fi
	scripts/bpffs.sh
	trap clean_up EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	state=$(mktemp -d)
	# The user's own settings are for another daemon.
	export PATH=$PWD/bin:$PATH HOME=$state
	unset POLYCUBECTL_URL POLYCUBECTL_SOCKET
	new_machine "pcn-$1-$$"
}

# new_machine NAMESPACE creates a machine, and goes there.
new_machine() {
	machines+=("$1")
	on_machine "$1"
	namespace "$1"
}

# on_machine NAMESPACE goes to another machine: the daemon, polycubectl and new hosts are those of this one.
on_machine() {
	machine=$1
	instance=${1#pcn-}
	daemon=${daemons[$1]:-}
	export POLYCUBECTL_INSTANCE=$instance
}

# lab_keep waits until Ctrl-C, so that the user can look around.
lab_keep() {
	say "Everything keeps running until Ctrl-C. In another terminal:"
	printf '  export POLYCUBECTL_INSTANCE=%s PATH=%s/bin:%sPATH\n' "$instance" "$PWD" '$'
	printf '  polycubectl ?\n  nsenter --net=/run/netns/%s-host1 bash\n' "$machine"
	wait "$daemon"
}
