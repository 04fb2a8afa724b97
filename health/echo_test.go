// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net/netip"
	"os"
	"testing"
	"time"
)

func TestICMPChecks(t *testing.T) {
	l := newLab(t)
	ping := func(ip string) Check { return quick(ICMP, netip.AddrPortFrom(netip.MustParseAddr(ip), 0)) }
	l.near.Run("ip", "address", "add", "10.0.0.50/24", "dev", "far")
	// The server drops what does not come from there.
	l.far.Run("ip", "rule", "add", "to", checkerIP, "iif", "lo", "blackhole", "priority", "1")
	from := ping(serverIP)
	from.Source, from.Device = netip.MustParseAddr("10.0.0.50"), "far"
	for _, groups := range []string{"1 0", "0 0"} { // raw sockets, ping sockets
		l.start(Options{})
		l.near.Must(func() error { return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte(groups), 0) })
		l.set("from", from)
		l.set("not from", ping(serverIP))
		l.set("v6", ping(serverIP6))
		l.set("unreachable", ping("10.77.0.1"))
		absent := ping(serverIP)
		absent.Device = "nosuch"
		l.set("absent", absent)
		l.becomes("from", Up, "")
		l.becomes("v6", Up, "")
		l.becomes("not from", Down, "no response within 200 ms")
		l.becomes("unreachable", Down, "network is unreachable")
		l.becomes("absent", Unknown, "cannot check: device nosuch: no such device")
		if s := l.moreChecks("v6", 5); l.failed(s) || s.Latency <= 0 || s.Latency > time.Second {
			t.Errorf("%+v", s)
		}
	}
	l.far.Run("ip", "link", "set", "eth0", "down")
	l.becomes("v6", Down, "no response within 200 ms")
}
