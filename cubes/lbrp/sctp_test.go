// SPDX-License-Identifier: Apache-2.0

package lbrp

// Associations of SCTP between the kernel's own endpoints, through the load balancer.

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// TestAssociationsOfSCTPReachTheirServers: client and servers are real endpoints, whose checksum covers ports but not
// addresses. Each association stays with one server until it ends, and both servers get some.
func TestAssociationsOfSCTPReachTheirServers(t *testing.T) {
	need.Features(t, need.SCTP)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV, cube.TypeXDPSKB} {
		for _, c := range []struct{ name, client, vip, length, one, two string }{
			{"IPv4", "10.0.2.2", "10.0.2.100", "/24", "10.0.2.11", "10.0.2.12"},
			{"IPv6", "2001:db8:2::2", "2001:db8:2::100", "/64", "2001:db8:2::11", "2001:db8:2::12"},
		} {
			t.Run(string(typ)+"/"+c.name, func(t *testing.T) {
				o := live
				o.Type = typ
				o.Host = append(o.Host[:len(o.Host):len(o.Host)], netns.WithoutTxChecksum()) // XDP would pass on frames without one
				l := bpftest.New(t, o)
				l.Create("lbrp", "lb", fmt.Sprintf(`{"ports":[{"name":"f","type":"FRONTEND","peer":"veth1"},{"name":"b","type":"BACKEND","peer":"veth2"}],
					"service":[{"vip":%q,"vport":80,"proto":"SCTP","backend":[{"ip":%q,"port":80},{"ip":%q,"port":80}]}]}`, c.vip, c.one, c.two))
				client, server := l.Hosts[0], l.Hosts[1]
				client.Run("ip", "address", "add", c.client+c.length, "dev", netns.Inner, "nodad")
				client.Run("ip", "neighbour", "add", c.vip, "lladdr", server.MAC.String(), "dev", netns.Inner)
				server.Run("ip", "neighbour", "add", c.client, "lladdr", client.MAC.String(), "dev", netns.Inner)
				for _, at := range []string{c.one, c.two} {
					server.Run("ip", "address", "add", at+c.length, "dev", netns.Inner, "nodad")
					echoSCTP(t, server, netip.AddrPortFrom(netip.MustParseAddr(at), 80))
				}
				served := map[string]int{}
				for range 24 {
					served[associate(t, client, netip.AddrPortFrom(netip.MustParseAddr(c.vip), 80))]++
				}
				if len(served) != 2 {
					t.Errorf("associations by server: %v, want some at each", served)
				}
			})
		}
	}
}

// sctpSocket opens a socket, and returns it with the address as the kernel wants it. Nothing waits longer than the tests'
// patience.
func sctpSocket(at netip.AddrPort) (fd int, to unix.Sockaddr, err error) {
	family := unix.AF_INET
	to = &unix.SockaddrInet4{Port: int(at.Port()), Addr: [4]byte(at.Addr().AsSlice())}
	if at.Addr().Is6() {
		family = unix.AF_INET6
		to = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
	if err != nil {
		return -1, nil, fmt.Errorf("socket: %w", err)
	}
	patience := unix.NsecToTimeval(pace.Stretch(bpftest.Patience).Nanoseconds())
	return fd, to, errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &patience),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &patience))
}

// echoSCTP starts a server that answers each message with its address and the message, until the test ends.
func echoSCTP(t *testing.T, host *netns.Node, at netip.AddrPort) {
	t.Helper()
	var fd int
	host.Must(func() (err error) {
		var to unix.Sockaddr
		if fd, to, err = sctpSocket(at); err != nil {
			return err
		}
		// A shutdown does not end an accept of SCTP: it looks for itself whether the test is over.
		often := unix.NsecToTimeval((100 * time.Millisecond).Nanoseconds())
		return errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &often), unix.Bind(fd, to), unix.Listen(fd, 64))
	})
	var over atomic.Bool
	var serving sync.WaitGroup
	serving.Go(func() {
		for !over.Load() {
			c, _, err := unix.Accept4(fd, unix.SOCK_CLOEXEC)
			switch {
			case err == nil:
				echoMessages(c, at)
			case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
				t.Errorf("accept at %s: %v", at, err)
				return
			}
		}
	})
	t.Cleanup(func() {
		over.Store(true)
		serving.Wait()
		_ = unix.Close(fd)
	})
}

// uninterrupted repeats a call that a signal has interrupted: Go's scheduler sends some, and calls with a timeout do not
// continue by themselves.
func uninterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// connect opens an association. One whose beginning was interrupted begins nevertheless, which is waited for.
func connect(fd int, at unix.Sockaddr) error {
	err := unix.Connect(fd, at)
	if !errors.Is(err, unix.EINTR) {
		return err
	}
	begun := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := uninterrupted(func() (int, error) { return unix.Poll(begun, int(pace.Stretch(bpftest.Patience).Milliseconds())) })
	if err != nil || n == 0 {
		return errors.Join(unix.ETIMEDOUT, err)
	}
	failed, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && failed != 0 {
		err = unix.Errno(failed)
	}
	return err
}

// echoMessages serves one association until its client ends it.
func echoMessages(c int, at netip.AddrPort) {
	defer func() { _ = unix.Close(c) }()
	buf := make([]byte, 2048)
	for {
		n, err := uninterrupted(func() (int, error) { return unix.Read(c, buf) })
		if err != nil || n == 0 {
			return
		}
		answer := append([]byte(at.Addr().String()+" "), buf[:n]...)
		if _, err := uninterrupted(func() (int, error) { return unix.Write(c, answer) }); err != nil {
			return
		}
	}
}

// associate opens an association, exchanges messages, ends it, and returns the server's address.
func associate(t *testing.T, host *netns.Node, to netip.AddrPort) (server string) {
	t.Helper()
	host.Must(func() error {
		fd, at, err := sctpSocket(to)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(fd) }()
		if err := connect(fd, at); err != nil {
			return fmt.Errorf("association with %s: %w", to, err)
		}
		buf := make([]byte, 2048)
		for i := range 5 {
			message := fmt.Sprintf("message %d", i)
			if _, err := uninterrupted(func() (int, error) { return unix.Write(fd, []byte(message)) }); err != nil {
				return fmt.Errorf("%s: %w", message, err)
			}
			n, err := uninterrupted(func() (int, error) { return unix.Read(fd, buf) })
			if err != nil {
				return fmt.Errorf("answer to %s: %w", message, err)
			}
			var from, echoed string
			if _, err := fmt.Sscanf(string(buf[:n]), "%s message %s", &from, &echoed); err != nil || echoed != fmt.Sprint(i) || server != "" && from != server {
				return fmt.Errorf("%s to %s was answered %q, after server %q", message, to, buf[:n], server)
			}
			server = from
		}
		return nil
	})
	return server
}
