#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The user plane of a 5G network, live: two base stations with two phones, a data network with a web server, and between
# them a router with a UPF that polycube-upf controls. The phones download, one is handed over, one goes idle and is paged,
# and each byte is charged once. The SMF, the base stations and the phones are emulated; their packets, tunnels and PFCP
# are real. Every step is verified. Everything is created in separate namespaces, a separate daemon instance and separate
# directories, and is removed at the end.
#
#   scripts/demo-mgw.sh [--keep]
#
# --keep leaves everything running for inspection until Ctrl-C.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

keep=no
web=198.51.100.2 # the web server
metrics=127.0.0.1:9103

# show COMMAND... runs a command on the machine, and shows it and its output, which is also in $output.
show() {
	printf '$ %s\n' "$*"
	output=$(inside "$machine" "$@" </dev/null 2>&1) || die "$* ended with $?: $output"
	[ -z "$output" ] || printf '%s\n' "$output"
}

# phone N COMMAND... runs a command on a phone.
phone() { inside "$machine-phone$1" "${@:2}"; }

# arrived N prints the number of bytes that a phone has received.
arrived() { ip -n "$machine-phone$1" -s -j link show tun0 | jq -r '.[0].stats64.rx.bytes'; }

# new_phone N creates the namespace of a phone, which has no netdev until it has a session.
new_phone() {
	namespace "$machine-phone$1"
	hosts+=("$machine-phone$1")
	ip -n "$machine-phone$1" link set lo up
}

# downloads N starts a download on a phone, which runs until it is stopped; its process is in $download.
downloads() {
	nsenter --net="/run/netns/$machine-phone$1" -- curl -s -o /dev/null "http://$web/file" &
	download=$!
	background+=("$download")
}

# stops PID ends a download, which must still be running.
stops() {
	kill "$1" 2>/dev/null || die "the download has ended"
	wait "$1" 2>/dev/null || true
}

# quiet returns when the phones receive nothing more.
quiet() {
	local before=
	until [ "$before" = "$(arrived 1) $(arrived 2)" ]; do
		before="$(arrived 1) $(arrived 2)"
		sleep 0.3
	done
}

build() {
	say "Two base stations (host1), a data network (host2), and two phones that are not connected yet."
	ip -n "$machine" link set lo up
	new_host 1 192.0.2.10/24
	ip -n "$machine-host1" addr add 192.0.2.20/24 dev eth0
	new_host 2 "$web/24" 198.51.100.1
	new_phone 1
	new_phone 2
	# Unlike network cards, a veth neither completes checksums in tunnels nor segments superframes.
	inside "$machine" ethtool -K veth1 tx off >/dev/null
	host 1 ethtool -K eth0 tx off >/dev/null
	host 2 ethtool -K eth0 tx off tso off gso off >/dev/null
	# Packets arrive in less than a millisecond here. After a loss, TCP would wait 200 ms for an acknowledgment that
	# does not come, twice the time in which a token bucket fills.
	ip -n "$machine-host2" route change default via 198.51.100.1 rto_min 10ms congctl reno
	start_web
	start_daemon
	say "A router between them, and the UPF at the port to the base stations."
	ctl router add r1
	ctl r1 ports add n3 ip=192.0.2.1/24 peer=veth1
	ctl r1 ports add n6 ip=198.51.100.1/24 peer=veth2
	ctl r1 route add 10.1.0.0/16 192.0.2.10
	ctl upf add u
	ctl u local-address add 192.0.2.1
	ctl attach u r1:n3
	reach 1 192.0.2.1 "the router"
}

# start_web serves a file that takes longer than the demo to download.
start_web() {
	mkdir "$state/www"
	truncate -s 1G "$state/www/file"
	chmod 0755 "$state" "$state/www"
	cat >"$state/nginx.conf" <<-END
		user root;
		worker_processes 1;
		pid $state/nginx.pid;
		error_log stderr;
		events {}
		http {
			access_log off;
			client_body_temp_path $state/www;
			proxy_temp_path $state/www;
			fastcgi_temp_path $state/www;
			uwsgi_temp_path $state/www;
			scgi_temp_path $state/www;
			server { listen 80; root $state/www; }
		}
	END
	in_background "$machine-host2" nginx -p "$state" -c "$state/nginx.conf" -g 'daemon off;'
	eventually 10 "the web server answers" host 2 curl -sfI "http://$web/file"
}

serves() { inside "$machine" polycube-upf status --control "$state/upf.sock"; }

start_core() {
	say "polycube-upf installs the SMF's rules in the tables of u; the SMF sets up an association."
	in_background "$machine" polycube-upf --cube u --address 127.0.0.1 --pool 10.1.0.0/16 --metrics "$metrics" \
		--socket "/run/polycube/$instance/polycubed.sock" --bpffs "/sys/fs/bpf/polycube-$instance" --state-dir "$state/upf" --control "$state/upf.sock"
	eventually 10 "polycube-upf serves N4" serves
	export MOBILE_CONTROL=$state/mobile.sock
	in_background "$machine" mobile -ran "$machine-host1" serve
	eventually 10 "the emulator runs" test -S "$MOBILE_CONTROL"
	show mobile associate
	show polycube-upf status --control "$state/upf.sock"
	expect "the association is up" '^127\.0\.0\.2 .* UP '
}

show_sessions() {
	say "Two phones attach: the UPF allocates their addresses, and limits their sessions to 20 and 5 Mbit/s."
	show mobile attach phone1 "$machine-phone1" 20000
	address1=$(sed -n 's/.* address \([0-9.]*\),.*/\1/p' <<<"$output")
	show mobile attach phone2 "$machine-phone2" 5000
	address2=$(sed -n 's/.* address \([0-9.]*\),.*/\1/p' <<<"$output")
	ctl u show device
	expect "phone1 is known by its address" "^$address1 "
	expect "phone2, too" "^$address2 "
	eventually 10 "phone1 reaches the web server" phone 1 ping -n -c 1 -W 1 "$web"
	eventually 10 "phone2 reaches the web server" phone 2 ping -n -c 1 -W 1 "$web"
}

# rate WHAT BYTES MILLISECONDS KBIT shows a rate, and fails if it is not within 10 % of its limit.
rate() {
	local kbit=$(($2 * 8 / $3))
	printf '  %s: %d bytes in %d ms: %d kbit/s of %d\n' "$1" "$2" "$3" $kbit "$4"
	[ $kbit -ge $(($4 * 9 / 10)) ] && [ $kbit -le $(($4 * 11 / 10)) ]
}

# at_rates measures what both phones receive in 3 seconds, and fails if one does not get its rate.
at_rates() {
	local begin first second took right=0
	begin=$(now_ms) first=$(arrived 1) second=$(arrived 2)
	sleep 3
	took=$(($(now_ms) - begin)) first=$(($(arrived 1) - first)) second=$(($(arrived 2) - second))
	rate phone1 "$first" "$took" 20000 || right=1
	rate phone2 "$second" "$took" 5000 || right=1
	return $right
}

show_rates() {
	say "Both phones download at the same time, each at its own rate limit."
	local one two tries=0
	downloads 1
	one=$download
	downloads 2
	two=$download
	sleep 1
	until at_rates; do # TCP takes longer to converge if the machine is busy
		tries=$((tries + 1))
		[ $tries -lt 5 ] || die "a phone is not within 10 % of its rate limit"
	done
	ok "each is within 10 % of its rate limit"
	stops "$one"
	stops "$two"
	ctl drops u
	expect "the UPF counts dropped packets by reason" '^u +exceeded +[1-9]'
}

show_way() {
	say "The path of a packet: the topology, and a trace of packets to phone1's address."
	local tracer
	ctl topology
	expect "the UPF is attached to the port to the base stations" '^u .* r1:n3$'
	polycubectl trace "host $address1" -c 3 -t 10 </dev/null >"$state/trace" 2>&1 &
	tracer=$!
	background+=("$tracer")
	eventually 10 "a traced ping" traced
	wait "$tracer" || die "the trace: $(cat "$state/trace")"
	printf "$ polycubectl trace 'host %s' -c 3\n" "$address1"
	cat "$state/trace"
}

# traced sends a ping, and succeeds when it was traced.
traced() {
	phone 1 ping -n -c 1 -W 1 "$web"
	grep -q "$address1" "$state/trace"
}

show_handover() {
	say "phone1 is handed over to the second base station while it downloads."
	local one before
	downloads 1
	one=$download
	before=$(arrived 1)
	eventually 10 "phone1 downloads" more_than 1000000 "$before"
	show mobile handover phone1 2
	expect "the old base station receives the End Marker last" ' 0 packets after it$'
	before=$(arrived 1)
	eventually 10 "the same download continues" more_than 2000000 "$before"
	stops "$one"
	ctl u show device "$address1"
	expect "packets for phone1 go to the second base station" '192\.0\.2\.20'
}

# more_than BYTES SINCE succeeds when phone1 has received more than BYTES since its counter was SINCE.
more_than() { [ $(($(arrived 1) - $2)) -gt "$1" ]; }

show_paging() {
	say "phone2 goes idle. The UPF buffers a packet to it, the SMF pages the phone, and the ping is answered."
	show mobile idle phone2
	host 2 ping -n -c 1 -W 10 "$address2" >"$state/ping" 2>&1 &
	local pinger=$!
	background+=("$pinger")
	eventually 5 "a packet is buffered" shows '^[1-9]' u buffer show packets
	wait "$pinger" || die "the idle phone does not answer: $(cat "$state/ping")"
	grep 'bytes from' "$state/ping"
	grep phone2 "$state/background"
	ok "the packet was buffered until the phone was connected again"
	ctl u show buffer
}

show_usage() {
	say "Usage: the bytes that the UPF has reported, and those counted by the phones' own netdevs."
	quiet
	show mobile usage
	expect "each byte was reported exactly once" "^phone2 +$address2 "
	say "Prometheus metrics."
	show sh -c "curl -sf http://$metrics/metrics | grep -v '^#'"
	expect "there are two sessions" '^polycube_upf_sessions 2$'
	show mobile detach phone1
	show mobile detach phone2
	show polycube-upf status --control "$state/upf.sock"
	expect "no session is left" '^sessions +0$'
}

main() {
	case "${1:-}" in
	'') ;;
	--keep) keep=yes ;;
	*) die "unknown option $1; usage: scripts/demo-mgw.sh [--keep]" ;;
	esac
	lab_begin mgw
	build
	start_core
	show_sessions
	show_rates
	show_way
	show_handover
	show_paging
	if [ $keep = yes ]; then
		printf '\nThe emulator: MOBILE_CONTROL=%s bin/mobile COMMAND (see test/ran/cmd/mobile/main.go)\n' "$MOBILE_CONTROL"
		lab_keep
	fi
	show_usage
	say "Cleaning up."
	ctl del u
	ctl del r1
	ctl cubes show
	expect "nothing is left" '^(\{\})?$'
	say "The demo succeeded, in $SECONDS s."
}

main "$@"
