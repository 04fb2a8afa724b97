// SPDX-License-Identifier: Apache-2.0

// Cubes at the host's stack get the packets of all netdevs.

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// betweenNetworks makes the machine a router between two hosts.
func (d *daemon) betweenNetworks() (lan, wan *netns.Node) {
	d.t.Helper()
	lan, wan = d.lab.Host("lan0", "10.0.0.2/24"), d.lab.Host("wan0", "203.0.113.2/24")
	d.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "lan0")
	d.lab.Run("ip", "addr", "add", "203.0.113.1/24", "dev", "wan0")
	d.lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	lan.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	wan.Run("ip", "route", "add", "default", "via", "203.0.113.1")
	return lan, wan
}

// addIPv6 gives a netdev an address of IPv6, which can be used at once.
func addIPv6(on *netns.Node, dev, address string) {
	on.Run("sysctl", "-qw", "net.ipv6.conf."+dev+".disable_ipv6=0")
	on.Run("ip", "addr", "add", address, "dev", dev, "nodad")
}

// TestAFirewallAtTheHostsStack protects the host and the networks behind it on all netdevs: those that exist, and one that
// appears later. It keeps filtering while no daemon runs, and answers a rejected packet through the netdev that received it.
func TestAFirewallAtTheHostsStack(t *testing.T) {
	atTheHost(t, testAFirewallAtTheHostsStack)
}

// atTheHost runs a test for each type of cubes that the host's stack takes. The loopback device and bridges have no native XDP:
// packets of these meet cubes of type XDP_DRV at TC.
func atTheHost(t *testing.T, test func(t *testing.T, typ string)) {
	t.Parallel()
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			test(t, typ)
		})
	}
}

func testAFirewallAtTheHostsStack(t *testing.T, typ string) {
	d := start(t)
	lan, wan := d.betweenNetworks()
	wan.AnswerLines("203.0.113.2:7000", sender)
	d.lab.AnswerLines("127.0.0.1:7001", sender)
	lan.Reaches(t, patience, "203.0.113.2")

	d.Do("firewall add fw1 type=" + typ)
	d.Do("attach fw1 host")
	if got := d.Do("topology show host"); !strings.Contains(got, "ingress service chain: fw1 ---> stack") {
		t.Errorf("topology show host:\n%s", got)
	}
	d.Do("fw1 chain INGRESS append src=10.0.0.0/24 l4proto=TCP dport=7000 action=ACCEPT")
	d.Do("fw1 chain INGRESS append in-iface=lo action=ACCEPT")
	d.Do("fw1 chain INGRESS append l4proto=UDP action=REJECT")
	d.Do("fw1 chain INGRESS set default=DROP")
	c := connectTo(t, lan, "203.0.113.2:7000")
	c.seenAs()
	connectTo(t, &netns.Node{Namespace: d.lab.Namespace}, "127.0.0.1:7001").seenAs()
	blocked := func(from *netns.Node, to string) {
		t.Helper()
		if err := from.Ping(to, netns.Brief); err == nil {
			t.Errorf("a ping from %s reaches %s", from.Outer, to)
		}
	}
	blocked(lan, "10.0.0.1")
	blocked(wan, "10.0.0.2")
	// The answer is not that of an open port, nor dropped on its way out.
	d.Do("fw1 chain EGRESS append l4proto=ICMP action=DROP")
	for _, host := range []*netns.Node{lan, wan} {
		if err := rejected(host, "203.0.113.1:9"); err != nil {
			t.Errorf("a datagram from %s: %v", host.Outer, err)
		}
	}

	later := d.lab.Host("later0", "192.0.2.2/24")
	d.lab.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "later0")
	netns.Eventually(t, patience, func() error { return rejected(later, "192.0.2.1:9") })
	blocked(later, "192.0.2.1")
	d.lab.Run("ip", "link", "del", "later0")

	d.Kill9()
	c.seenAs()
	blocked(wan, "203.0.113.1")
	d = d.machine.Start()
	c.seenAs()
	blocked(wan, "203.0.113.1")
	if err := rejected(lan, "10.0.0.1:9"); err != nil {
		t.Errorf("after a restart: %v", err)
	}

	d.Do("detach fw1 host")
	lan.Reaches(t, patience, "10.0.0.1")
	c.seenAs()
}

// TestRulesKnowTheInterface: where packets are received and, for those that the host forwards, both netdevs; also after a
// netdev was deleted and created again, and after a restart.
func TestRulesKnowTheInterface(t *testing.T) {
	atTheHost(t, testRulesKnowTheInterface)
}

func testRulesKnowTheInterface(t *testing.T, typ string) {
	d := start(t)
	lan, wan := d.betweenNetworks()
	d.Do("firewall add fw1 accept-established=OFF type=" + typ)
	d.Do("attach fw1 host")
	pings := func(when string, from *netns.Node, to string, want bool) {
		t.Helper()
		if err := from.Ping(to, netns.Brief); (err == nil) != want {
			t.Errorf("%s: a ping from %s to %s passes: %t, want %t", when, from.Outer, to, err == nil, want)
		}
	}
	d.Do("fw1 chain INGRESS append in-iface=lan0 dport=9 action=DROP")
	d.Do("fw1 chain INGRESS append in-iface=wan0 icmp_type=8 action=DROP")
	d.Do("fw1 chain INGRESS rule 0 del") // the next daemon would number the interfaces in another way
	for range 2 {
		pings("received by wan0", wan, "203.0.113.1", false)
		pings("received by lan0", lan, "10.0.0.1", true)
		pings("answers are received by wan0", lan, "203.0.113.2", true)
		d.Kill9()
		d = d.machine.Start()
	}
	d.Do("fw1 chain INGRESS del")
	d.Do("fw1 chain EGRESS append in-iface=lan0 out-iface=wan0 action=DROP")
	pings("from lan0 to wan0", lan, "203.0.113.2", false)
	pings("to the host's own address", lan, "203.0.113.1", true)
	pings("answers of the host leave by wan0", wan, "203.0.113.1", true)
	d.Do("fw1 chain EGRESS del")
	d.Do("fw1 chain EGRESS append not.in-iface=lan0 out-iface=wan0 action=DROP")
	pings("not from lan0 to wan0", lan, "203.0.113.2", true)
	pings("answers of the host are received by none", wan, "203.0.113.1", false)
	d.refuses("fw1 chain INGRESS append out-iface=wan0 action=DROP", "use the chain EGRESS")

	d.lab.Run("ip", "link", "del", "wan0")
	again := d.lab.Host("wan0", "203.0.113.2/24")
	d.lab.Run("ip", "addr", "add", "203.0.113.1/24", "dev", "wan0")
	netns.Eventually(t, patience, func() error {
		if err := again.Ping("203.0.113.1", netns.Brief); err == nil {
			return errors.New("a ping passes through the new wan0")
		}
		return nil
	})
	d.Do("fw1 chain EGRESS del")
	again.Reaches(t, patience, "203.0.113.1")
}

// TestALinuxBridgeLeadsToTheHostsStack, and its members do not: frames between them pass, whatever the rules are.
func TestALinuxBridgeLeadsToTheHostsStack(t *testing.T) {
	atTheHost(t, testALinuxBridgeLeadsToTheHostsStack)
}

func testALinuxBridgeLeadsToTheHostsStack(t *testing.T, typ string) {
	d := start(t)
	one, two := d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
	d.Do("firewall add fw1 type=" + typ)
	d.Do("fw1 chain INGRESS set default=DROP")
	d.Do("attach fw1 host")
	d.lab.Run("ip", "link", "add", "name", "lan", "type", "bridge", "forward_delay", "0")
	d.lab.Run("ip", "addr", "add", "10.0.0.3/24", "dev", "lan")
	d.lab.Run("ip", "link", "set", "dev", "lan", "up")
	for _, name := range []string{"veth1", "veth2"} {
		d.lab.Run("ip", "link", "set", "dev", name, "master", "lan")
	}
	one.Reaches(t, patience, "10.0.0.2")
	if err := two.Ping("10.0.0.3", netns.Brief); err == nil {
		t.Error("a ping reaches the host")
	}
	d.Do("fw1 chain INGRESS append in-iface=lan action=ACCEPT")
	two.Reaches(t, patience, "10.0.0.3")
	d.lab.Run("ip", "link", "set", "dev", "veth1", "nomaster")
	d.lab.Run("ip", "addr", "add", "10.0.0.4/32", "dev", "veth1")
	d.lab.Run("ip", "route", "add", "10.0.0.1/32", "dev", "veth1")
	netns.Eventually(t, patience, func() error {
		if err := one.Ping("10.0.0.4", netns.Brief); err == nil {
			return errors.New("a ping reaches the host by a netdev that is not in the bridge any more")
		}
		return nil
	})
}

// TestPacketsComeBackToTheHostsStackFromUserSpace once: on a netdev that is theirs alone, and on one with another cube.
func TestPacketsComeBackToTheHostsStackFromUserSpace(t *testing.T) {
	atTheHost(t, testPacketsComeBackToTheHostsStackFromUserSpace)
}

func testPacketsComeBackToTheHostsStackFromUserSpace(t *testing.T, typ string) {
	d := start(t)
	lan, wan := d.betweenNetworks()
	d.Do("transparenthelloworld add up ingress-action=SLOWPATH egress-action=SLOWPATH type=" + typ)
	d.Do("attach up host")
	d.Do("transparenthelloworld add other type=" + typ)
	d.Do("attach other wan0")
	for _, ends := range []struct {
		from *netns.Node
		to   string
	}{{lan, "10.0.0.1"}, {wan, "203.0.113.1"}, {lan, "203.0.113.2"}} {
		ends.from.Reaches(t, patience, ends.to)
		was := d.Stats("up").Fate(t, "slowpath")
		if err := ends.from.Ping(ends.to, netns.PingOptions{Count: 10}); err != nil {
			t.Errorf("from %s to %s: %v", ends.from.Outer, ends.to, err)
		}
		want := uint64(20)
		if ends.to == "203.0.113.2" {
			want = 40 // what is forwarded comes in, and goes out
		}
		// ARP may add a few.
		if n := d.Stats("up").Fate(t, "slowpath") - was; n < want || n > want+8 {
			t.Errorf("from %s to %s: %d packets went to user space, want %d", ends.from.Outer, ends.to, n, want)
		}
	}
}

// TestPacketsFromUserSpaceMeetTheCubesWhereTheyLeave: what a cube at XDP has passed to the stack is forwarded like others.
func TestPacketsFromUserSpaceMeetTheCubesWhereTheyLeave(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.Do("transparenthelloworld add up ingress-action=SLOWPATH type=XDP_DRV")
	d.Do("attach up lan0")
	d.Do("transparenthelloworld add out")
	d.Do("attach out wan0")
	lan.Reaches(t, patience, "203.0.113.2")
	was := d.Stats("out").Fate(t, "pass")
	if err := lan.Ping("203.0.113.2", netns.PingOptions{Count: 10}); err != nil {
		t.Error(err)
	}
	if n := d.Stats("out").Fate(t, "pass") - was; n < 20 {
		t.Errorf("%d packets have passed the cube on the other netdev, want 20", n)
	}
}

// TestCubesThatTheHostsStackDoesNotTake are refused, and change nothing.
func TestCubesThatTheHostsStackDoesNotTake(t *testing.T) {
	t.Parallel()
	d := start(t)
	host := d.lab.Host("veth1", "10.0.0.2/24")
	d.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "veth1")
	d.Do("firewall add fw1 type=XDP_SKB")
	d.refuses("attach fw1 host", "give a cube for the host type TC or XDP_DRV")
	d.Do("simplebridge add br1")
	d.refuses("attach br1 host", "br1 is not a transparent cube")
	d.Do("firewall add fw2")
	d.Do("attach fw2 host")
	host.Reaches(t, patience, "10.0.0.1")
}

// rejected sends a datagram, which must be answered by the error "port unreachable".
func rejected(from *netns.Node, to string) error {
	return from.Do(func() error {
		c, err := net.Dial("udp", to)
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		if err := c.SetDeadline(time.Now().Add(answerTime)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c, "is anybody there?"); err != nil {
			return err
		}
		if _, err := bufio.NewReader(c).ReadByte(); !errors.Is(err, unix.ECONNREFUSED) {
			return fmt.Errorf("is answered by %w, want %w", err, unix.ECONNREFUSED)
		}
		return nil
	})
}
