// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// An edge is a machine that routes between an internal and an external host, with a NAT on its outer netdev: the usual
// masquerading Linux gateway.
type edge struct {
	*bpftest.Lab
	t               *testing.T
	inside, outside *netns.Node
}

const (
	insideIP, insideIP6   = "10.0.0.2", "fd00::2"
	outsideIP, outsideIP6 = "203.0.113.2", "2001:db8::2"
	edgeIP, edgeIP6       = "203.0.113.1", "2001:db8::1"
)

// newEdge creates an edge, with a NAT n of this configuration.
func newEdge(t *testing.T, typ cube.Type, config string) *edge {
	t.Helper()
	return newEdgeOn(t, false, typ, config)
}

// newEdgeOn is newEdge, on this kernel or on an old one.
func newEdgeOn(t *testing.T, old bool, typ cube.Type, config string) *edge {
	t.Helper()
	options := []netns.Option{netns.WithIPv6()}
	if typ != cube.TypeTC {
		options = append(options, netns.WithoutTxChecksum(), netns.WithGRO())
	}
	l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2, Host: options, Follow: true, Old: old})
	e := &edge{Lab: l, t: t, inside: l.Hosts[0], outside: l.Hosts[1]}
	for _, name := range []string{"all.disable_ipv6=0", "veth1.disable_ipv6=0", "veth2.disable_ipv6=0", "all.forwarding=1"} {
		l.Lab.Run("sysctl", "-qw", "net.ipv6.conf."+name)
	}
	l.Lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv4.conf.all.promote_secondaries=1")
	for dev, addresses := range map[string][]string{"veth1": {"10.0.0.1/24", "fd00::1/64"}, "veth2": {edgeIP + "/24", edgeIP6 + "/64"}} {
		for _, a := range addresses {
			l.Lab.Run("ip", "addr", "add", a, "dev", dev, "nodad")
		}
	}
	for host, addresses := range map[*netns.Node][]string{e.inside: {insideIP + "/24", insideIP6 + "/64"}, e.outside: {outsideIP + "/24", outsideIP6 + "/64"}} {
		for _, a := range addresses {
			host.Run("ip", "addr", "add", a, "dev", netns.Inner, "nodad")
		}
	}
	// Outside hosts have no route to the inside.
	e.inside.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	e.inside.Run("ip", "-6", "route", "add", "default", "via", "fd00::1")
	l.Create("nat", "n", config)
	l.Attach("n", "veth2")
	return e
}

// serve answers each line with the peer's address and the line, over TCP and UDP, until the test ends.
func (e *edge) serve(host *netns.Node, address string) {
	e.t.Helper()
	seen := func(from net.Addr, line string) string { return fmt.Sprintf("%s %s", from, line) }
	host.AnswerLines(address, seen)
	var datagrams net.PacketConn
	host.Must(func() (err error) { datagrams, err = net.ListenPacket("udp", address); return err })
	var working sync.WaitGroup
	e.t.Cleanup(func() {
		_ = datagrams.Close()
		working.Wait()
	})
	working.Go(func() {
		b := make([]byte, 2048)
		for {
			n, from, err := datagrams.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = datagrams.WriteTo([]byte(seen(from, string(b[:n]))), from)
		}
	})
}

// dial opens a connection from a host.
func (e *edge) dial(host *netns.Namespace, network, address string) net.Conn {
	e.t.Helper()
	var c net.Conn
	host.Must(func() (err error) {
		c, err = net.DialTimeout(network, address, pace.Stretch(10*time.Second))
		return err
	})
	e.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask sends a line and returns the sender's address as seen by the other side.
func ask(c net.Conn, within time.Duration) (string, error) {
	if err := c.SetDeadline(time.Now().Add(within)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(c, "hello\n"); err != nil {
		return "", err
	}
	b := make([]byte, 200)
	n, err := c.Read(b)
	from, line, _ := strings.Cut(string(b[:n]), " ")
	if err == nil && line != "hello\n" {
		err = fmt.Errorf("the answer is %q", b[:n])
	}
	host, _, _ := net.SplitHostPort(from)
	return host, err
}

func (e *edge) wantSeenAs(c net.Conn, want string) {
	e.t.Helper()
	if got, err := ask(c, pace.Stretch(10*time.Second)); got != want || err != nil {
		e.t.Errorf("%s to %s: the other side sees %q, want %q, %v", c.LocalAddr(), c.RemoteAddr(), got, want, err)
	}
}

// masqueraded is the configuration for hosts behind a machine.
const masqueraded = `{"rule":{"masquerade":{"enabled":true}}}`

func eachType(t *testing.T, test func(t *testing.T, typ cube.Type)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) { test(t, typ) })
	}
}

// TestAHostBehindAMasqueradedNetdev: TCP, UDP and ping leave with the machine's address and their replies come back, in
// both families; forwarded ports lead inside; the machine's own connections are unchanged.
func TestAHostBehindAMasqueradedNetdev(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, typ cube.Type) {
		e := newEdge(t, typ, masqueraded)
		wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, edgeIP, edgeIP6))
		e.serve(e.outside, ":7000")
		for network, address := range map[string]string{"tcp4": outsideIP + ":7000", "udp4": outsideIP + ":7000"} {
			e.wantSeenAs(e.dial(e.inside.Namespace, network, address), edgeIP)
		}
		for network, address := range map[string]string{"tcp6": "[" + outsideIP6 + "]:7000", "udp6": "[" + outsideIP6 + "]:7000"} {
			e.wantSeenAs(e.dial(e.inside.Namespace, network, address), edgeIP6)
		}
		for _, address := range []string{outsideIP, outsideIP6} {
			if err := e.inside.Ping(address); err != nil {
				t.Errorf("ping %s: %v", address, err)
			}
		}
		// The machine itself.
		e.wantSeenAs(e.dial(e.Lab.Lab.Namespace, "tcp4", outsideIP+":7000"), edgeIP)
		e.wantSeenAs(e.dial(e.Lab.Lab.Namespace, "udp6", "["+outsideIP6+"]:7000"), edgeIP6)

		e.serve(e.inside, ":8000")
		e.Action("n rule port-forwarding append", fmt.Sprintf(`{"external-ip":%q,"external-port":80,"proto":"tcp","internal-ip":%q,"internal-port":8000}`, edgeIP, insideIP))
		e.Action("n rule port-forwarding append", fmt.Sprintf(`{"external-ip":%q,"external-port":80,"internal-ip":%q,"internal-port":8000}`, edgeIP6, insideIP6))
		e.wantSeenAs(e.dial(e.outside.Namespace, "tcp4", edgeIP+":80"), outsideIP)
		e.wantSeenAs(e.dial(e.outside.Namespace, "udp6", "["+edgeIP6+"]:80"), outsideIP6)
		e.wantRules(map[string]bool{"masquerade tcp": true, "masquerade udp": true, "masquerade icmp": true, "masquerade icmpv6": true,
			"portforwarding tcp": true, "portforwarding udp": true})
	})
}

// wantRules compares the kinds of rules and protocols of the sessions.
func (e *edge) wantRules(want map[string]bool) {
	e.t.Helper()
	got := map[string]bool{}
	for raw := range e.Entries("n natting-table") {
		var s shownSession
		if err := json.Unmarshal(raw, &s); err != nil {
			e.t.Fatal(err)
		}
		got[s.OriginatingRule+" "+s.Proto] = true
	}
	for k := range want {
		if !got[k] {
			e.t.Errorf("there is no session of %s, only %v", k, got)
		}
	}
}

// TestUploadsArriveWhole: superframes and offloaded checksums pass both ways.
func TestUploadsArriveWhole(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, typ cube.Type) {
		e := newEdge(t, typ, masqueraded)
		wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, edgeIP, edgeIP6))
		for _, address := range []string{outsideIP + ":7001", "[" + outsideIP6 + "]:7001"} {
			e.wantWhole(e.outside, address, address)
		}
	})
}

// wantWhole connects the internal host to an address where another one listens, and sends many bytes both ways.
func (e *edge) wantWhole(host *netns.Node, listens, address string) {
	e.t.Helper()
	const size = 4 << 20
	var listener net.Listener
	host.Must(func() (err error) { listener, err = net.Listen("tcp", listens); return err })
	defer listener.Close()
	sums := make(chan string, 1)
	go receiveAndReturn(listener, size, sums)
	c := e.dial(e.inside.Namespace, "tcp", address)
	_ = c.SetDeadline(time.Now().Add(pace.Stretch(20 * time.Second)))
	sum := sha256.New()
	_, err := io.Copy(io.MultiWriter(c, sum), io.LimitReader(pattern{}, size))
	if err != nil {
		e.t.Errorf("%s: sending: %v", address, err)
	}
	if got := <-sums; got != fmt.Sprintf("%x", sum.Sum(nil)) {
		e.t.Errorf("%s: the other side got %s", address, got)
	}
	back := sha256.New()
	if n, err := io.Copy(back, c); n != size || err != nil || fmt.Sprintf("%x", back.Sum(nil)) != fmt.Sprintf("%x", sum.Sum(nil)) {
		e.t.Errorf("%s: %d bytes came back, %v", address, n, err)
	}
}

// receiveAndReturn receives a number of bytes, reports their sum, and sends as many of the same pattern.
func receiveAndReturn(l net.Listener, size int64, sums chan<- string) {
	c, err := l.Accept()
	if err != nil {
		sums <- err.Error()
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(pace.Stretch(20 * time.Second)))
	sum := sha256.New()
	if _, err := io.CopyN(sum, c, size); err != nil {
		sums <- err.Error()
		return
	}
	sums <- fmt.Sprintf("%x", sum.Sum(nil))
	_, _ = io.Copy(c, io.LimitReader(pattern{}, size)) // the reader reports it
}

// pattern is bytes that do not repeat with the length of a segment.
type pattern struct{}

func (pattern) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return len(b), nil
}

// TestMasqueradeChangesItsAddress: new connections get the new address; those of the old one end.
func TestMasqueradeChangesItsAddress(t *testing.T) {
	t.Parallel()
	e := newEdge(t, cube.TypeTC, masqueraded)
	wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, edgeIP, edgeIP6))
	e.serve(e.outside, ":7000")
	old, other := e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000"), e.dial(e.inside.Namespace, "tcp6", "["+outsideIP6+"]:7000")
	e.wantSeenAs(old, edgeIP)
	e.wantSeenAs(other, edgeIP6)
	const newIP = "203.0.113.9"
	e.Lab.Lab.Run("ip", "addr", "add", newIP+"/24", "dev", "veth2")
	e.Lab.Lab.Run("ip", "addr", "del", edgeIP+"/24", "dev", "veth2")
	wantMasquerade(t, e.Lab, fmt.Sprintf(`[%q,%q]`, newIP, edgeIP6))
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		for raw := range e.Entries("n natting-table") {
			if strings.Contains(string(raw), edgeIP+`"`) {
				return fmt.Errorf("there still is %s", raw)
			}
		}
		return nil
	})
	e.wantSeenAs(e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000"), newIP)
	e.wantSeenAs(other, edgeIP6) // the family whose address is unchanged
	if from, err := ask(old, time.Second); err == nil {
		t.Errorf("a connection of the address that went is seen as %s", from)
	}
}

// TestConnectionsOutliveTheDaemon: a connection continues while the daemon is away, after it is back, and while other
// rules change; it ends with its rule.
func TestConnectionsOutliveTheDaemon(t *testing.T) {
	t.Parallel()
	e := newEdge(t, cube.TypeTC, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
	e.serve(e.outside, ":7000")
	c := e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000")
	e.wantSeenAs(c, edgeIP)
	port := func() string { return e.Read(sessionWords(c)) }
	before := port()
	e.Restart(func() {
		e.wantSeenAs(c, edgeIP)
		e.wantSeenAs(e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000"), edgeIP)
	})
	e.wantSeenAs(c, edgeIP)
	e.Action("n rule snat append", `{"internal-net":"10.0.0.2/32","external-ip":"203.0.113.77"}`)
	e.Action("n rule masquerade enable", "")
	e.Restart(nil)
	e.wantSeenAs(c, edgeIP)
	if after := port(); after != before {
		t.Errorf("the external port was %s and is %s", before, after)
	}
	e.Set("DELETE", "n rule", "")
	netns.Eventually(t, 4*bpftest.Patience, func() error {
		if _, err := e.TryRead(sessionWords(c)); err == nil {
			return errors.New("its session is there")
		}
		return nil
	})
	if from, err := ask(c, time.Second); err == nil {
		t.Errorf("a connection whose rule is gone is seen as %s", from)
	}
}

// sessionWords name the external port of a connection's session.
func sessionWords(c net.Conn) string {
	local, remote := c.LocalAddr().(*net.TCPAddr), c.RemoteAddr().(*net.TCPAddr)
	return fmt.Sprintf("n natting-table %s %s %d %d tcp external-port", local.IP, remote.IP, local.Port, remote.Port)
}
