#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A web service: a firewall of iptables and a load balancer, HAProxy, each with a fast path, in front of two servers with
# nginx, on one machine or on two. See README.md.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."
# shellcheck source=scripts/lab.sh
. scripts/lab.sh
# shellcheck source=examples/evnf/switch.sh
. examples/evnf/switch.sh

here=examples/evnf/web-service
# shellcheck source=examples/evnf/places.sh
. examples/evnf/places.sh
with_switch="the machines and servers"
proxy='' # process of HAProxy
chain='' # of iptables, which decides on the service

# at FUNCTION goes to the machine of a function.
at() {
	case $1 in
	firewall) on_machine "${machines[0]}" ;;
	balancer) on_machine "$second" ;;
	esac
}

# server N creates a host that is connected to the switch.
server() {
	local ns=${machines[0]}-host$1
	namespace "$ns"
	hosts+=("$ns")
	ip -n "$ns" link set lo up
}

# network creates the machines and hosts, and what is between them.
network() {
	local servers=("${machines[0]}-host2" eth0 "${machines[0]}-host3" eth0)
	new_host 1 10.1.0.1/24 10.1.0.254
	ip -n "$machine" link set lo up
	named "$machine" veth1 eth0
	server 2
	server 3
	if [ "$count" = 1 ]; then
		say "A client, a router with a firewall and a load balancer, and two servers. Before these is a switch: $kind."
		second=$machine chain=INPUT
		switch_between "$kind" "$machine" eth1 "${servers[@]}"
	else
		say "A client, a router with a firewall, a load balancer, and two servers. Between them is a switch: $kind."
		second=$machine-2 chain=FORWARD
		new_machine "$second"
		ip -n "$second" link set lo up
		switch_between "$kind" "${machines[0]}" eth1 "$second" eth0 "${servers[@]}"
		address "$second" 10.3.0.1
	fi
	at firewall
	ip -n "$machine" addr add 10.1.0.254/24 dev eth0
	ip -n "$machine" addr add 10.3.0.254/24 dev eth1
	[ "$count" = 2 ] || ip -n "$machine" addr add 10.3.0.1/32 dev eth1
	inside "$machine" tee /proc/sys/net/ipv4/conf/{all,eth0,eth1}/rp_filter >/dev/null <<<0
	inside "$machine" tee /proc/sys/net/ipv4/ip_forward >/dev/null <<<1
	address "${machines[0]}-host2" 10.3.0.11
	address "${machines[0]}-host3" 10.3.0.12
}

# address NAMESPACE ADDRESS is one behind the switch.
address() {
	ip -n "$1" addr add "$2/24" dev eth0
	ip -n "$1" route add default via 10.3.0.254
}

# nginx_of N has a server with nginx.
nginx_of() {
	local dir=$state/nginx$1
	mkdir -p "$dir/root"
	echo "server $1" >"$dir/root/index.html"
	head -c 1000000 /dev/urandom >"$dir/root/large"
	chmod -R a+rX "$state" # nginx reads as another user
	cat >"$dir/nginx.conf" <<-END
		daemon off;
		pid $dir/pid;
		error_log $dir/log;
		events {}
		http {
			access_log off;
			client_body_temp_path $dir/body;
			proxy_temp_path $dir/proxy;
			fastcgi_temp_path $dir/fastcgi;
			uwsgi_temp_path $dir/uwsgi;
			scgi_temp_path $dir/scgi;
			server {
				listen 8080;
				root $dir/root;
			}
		}
	END
	in_background "${machines[0]}-host$1" nginx -p "$dir" -e "$dir/log" -c "$dir/nginx.conf"
}

# start_proxy has HAProxy begin.
start_proxy() {
	in_background "$second" haproxy -db -f "$state/haproxy.cfg"
	proxy=${background[-1]}
}

# page prints the page of the service.
page() { host 1 curl -sS -m 5 http://10.3.0.1/; }

# balanced succeeds if both servers give pages.
balanced() { [ "$(for _ in 1 2 3 4; do page; done | sort -u | wc -l)" = 2 ]; }

# opened prints how many sessions the fast path has opened.
opened() { polycubectl lb sessions show opened </dev/null; }

# refused succeeds if the service cannot be reached, and the fast path has dropped packets by a rule.
refused() {
	! page 2>/dev/null || die "the service was reached"
	[ "$(fate efw-in rule)" -gt 0 ]
}

# apply FILE loads functions of the machine, whose daemon reads the configuration of HAProxy where a container has it, too.
apply() {
	local from=$state
	if [ -n "$containers" ]; then
		cp "$state/haproxy.cfg" "$state/$instance/state"
		from=/var/lib/polycube
	fi
	sed "s|/etc/haproxy|$from|" "$here/$1" >"$state/topology.yaml"
	ctl apply -f "$state/topology.yaml"
}

# take_over loads the functions while a file is read through HAProxy.
take_over() {
	say "The fast paths begin while the client reads a file through HAProxy."
	host 1 curl -sS --limit-rate 300k -o "$state/large" http://10.3.0.1/large &
	local reader=$!
	at firewall
	start_daemon
	if [ "$count" = 1 ]; then
		apply topology.yaml
	else
		apply "$hook/firewall.yaml"
		at balancer
		start_daemon
		apply "$hook/balancer.yaml"
	fi
	at firewall
	eventually 30 "the rules are in the fast path of both directions" shows OPEN efw-in status show gate
	eventually 30 "and of answers" shows OPEN efw-out status show gate
	at balancer
	ctl lb frontend show
	expect "the frontend web is taken over" 'web .*true'
	ctl lb report show
	expect "the report says why the other one is not" 'PREVENTS.*tcp-request'
	eventually 30 "the first server is up" shows UP lb server show 10.3.0.1 80 10.3.0.11 8080 state
	eventually 30 "the second server is up" shows UP lb server show 10.3.0.1 80 10.3.0.12 8080 state
	wait $reader || die "the download was interrupted"
	cmp "$state/large" "$state/nginx2/root/large" 2>/dev/null || cmp "$state/large" "$state/nginx3/root/large" || die "the file was damaged"
	ok "the file that was read through HAProxy meanwhile is complete"
}

# use has the client read pages past HAProxy.
use() {
	say "New connections pass iptables and HAProxy in the kernel."
	local before
	before=$(opened)
	eventually 30 "both servers answer" balanced
	[ "$(opened)" -ge $((before + 4)) ] || die "the fast path has opened $(opened) sessions, $before before"
	ok "the fast path has opened $(($(opened) - before)) sessions"
	ctl lb server show
	at firewall
	ctl efw-in report show
	if [ "$count" = 1 ]; then
		expect "the rule of the service is known, and elb takes what it accepts" 'INPUT +1 .*dport 80.*accepted'
	else
		expect "the rule of the service is in the fast path" 'dport 80.*YES'
	fi
}

main() {
	parse "$@"
	lab_begin web
	in_containers
	network
	inside "${machines[0]}" iptables-legacy-restore <$here/firewall.rules
	cp $here/haproxy.cfg "$state"
	nginx_of 2
	nginx_of 3
	start_proxy
	reach 1 10.3.0.1 "the load balancer"
	eventually 30 "host1 reads pages of both servers through HAProxy" balanced
	take_over
	use

	say "HAProxy is killed. Services that are taken over do not notice."
	kill -9 "$proxy"
	{ wait "$proxy" || true; } 2>/dev/null
	[ -z "$(inside "$second" ss -Hltn 'sport = :80')" ] || die "HAProxy still listens"
	eventually 30 "both servers answer" balanced
	start_proxy

	say "The firewall is changed as before, and the fast path follows."
	inside "$machine" iptables-legacy -I "$chain" -s 10.1.0.1 -p tcp --dport 80 -j DROP
	eventually 30 "the new rule is compiled" shows '10\.1\.0\.1.*DROP +YES' efw-in report show
	eventually 30 "and in the fast path" shows OPEN efw-in status show gate
	eventually 30 "the service cannot be reached any more" refused

	[ -z "$keep" ] || lab_keep
	say "The example succeeded, in $SECONDS s."
}

main "$@"
