// SPDX-License-Identifier: Apache-2.0

// Transparent cubes are attached to and detached from a netdev while the host's own stack communicates there: no
// datagram is lost, in either direction.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

func TestAStackOnANetdevChangesUnderTraffic(t *testing.T) {
	t.Parallel()
	rounds := 4
	if soak {
		rounds *= 100
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			host := d.lab.Host("veth1", "10.0.0.1/24")
			d.lab.Run("ip", "addr", "add", "10.0.0.2/24", "dev", "veth1")
			for _, th := range []string{"th1", "th2", "th3"} {
				d.Do("transparenthelloworld add " + th + " type=" + kind)
			}
			// The first one on a veth at XDP switches its receive path, which is the kernel's to do without loss.
			d.Do("attach th1 veth1")
			reaches(t, host, "10.0.0.2")
			e := startEcho(t, host, d.lab.Namespace, "10.0.0.2:4711")
			for range rounds {
				for _, line := range []string{
					"attach th2 veth1 position=first", "attach th3 veth1 before=th1", "th2 set loglevel=DEBUG", "detach th3 veth1",
					"attach th3 veth1 position=last", "th2 set loglevel=INFO", "detach th2 veth1", "detach th3 veth1",
				} {
					d.Do(line)
				}
			}
			n, err := e.stop()
			if err != nil {
				t.Errorf("after %d datagrams: %v", n, err)
			}
			t.Logf("%d changes, %d datagrams there and back", rounds*8, n)
		})
	}
}

// echo is datagrams that a host sends to a server and gets back.
type echo struct {
	conn   *net.UDPConn
	server *net.UDPConn
	end    chan struct{}
	result chan error
	back   uint32
}

// window is the number of datagrams in flight: few enough that no socket's buffer overflows.
const window = 64

// startEcho starts the exchange.
func startEcho(t testing.TB, from *netns.Node, to *netns.Namespace, address string) *echo {
	t.Helper()
	e := &echo{end: make(chan struct{}), result: make(chan error, 1)}
	addr := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(address))
	to.Must(func() (err error) { e.server, err = net.ListenUDP("udp", addr); return err })
	t.Cleanup(func() { _ = e.server.Close() })
	from.Must(func() (err error) { e.conn, err = net.DialUDP("udp", nil, addr); return err })
	t.Cleanup(func() { _ = e.conn.Close() })
	go e.serve()
	go func() { e.result <- e.talk() }()
	return e
}

func (e *echo) serve() {
	buf := make([]byte, 64)
	for {
		n, from, err := e.server.ReadFromUDPAddrPort(buf)
		if err != nil {
			return
		}
		if _, err := e.server.WriteToUDPAddrPort(buf[:n], from); err != nil {
			return
		}
	}
}

// talk keeps a window of datagrams in flight until the end, and waits for them all.
func (e *echo) talk() error {
	seen := map[uint32]bool{}
	var sent uint32
	buf := make([]byte, 32)
	for ending := false; ; {
		select {
		case <-e.end:
			ending = true
		default:
		}
		for !ending && sent-e.back < window {
			binary.BigEndian.PutUint32(buf, sent)
			if _, err := e.conn.Write(buf); err != nil {
				return fmt.Errorf("datagram %d: %w", sent, err)
			}
			sent++
		}
		if e.back == sent {
			return nil
		}
		if err := e.conn.SetReadDeadline(time.Now().Add(patience / 4)); err != nil {
			return err
		}
		n, err := e.conn.Read(buf)
		if err != nil {
			return fmt.Errorf("%d of %d did not come back: %w", sent-e.back, sent, err)
		}
		number := binary.BigEndian.Uint32(buf)
		if n != len(buf) || seen[number] {
			return errors.New("a datagram came back twice, or cut")
		}
		seen[number] = true
		e.back++
	}
}

// stop stops the exchange and returns how many datagrams came back.
func (e *echo) stop() (uint32, error) {
	close(e.end)
	err := <-e.result
	return e.back, err
}
