// SPDX-License-Identifier: Apache-2.0

package health

import (
	"net"
	"net/http"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestChecksReachTheVIPOfOneServer: the servers of direct server return all have the VIP. The mark of a check leads it to
// one of them, here by a route, elsewhere by a tunnel.
func TestChecksReachTheVIPOfOneServer(t *testing.T) {
	const vip = "10.1.1.1"
	l := newLab(t)
	second := l.near.Host("second", "10.0.2.2/24", netns.WithGateway("10.0.2.1"))
	l.near.Run("ip", "address", "add", "10.0.2.1/24", "dev", "second")
	l.far.Run("ip", "route", "add", "default", "via", checkerIP)
	for mark, to := range map[string]*netns.Node{"1": l.far, "2": second} {
		to.Run("ip", "address", "add", vip+"/32", "dev", "lo")
		l.near.Run("ip", "rule", "add", "fwmark", mark, "lookup", mark)
		l.near.Run("ip", "route", "add", vip, "via", map[string]string{"1": serverIP, "2": "10.0.2.2"}[mark], "table", mark)
	}
	// Answers come from the VIP, which has no route without a mark.
	l.near.Run("sh", "-c", "echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter")
	var is net.Listener
	second.Must(func() (err error) {
		is, err = net.Listen("tcp", vip+":80")
		return err
	})
	server := &http.Server{Handler: text("second")}
	go func() { _ = server.Serve(is) }()
	t.Cleanup(func() { server.Close() })

	c := quick(HTTP, netip.MustParseAddrPort(vip+":80"))
	c.Mark, c.Body = 1, "second"
	l.set("first", c)
	c.Mark = 2
	l.set("second", c)
	c.Kind = TCP
	l.set("second by TCP", c)
	c.Kind = ICMP
	l.set("second by ICMP", c)
	c.Mark = 3
	l.set("none", c)
	l.becomes("first", Down, "connection refused")
	l.becomes("second", Up, "")
	l.becomes("second by TCP", Up, "")
	l.becomes("second by ICMP", Up, "")
	l.becomes("none", Down, "network is unreachable")
}
