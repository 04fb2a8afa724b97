// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// patience is how long a test waits for events that take seconds according to the standards, on a machine with other
// load.
var patience = pace.Stretch(20 * time.Second)

// types are the types of a cube.
var types = []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV}

// sides are the two links of the routers of these tests.
const sides = `"ports":[
	{"name":"left","peer":"veth1","ip":"10.0.1.1/24","secondaryip":[{"ip":"2001:db8:1::1/64"}]},
	{"name":"right","peer":"veth2","ip":"10.0.2.1/24","secondaryip":[{"ip":"2001:db8:2::1/64"}]%s}]`

// twoSides creates a router between two hosts with addresses of both families. more is added to its configuration,
// right to that of the second port.
func twoSides(t *testing.T, typ cube.Type, more, right string) *bpftest.Lab {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2, Host: []netns.Option{netns.WithIPv6()}})
	l.Create("router", "r", fmt.Sprintf("{"+sides+"%s}", right, more))
	for i, h := range l.Hosts {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.2/24", i+1), "dev", "eth0")
		h.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::2/64", i+1), "dev", "eth0", "nodad")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", i+1))
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("2001:db8:%d::1", i+1))
	}
	return l
}

const noDetection = `,"arp":{"duplicate-detection":false}`

// says runs a command that may fail and returns its output.
func says(h *netns.Node, name string, args ...string) string {
	out, _ := h.Command(name, args...).CombinedOutput()
	return string(out)
}

func TestHostsReachEachOtherAndHearWhyNot(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := twoSides(t, typ, noDetection, `,"mtu":1400`)
			one := l.Hosts[0]
			for _, tt := range []struct{ name, command, want string }{
				{"the first packet waits for its neighbour", "ping -n -c 1 -W 20 10.0.2.2", "1 received"},
				{"the first packet of IPv6", "ping -n -c 1 -W 20 2001:db8:2::2", "1 received"},
				{"the router answers", "ping -n -c 1 -W 20 10.0.1.1", "1 received"},
				{"by its other address", "ping -n -c 1 -W 20 10.0.2.1", "1 received"},
				{"by IPv6", "ping -n -c 1 -W 20 2001:db8:1::1", "1 received"},
				{"in fragments", "ping -n -c 1 -W 20 -s 4000 10.0.1.1", "4008 bytes from 10.0.1.1"},
				{"in fragments of IPv6", "ping -n -c 1 -W 20 -s 4000 2001:db8:1::1", "4008 bytes from 2001:db8:1::1"},
				{"as one of all routers", "ping -n -c 1 -W 20 -I eth0 ff02::2", "1 received"},
				{"a TTL that ends", "ping -n -c 1 -W 20 -t 1 10.0.2.2", "From 10.0.1.1 icmp_seq=1 Time to live exceeded"},
				{"a hop limit that ends", "ping -n -c 1 -W 20 -t 1 2001:db8:2::2", "From 2001:db8:1::1 icmp_seq=1 Time exceeded: Hop limit"},
				{"no route", "ping -n -c 1 -W 20 192.0.2.1", "From 10.0.1.1 icmp_seq=1 Destination Net Unreachable"},
				{"no route of IPv6", "ping -n -c 1 -W 20 2001:db8:9::1", "From 2001:db8:1::1 icmp_seq=1 Destination unreachable: No route"},
				{"a packet that must not be cut", "ping -n -c 1 -W 20 -M do -s 1472 10.0.2.2", "From 10.0.1.1 icmp_seq=1 Frag needed and DF set (mtu = 1400)"},
				{"a packet of IPv6 that is too big", "ping -n -c 1 -W 20 -M do -s 1452 2001:db8:2::2", "From 2001:db8:1::1 icmp_seq=1 Packet too big: mtu=1400"},
				{"a packet that is cut", "ping -n -c 1 -W 20 -M dont -s 1472 10.0.2.2", "1480 bytes from 10.0.2.2"},
				{"no neighbour", "ping -n -c 1 -W 20 10.0.2.9", "From 10.0.1.1 icmp_seq=1 Destination Host Unreachable"},
				{"no neighbour of IPv6", "ping -n -c 1 -W 20 2001:db8:2::9", "From 2001:db8:1::1 icmp_seq=1 Destination unreachable: Address unreachable"},
			} {
				words := strings.Fields(tt.command)
				if got := says(one, words[0], words[1:]...); !strings.Contains(got, tt.want) {
					t.Errorf("%s: %s says\n%s\nwant %q\n%s", tt.name, tt.command, got, tt.want, l.Read("r slow-path"))
				}
			}
		})
	}
}
