// SPDX-License-Identifier: Apache-2.0

// Asymmetric paths: what a host sends leaves by one netdev, and the replies come in by another.

package e2e

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// twoUplinks makes the machine a router between two hosts, with another link up1 to wan, by which wan sends.
func (d *daemon) twoUplinks() (lan, wan *netns.Node) {
	d.t.Helper()
	lan, wan = d.betweenNetworks()
	d.lab.Run("ip", "link", "add", "up1", "type", "veth", "peer", "name", "uplink", "netns", wan.Name)
	d.lab.Run("ip", "addr", "add", "198.51.100.1/24", "dev", "up1")
	wan.Run("ip", "addr", "add", "198.51.100.2/24", "dev", "uplink")
	d.lab.Run("ip", "link", "set", "up1", "up")
	wan.Run("ip", "link", "set", "uplink", "up")
	for _, setting := range []string{"all", "default", "up1"} {
		d.lab.Run("sysctl", "-qw", "net.ipv4.conf."+setting+".rp_filter=0")
	}
	for _, setting := range []string{"all", "eth0", "uplink"} {
		wan.Run("sysctl", "-qw", "net.ipv4.conf."+setting+".rp_filter=0")
	}
	wan.Run("ip", "route", "add", "10.0.0.0/24", "via", "198.51.100.1")
	return lan, wan
}

// TestFirewallsOfTwoUplinksShareTheirSessions: connections open if both track in one zone and not otherwise, and live on
// when the daemon is killed or another firewall takes the place of one of them.
func TestFirewallsOfTwoUplinksShareTheirSessions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_SKB"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			lan, wan := d.twoUplinks()
			wan.AnswerLines("203.0.113.2:7000", sender)
			connectTo(t, lan, "203.0.113.2:7000").seenAs()
			for _, at := range [][2]string{{"fw1", "wan0"}, {"fw2", "up1"}} {
				d.Do("firewall add " + at[0] + " type=" + kind + " session-zone=shared:uplinks")
				d.Do(at[0] + " chain INGRESS set default=DROP")
				d.Do("attach " + at[0] + " " + at[1])
			}
			c := connectTo(t, lan, "203.0.113.2:7000")
			c.seenAs()
			d.Kill9()
			c.seenAs()
			d = d.machine.Start()
			c.seenAs()
			connectTo(t, lan, "203.0.113.2:7000").seenAs()

			d.Do("fw2 set session-zone=own")
			dial := func() error {
				conn, err := net.DialTimeout("tcp", "203.0.113.2:7000", 1500*time.Millisecond)
				if err == nil {
					err = conn.Close()
				}
				return err
			}
			if lan.Do(dial) == nil {
				t.Error("replies pass a firewall that does not share the sessions")
			}
			d.Do("fw2 set session-zone=shared:uplinks")
			c.seenAs()
			d.Do("detach fw1 wan0")
			d.Do("firewall del fw1")
			d.Do("firewall add fw3 type=" + kind + " session-zone=shared:uplinks")
			d.Do("attach fw3 wan0")
			c.seenAs()
		})
	}
}

// TestNATsOfTwoUplinksShareTheirSessions: replies come back through the NAT of the other uplink, also of connections that
// began before the daemon was killed, and not without the shared zone.
func TestNATsOfTwoUplinksShareTheirSessions(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_SKB"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			lan, wan := d.twoUplinks()
			const external = "192.0.2.7"
			wan.Run("ip", "route", "add", external, "via", "198.51.100.1")
			wan.AnswerLines("203.0.113.2:7000", sender)
			add := func(name, netdev, zone string) {
				d.Do("nat add " + name + " type=" + kind + " session-zone=" + zone)
				d.Do(name + " rule snat append internal-net=10.0.0.0/24 external-ip=" + external)
				d.Do("attach " + name + " " + netdev)
			}
			add("nat1", "wan0", "shared:uplinks")
			add("nat2", "up1", "shared:uplinks")
			translated := func(c *asked) {
				t.Helper()
				if got := c.seenAs(); !strings.HasPrefix(got, external) {
					t.Errorf("the server sees %s, want %s", got, external)
				}
			}
			c := connectTo(t, lan, "203.0.113.2:7000")
			translated(c)
			d.Kill9()
			translated(c)
			translated(connectTo(t, lan, "203.0.113.2:7000"))
			d = d.machine.Start()
			translated(c)
			translated(connectTo(t, lan, "203.0.113.2:7000"))

			d.Do("detach nat2 up1")
			d.Do("nat del nat2")
			add("nat2", "up1", "own")
			if dials(lan, "203.0.113.2", 7000) == nil {
				t.Error("replies pass a NAT that does not share the sessions")
			}
			d.Do("detach nat2 up1")
			d.Do("nat del nat2")
			add("nat2", "up1", "shared:uplinks")
			translated(c)
		})
	}
}
