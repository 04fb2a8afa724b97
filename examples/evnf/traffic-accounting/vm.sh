#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Traffic accounting on two virtual machines whose netdevs are virtio, with the functions in their drivers. `make test-vm`
# boots the machines and runs this script in both:
#
#   vm.sh firewall     eth0 leads to the client, eth1 to the other machine
#   vm.sh accounting   eth0 leads to the other machine. The server is behind this one, and the client, with eth1, too
#
# The accounting machine directs the firewall machine by words that it sends to a TCP port. The script configures its machine
# as a whole and removes nothing: run it in a virtual machine that is thrown away.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh

here=examples/evnf/traffic-accounting
lab=${1:-vm}
port=10.3.0.1:7 # where the firewall machine listens

# router [NETDEV ADDRESS/LENGTH]... configures the machine.
router() {
	local all=/proc/sys/net/ipv4
	echo 0 >$all/conf/all/rp_filter
	echo 1 >$all/ip_forward
	ip link set lo up
	while [ $# -gt 0 ]; do
		ip addr add "$2" dev "$1"
		ip link set "$1" up
		echo 0 >"$all/conf/$1/rp_filter"
		shift 2
	done
}

# daemon FILE starts the daemon, and loads functions.
daemon() {
	say "The functions of this machine, in the driver."
	polycubed --configfile /dev/null >>"$state/log" 2>&1 &
	background+=($!)
	eventually 30 "the daemon answers" answers_or_ended $!
	polycubectl version >/dev/null || die "the daemon ended"
	ctl apply -f "$1"
}

# answers_or_ended PID succeeds if the daemon answers, or is no more.
answers_or_ended() { polycubectl version || ! kill -0 "$1"; }

# native NETDEV succeeds if its driver runs the program.
native() { ip -j -d link show "$1" | jq -e '.[0].xdp.mode == 1' >/dev/null || die "XDP is not in the driver of $1: $(ip -d link show "$1")"; }

# tell WORD has the firewall machine do its part. It listens when it has done the part before.
tell() { eventually 60 "the firewall machine hears: $1" socat -u SYSTEM:"echo $1" "TCP:$port,connect-timeout=5"; }

# heard prints the next word of the other machine.
heard() { timeout $((patience * 3)) socat -u "TCP-LISTEN:${port#*:},bind=${port%:*},reuseaddr" -; }

# next WORD waits for a word.
next() {
	local word
	word=$(heard) || die "waited for \"$1\" in vain"
	[ "$word" = "$1" ] || die "heard \"$word\" and not \"$1\""
	say "The other machine says: $1"
}

# gates succeeds if the rules are in the fast path of both directions.
gates() { shows OPEN efw-in status show gate && shows OPEN efw-out status show gate; }

firewall() {
	local stack all
	router eth0 10.1.0.254/24 eth1 10.3.0.1/24
	ip route add 10.2.0.0/24 via 10.3.0.2
	iptables-legacy-restore <$here/firewall.rules
	daemon $here/xdp/firewall.yaml
	native eth0
	native eth1
	ok "both netdevs of virtio run the functions in the driver"
	eventually 30 "the rules are in the fast path" gates
	next begin

	next "a page was read"
	stack=$(iptables-legacy -L FORWARD 1 -nvx | awk '{ print $1 }')
	all=$(polycubectl efw-in chain show IPV4 FORWARD 1 packets </dev/null)
	ctl efw-in report show
	expect "the report says why a rule stays in the stack" 'NO .*-m limit'
	ctl efw-in environment show
	ctl cubes show efw-in stats
	[ "$all" -ge 4 ] || die "only $all packets of requests were counted"
	[ "$stack" -lt "$all" ] || die "all $all packets of requests took the stack"
	ok "of $all packets of requests, the stack has seen $stack; the others left in the driver"
	[ "$(fate efw-in redirected)" -gt 0 ] || die "no packet was redirected"

	next "port 81 was tried"
	[ "$(fate efw-in policy)" -gt 0 ] || die "the policy dropped no packet in front of the stack"
	ok "the policy has dropped $(fate efw-in policy) packets in the driver"
	iptables-legacy -I FORWARD -s 10.1.0.1 -p tcp --dport 80 -j DROP
	eventually 30 "the new rule is compiled" shows '10\.1\.0\.1.*DROP +YES' efw-in report show
	eventually 30 "and in the fast path" gates
	next "port 80 was tried"
	[ "$(fate efw-in rule)" -gt 0 ] || die "the rule dropped no packet in front of the stack"
	ok "the rule has dropped $(fate efw-in rule) packets in the driver"
	next end
}

# client COMMAND... runs a command on the client.
client() { nsenter --net=/run/netns/client -- "$@"; }

# closed PORT WORD tries a port of the server that the firewall refuses.
closed() { ! client curl -sS -m 10 -o /dev/null "http://10.2.0.1:$1/" 2>/dev/null || die "port $1 was reached"; }

# hosts creates the client and the server, with a web server.
hosts() {
	local name
	for name in client server; do ip netns add $name && ip -n $name link set lo up; done
	ip link set eth1 netns client
	ip -n client addr add 10.1.0.1/24 dev eth1
	ip -n client link set eth1 up
	ip -n client route add default via 10.1.0.254
	ip link add veth0 type veth peer name eth0 netns server
	ip -n server addr add 10.2.0.1/24 dev eth0
	ip -n server link set eth0 up
	ip -n server route add default via 10.2.0.254
	mkdir "$state/web"
	cat >"$state/nginx.conf" <<-END
		user root;
		error_log stderr;
		pid $state/web/pid;
		events { }
		http {
			access_log off;
			client_body_temp_path $state/web/1;
			proxy_temp_path $state/web/2;
			fastcgi_temp_path $state/web/3;
			uwsgi_temp_path $state/web/4;
			scgi_temp_path $state/web/5;
			server { listen 80; root /usr/share/common-licenses; }
		}
	END
	in_background server nginx -p "$state" -c "$state/nginx.conf" -g 'daemon off;'
}

# page reads a page.
page() { client curl -sS -m 60 -o "$state/page" http://10.2.0.1/GPL-2 && cmp "$state/page" /usr/share/common-licenses/GPL-2; }

# accounted succeeds if the packets of both directions are in the account of the protocol.
accounted() { [ "$(polycubectl dpi protocol HTTP show packets </dev/null)" -gt 8 ]; }

accounting() {
	hosts
	router eth0 10.3.0.2/24 veth0 10.2.0.254/24
	ip route add 10.1.0.0/24 via 10.3.0.1
	daemon $here/xdp/accounting.yaml
	native eth0
	ok "the netdev of virtio runs the function in the driver"
	mkdir -p /run/polycube-ndpi
	polycube-ndpi --cube dpi >>"$state/background" 2>&1 &
	background+=($!)
	eventually 30 "the classifier is there" shows UP dpi classifier show status
	tell begin

	say "The client reads a page, through the firewall on the other machine."
	eventually 60 "the client reads the page" page
	eventually 30 "the flow is one of HTTP" shows HTTP dpi flow show
	eventually 30 "both directions are accounted" accounted
	ctl dpi flows
	tell "a page was read"

	say "What a rule cannot decide in front of the stack is left to it, and what no rule accepts is dropped."
	client ping -n -c 3 -w "$patience" 10.2.0.1 | grep ' 3 received' || die "the server does not answer echo requests"
	ok "the client reaches the server: -m limit decides in the stack"
	closed 81
	tell "port 81 was tried"
	# The firewall machine has changed its firewall when it listens again, and has nothing to say until port 80 was tried.
	eventually 30 "the firewall has changed" refuses
	tell "port 80 was tried"
	ctl dpi protocol HTTP show
	ctl cubes show dpi stats
	tell end
}

# refuses succeeds if a page cannot be read any more.
refuses() { ! client curl -sS -m 10 -o /dev/null http://10.2.0.1/GPL-2; }

main() {
	case $* in firewall | accounting) ;; *) die "usage: vm.sh firewall|accounting" ;; esac
	[ -e .guest/plan.json ] || die "this is no machine of make test-vm"
	state=$(mktemp -d)
	export PATH=$PWD/bin:$PATH HOME=$state
	trap 'status=$?; [ $status -eq 0 ] || tail -n 20 "$state"/[lb]*; kill "${background[@]}"' EXIT
	"$1"
	say "The machine $1 succeeded, in $SECONDS s."
}

main "$@"
