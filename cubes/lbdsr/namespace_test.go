// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// routed is a load balancer with a namespace.
const routed = `{"shadow":true,"ports":[{"name":"f","type":"FRONTEND","peer":"veth1","mac":"` + frontMAC + `","ip":"10.0.1.1/24"},
 {"name":"b","type":"BACKEND","peer":"veth2","mac":"` + backMAC + `","ip":"10.0.2.1/24"}],
 "service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","server":[{"address":"` + server1 + `"}]}]}`

func TestPacketsForPortsReachTheNamespace(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Shadow: true})
	l.Create("lbdsr", "lb", routed)
	for _, tt := range []struct {
		what, dev string
		frame     []byte
		want      string
	}{
		{"BGP", "veth1", client().IPv4("10.0.1.2", "10.0.1.1").TCP(1000, 179, syn).Bytes(), "namespace"},
		{"an echo request for the port", "veth1", client().IPv4("10.0.1.2", "10.0.1.1").Echo(7, 8).Payload(8).Bytes(), "namespace"},
		{"at the other port", "veth2", pkt.Eth(server1, backMAC).IPv4("10.0.2.11", "10.0.2.1").UDP(1000, 9).Bytes(), "namespace"},
		{"the address of another port", "veth1", client().IPv4("10.0.1.2", "10.0.2.1").UDP(1000, 9).Bytes(), "no-service"},
		{"OSPF", "veth1", pkt.Eth(clientMAC, "01:00:5e:00:00:05").IPv4("10.0.1.2", "224.0.0.5").Protocol(89).Payload(40).Bytes(), "namespace"},
		{"another station", "veth1", pkt.Eth(clientMAC, server1).IPv4("10.0.1.2", "10.0.1.1").UDP(1000, 9).Bytes(), "other-station"},
		{"no service", "veth1", client().IPv4("10.0.1.2", "10.0.0.100").UDP(1000, 9).Bytes(), "no-service"},
	} {
		got, _, err := l.TryBytes(tt.dev, tt.frame)
		// A packet for the namespace is sent, but not by a port, and the namespace sends packets of its own.
		if is := fmt.Sprint(got, err); !strings.Contains(is, "lb "+tt.want) {
			t.Errorf("%s: %s, want %s", tt.what, is, tt.want)
		}
	}
	if _, got, err := l.TryBytes("veth1", flow(1, syn)); err != nil || string(got) != string(toServer(flow(1, syn), server1)) {
		t.Errorf("a packet for the service: % x, %v", got, err)
	}
}

func TestPortsFollowTheirInterfaces(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Shadow: true, Follow: true})
	l.Create("lbdsr", "lb", routed)
	inside := func(args ...string) {
		t.Helper()
		if out, err := l.Within("lb", "ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %v: %v, %s", args, err, out)
		}
	}
	has := func(leaf, want string) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := l.Read("lb ports f"); strings.Contains(got, `"`+leaf+`":"`) != (want != "") || !strings.Contains(got, want) {
				return fmt.Errorf("port f is %s, want %s %s", got, leaf, want)
			}
			return nil
		})
	}
	has("ip", "10.0.1.1/24")
	inside("address", "add", "10.0.7.1/24", "dev", "f") // a second one changes nothing
	inside("address", "add", "2001:db8:1::1/64", "dev", "f", "nodad")
	has("ip6", "2001:db8:1::1/64")
	has("ip", "10.0.1.1/24")
	inside("address", "del", "10.0.1.1/24", "dev", "f")
	has("ip", "10.0.7.1/24")
	inside("address", "flush", "dev", "f", "scope", "global")
	has("ip", "")
	has("ip6", "")
	inside("link", "set", "f", "address", "02:00:00:00:01:77")
	has("mac", "02:00:00:00:01:77")
	l.Set("PATCH", "lb ports f ip", `"10.0.1.9/24"`)
	out, err := l.Within("lb", "ip", "address", "show", "dev", "f").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "10.0.1.9/24") {
		t.Errorf("the interface has %s, %v", out, err)
	}
}

func TestChecksGoElsewhereOnRequest(t *testing.T) {
	t.Parallel()
	o := live
	o.Type = cube.TypeTC
	l := bpftest.New(t, o)
	w := newWeb(t, l, 2)
	w.host.AnswerLines("10.0.2.11:81", nil) // the server itself, which is not the virtual address
	l.Create("lbdsr", "lb", `{`+sides+`,"service":[{"vip":"`+webVIP+`","vport":0,"proto":"ALL","health-check":{`+quick+`"type":"TCP","port":80},"server":[{"address":"10.0.2.11"}]}]}`)
	const service = webVIP + " 0 ALL"
	is(t, l, service, "10.0.2.11", "UP", "")
	l.Set("PATCH", "lb service "+service+" health-check port", "81")
	is(t, l, service, "10.0.2.11", "DOWN", "refused")
	l.Set("PATCH", "lb service "+service+" health-check address", `"10.0.2.11"`)
	is(t, l, service, "10.0.2.11", "UP", "")
	const six = webVIP6 + " 80 TCP"
	l.Set("POST", "lb service "+six, `{"health-check":{`+quick+`"type":"TCP"},"server":[{"address":"10.0.2.11"}]}`)
	is(t, l, six, "10.0.2.11", "UP", "")
	l.Set("DELETE", "lb ports b ip6", "")
	is(t, l, six, "10.0.2.11", "UP", "cannot check: the port towards the server has no address")
	l.Set("PATCH", "lb ports b ip6", `"2001:db8:2::7/64"`)
	is(t, l, six, "10.0.2.11", "UP", "")
	l.Set("PATCH", "lb ports b mtu", "1280") // enough, without tunnels
	is(t, l, six, "10.0.2.11", "UP", "")
	l.Set("POST", "lb service 10.0.0.109 9 TCP", `{"server":[{"address":"10.0.3.11","forward":"IPIP"}]}`)
	l.Set("PATCH", "lb service "+six+" health-check interval", "110")
	is(t, l, six, "10.0.2.11", "UP", "cannot check: IPv6 needs 1280 bytes")
	w.host.Run("ip", "link", "set", "eth0", "down")
	is(t, l, service, "10.0.2.11", "DOWN", "no response")
}
