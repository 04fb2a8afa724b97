// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// transfer sends data to iperf3 through the machine, and returns the packets that were redirected, and those that the chain FORWARD
// of a program of iptables has counted.
func (d *daemon) transfer(program string, from *netns.Node, to string) (past, judged uint64) {
	d.t.Helper()
	redirected := func() uint64 { return d.Stats("pcn-iptables").Fate(d.t, "redirected") }
	before := redirected()
	d.inPlaceOfIptables(program + " -Z FORWARD")
	prints(d.t, from, "iperf Done", "iperf3", "-c", to, "-n", "5M")
	for _, rule := range regexp.MustCompile(`(?m)^ *(\d+) +\d+ ACCEPT`).FindAllStringSubmatch(d.inPlaceOfIptables(program+" -L FORWARD -n -v -x"), -1) {
		n, err := strconv.ParseUint(rule[1], 10, 64)
		if err != nil {
			d.t.Fatal(err)
		}
		judged += n
	}
	return redirected() - before, judged
}

// TestConnectionsOfIPv6AreForwardedByTheFIB as those of IPv4 are.
func TestConnectionsOfIPv6AreForwardedByTheFIB(t *testing.T) {
	t.Parallel()
	needs(t, "iperf3")
	needs(t, "traceroute")
	d := start(t)
	lan, wan := d.betweenNetworks()
	host := &netns.Node{Namespace: d.lab.Namespace}
	addIPv6(host, "lan0", "fd00:1::1/64")
	addIPv6(host, "wan0", "fd00:2::1/64")
	addIPv6(lan, netns.Inner, "fd00:1::2/64")
	addIPv6(wan, netns.Inner, "fd00:2::2/64")
	d.lab.Run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
	lan.Run("ip", "-6", "route", "add", "default", "via", "fd00:1::1")
	wan.Run("ip", "-6", "route", "add", "default", "via", "fd00:2::1")
	serves(t, wan, "iperf3", "-s", "-B", "fd00:2::2")
	d.inPlaceOfIptables(`pcn-iptables-init
		ip6tables -A FORWARD -o wan0 -p tcp -d fd00:2::2 --dport 5201 -j ACCEPT
		ip6tables -A FORWARD -o wan0 -p udp -j ACCEPT
		ip6tables -A FORWARD -i wan0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
		ip6tables -P FORWARD DROP`)
	if past, judged := d.transfer("ip6tables", lan, "fd00:2::2"); past != 0 || judged < 50 {
		t.Errorf("with forward=stack, %d packets were redirected, and %d met the rules", past, judged)
	}
	d.Do("pcn-iptables set forward=fib")
	if past, judged := d.transfer("ip6tables", lan, "fd00:2::2"); past < 50 || judged < past {
		t.Errorf("%d packets were redirected, and %d met the rules", past, judged)
	}
	d.lab.Run("ip", "link", "set", "wan0", "mtu", "1300")
	d.transfer("ip6tables", lan, "fd00:2::2")
	prints(t, lan, " 1  fd00:1::1 ", "traceroute", "-6", "-n", "-U", "-p", "5201", "-m", "2", "fd00:2::2")
}

// TestConnectionsAreForwardedByTheFIB: with forward=fib, most packets of a connection bypass the host's stack, and meet the
// chain FORWARD and the table nat all the same. Connections survive a smaller MTU on the way, the stack answers packets whose TTL
// is used up, and connections that are not open are not redirected.
func TestConnectionsAreForwardedByTheFIB(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"iperf3", "traceroute"} {
		needs(t, name)
	}
	d := start(t)
	lan, wan := d.betweenNetworks()
	serves(t, wan, "iperf3", "-s", "-B", "203.0.113.2")
	d.inPlaceOfIptables(`pcn-iptables-init
		iptables -A FORWARD -o wan0 -p tcp -d 203.0.113.2 --dport 5201 -j ACCEPT
		iptables -A FORWARD -i wan0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
		iptables -A FORWARD -o wan0 -p udp -j ACCEPT
		iptables -P FORWARD DROP
		iptables -t nat -A POSTROUTING -o wan0 -j MASQUERADE`)
	redirected := func() uint64 { return d.Stats("pcn-iptables").Fate(t, "redirected") }
	transfer := func() (past, judged uint64) {
		t.Helper()
		return d.transfer("iptables", lan, "203.0.113.2")
	}
	if past, judged := transfer(); past != 0 || judged < 50 {
		t.Errorf("with forward=stack, %d packets were redirected, and %d met the rules", past, judged)
	}
	d.Do("pcn-iptables set forward=fib")
	// A packet that is redirected is judged where it leaves.
	if past, judged := transfer(); past < 50 || judged < past {
		t.Errorf("%d packets were redirected, and %d met the rules", past, judged)
	}
	d.lab.Run("ip", "link", "set", "wan0", "mtu", "1300")
	transfer()
	prints(t, lan, " 1  10.0.0.1 ", "traceroute", "-n", "-U", "-p", "5201", "-m", "2", "203.0.113.2")
	d.inPlaceOfIptables("iptables -I FORWARD -p tcp -j DROP")
	before := redirected()
	if out, err := lan.Command("timeout", "2", "iperf3", "-c", "203.0.113.2", "-n", "1M").CombinedOutput(); err == nil {
		t.Errorf("a connection passes a rule that drops it:\n%s", out)
	}
	if got := redirected(); got != before {
		t.Errorf("%d packets of connections that are not open were redirected", got-before)
	}
}
