// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// TestTCPChecksConnectWithoutBeingAccepted: the servers see a SYN and a RST, so accept returns nothing.
func TestTCPChecksConnectWithoutBeingAccepted(t *testing.T) {
	for _, ip := range []string{serverIP, serverIP6} {
		t.Run(ip, func(t *testing.T) {
			l := newLab(t)
			is := l.listen(ip)
			accepted := make(chan net.Conn, 100)
			accept(is, func(c net.Conn) { accepted <- c })
			l.set("s", quick(TCP, address(is)))
			begin := l.becomes("s", Up, "") // the neighbour may not be resolved by the first check
			state := l.moreChecks("s", 5)
			if n := len(accepted); n > int(state.Checks)/2 { // a busy machine may be too late with a RST
				t.Errorf("%d connections of %d checks were accepted", n, state.Checks)
			}
			for _, side := range []*netns.Namespace{l.near.Namespace, l.far.Namespace} {
				if sockets := side.Run("ss", "-Htan"); strings.Contains(sockets, "TIME-WAIT") {
					t.Errorf("connections are left:\n%s", sockets)
				}
			}
			if state.Failed-begin.Failed > l.checker.Stats().Timeouts || state.Latency <= 0 || state.Latency > time.Second {
				t.Errorf("%+v", state)
			}
			is.Close()
			l.becomes("s", Down, "connection refused")
		})
	}
}

func TestTCPServersThatDoNotAnswer(t *testing.T) {
	l := newLab(t)
	l.far.Run("ip", "address", "add", "10.0.0.9/32", "dev", "lo")
	l.near.Run("ip", "route", "add", "blackhole", "10.9.9.9")
	silent := netip.MustParseAddrPort("10.0.0.77:80") // no such neighbour: the kernel reports it later than the timeout
	l.set("silent", quick(TCP, silent))
	l.set("unreachable", quick(TCP, netip.MustParseAddrPort("10.99.0.1:80")))
	l.becomes("silent", Down, "no response within 200 ms")
	l.becomes("unreachable", Down, "network is unreachable")
	if s := l.checker.Stats(); s.Timeouts == 0 || s.Down != 2 {
		t.Errorf("%+v", s)
	}
}
