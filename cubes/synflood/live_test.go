// SPDX-License-Identifier: Apache-2.0

package synflood_test

// Connections of the kernel's own TCP through the cube, at each hook, alone and during a flood.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// everyHook runs a test at each hook with a machine whose client has addresses.
func everyHook(t *testing.T, body string, test func(t *testing.T, m *machine)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			o := bpftest.Options{Type: typ, Hosts: 1, Follow: true, ServicesIn: services, Host: []netns.Option{netns.WithIPv6()}}
			if typ != cube.TypeTC {
				o.Host = append(o.Host, netns.WithoutTxChecksum(), netns.WithGRO())
			}
			m := protect(t, bpftest.New(t, o), body)
			client := m.Hosts[0]
			client.Run("ip", "addr", "add", client4+"/24", "dev", netns.Inner)
			client.Run("ip", "addr", "add", client6+"/64", "dev", netns.Inner, "nodad")
			test(t, m)
		})
	}
}

// patience is how long a connection may take to be opened: a lost packet is sent again after a second.
var patience = pace.Stretch(15 * time.Second)

// soon is how long a test waits for what should not happen.
const soon = 2 * time.Second

// dial connects the client to the server.
func (m *machine) dial(ctx context.Context, address string) (c net.Conn, err error) {
	err = m.Hosts[0].Do(func() (err error) {
		c, err = new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(address, fmt.Sprint(port)))
		return err
	})
	return c, err
}

// pair connects the client to the server, and returns both ends.
func (m *machine) pair(address string) (c, in net.Conn) {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), patience)
	defer cancel()
	c, err := m.dial(ctx, address)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = c.Close() })
	if err := m.listener.(*net.TCPListener).SetDeadline(time.Now().Add(patience)); err != nil {
		m.t.Fatal(err)
	}
	if in, err = m.listener.Accept(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = in.Close() })
	return c, in
}

// transfer sends bytes from one end to the other, and compares them.
func transfer(from, to net.Conn, size int64) error {
	deadline := time.Now().Add(4 * patience)
	if err := errors.Join(from.SetDeadline(deadline), to.SetDeadline(deadline)); err != nil {
		return err
	}
	sum := func() io.Reader { return io.LimitReader(rand.NewChaCha8([32]byte{1}), size) }
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(from, sum())
		sent <- err
	}()
	got, want := sha256.New(), sha256.New()
	_, err := io.CopyN(got, to, size)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if _, err := io.Copy(want, sum()); err != nil {
		return err
	}
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		return errors.New("other bytes arrived")
	}
	return nil
}

// negotiated are the bits of TCP_INFO for options.
const negotiated = 1 | 2 | 4 // timestamps, SACK, window scale

// TestConnectionsAreMadeFromCookies: with all options, and without where the kernel has a secret in timestamps. Both ends
// agree on window scales, and data passes both ways.
func TestConnectionsAreMadeFromCookies(t *testing.T) {
	everyHook(t, on, func(t *testing.T, m *machine) {
		for n, tt := range []struct {
			what, address, timestamps string
			options                   uint8
		}{
			{"IPv4", server4, "2", negotiated},
			{"IPv6", server6, "2", negotiated},
			{"IPv4 with a secret", server4, "1", 0},
			{"IPv6 with a secret", server6, "1", 0},
		} {
			sysctl(t, m, map[string]string{"ipv4/tcp_timestamps": tt.timestamps})
			m.reads("s cookies options", fmt.Sprint(tt.options != 0))
			c, in := m.pair(tt.address)
			far, near := info(t, c), info(t, in)
			if far.options&negotiated != tt.options || near.options&negotiated != tt.options {
				t.Errorf("%s: the client has the options %#x, the server %#x, want %#x", tt.what, far.options, near.options, tt.options)
			}
			if far.scales != near.scales>>4|near.scales<<4 || tt.options != 0 && near.scales>>4 != 7 {
				t.Errorf("%s: the client has the window scales %#x, the server %#x", tt.what, far.scales, near.scales)
			}
			for what, err := range map[string]error{"up": transfer(c, in, 8<<20), "down": transfer(in, c, 8<<20)} {
				if err != nil {
					t.Errorf("%s: 8 MB %s: %v", tt.what, what, err)
				}
			}
			if got := m.counts(); got["cookies-sent"] < uint64(n+1) || got["cookies-valid"] < uint64(n+1) || got["passed"] != 0 {
				t.Errorf("%s: counters are %v, want a cookie for each connection", tt.what, got)
			}
		}
	})
}

// TestUploadsBeginAtOnce: data that follows the ACK in the same batch is not taken for a part of a flood.
func TestUploadsBeginAtOnce(t *testing.T) {
	everyHook(t, on, func(t *testing.T, m *machine) {
		for range 20 {
			c, in := m.pair(server4)
			if err := transfer(c, in, 64<<10); err != nil {
				t.Fatal(err)
			}
		}
		if fates := m.Fates("s"); fates["invalid-cookie"] != 0 {
			t.Errorf("fates are %v: packets of connections were dropped", fates)
		}
	})
}

// TestProtectionSurvivesARestart: a client gets its cookie from the programs while the daemon is away, and the counters stay.
func TestProtectionSurvivesARestart(t *testing.T) {
	everyHook(t, on, func(t *testing.T, m *machine) {
		m.pair(server4)
		before := m.counts()["cookies-valid"]
		m.Restart(func() { m.pair(server4) })
		m.pair(server4)
		if got := m.counts()["cookies-valid"]; got < before+2 {
			t.Errorf("%d cookies are counted as valid, want %d", got, before+2)
		}
		m.reads("s cookies status", `"ACTIVE"`)
	})
}

// flood sends SYNs from random addresses until the returned function is called, which returns how many they were.
func (m *machine) flood() (stop func() int) {
	m.t.Helper()
	raw := netns.OpenRaw(m.t, m.Hosts[0], netns.Inner)
	done, ended := make(chan struct{}), make(chan int, 1)
	go func() {
		n := 0
		defer func() { ended <- n }()
		pause := time.NewTicker(2 * time.Millisecond) // for the servers, which have the CPU to themselves otherwise
		defer pause.Stop()
		for rnd := rand.New(rand.NewPCG(1, 2)); ; {
			select {
			case <-done:
				return
			case <-pause.C:
			}
			for range 64 {
				if err := raw.Send(m.frame(stranger(rnd))); err != nil && !errors.Is(err, unix.ENOBUFS) {
					m.t.Errorf("the flood ends: %v", err)
					return
				}
				n++
			}
		}
	}()
	return sync.OnceValue(func() int { close(done); return <-ended })
}

// stranger is a SYN from a random address.
func stranger(rnd *rand.Rand) segment {
	s := fromClient(false, syn, usual...)
	s.from = net.IPv4(198, 18|byte(rnd.IntN(2)), byte(rnd.Uint32()), byte(rnd.Uint32())).String()
	s.sport, s.seq = uint16(rnd.Uint32()), rnd.Uint32()
	return s
}

// TestAFloodDoesNotKeepClientsOut: with protection, connections are opened while it lasts; without, the queue of the server
// is full.
func TestAFloodDoesNotKeepClientsOut(t *testing.T) {
	everyHook(t, `{"threshold":100,"hold-time":3600,"protected-ports":[{"port":7000}]}`, func(t *testing.T, m *machine) {
		m.Lab.Lab.Run("ip", "route", "add", "198.18.0.0/15", "via", client4)
		sysctl(t, m, map[string]string{"ipv4/tcp_syncookies": "0", "ipv4/tcp_max_syn_backlog": "16"})
		stop := m.flood()
		defer stop()
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := m.counts()["syns"]; n < 2000 {
				return fmt.Errorf("%d SYNs have come", n)
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(t.Context(), soon)
		defer cancel()
		if c, err := m.dial(ctx, server4); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded) {
			if err == nil {
				_ = c.Close()
			}
			t.Errorf("without protection: %v, want no answer", err)
		}
		if got := m.counts(); got["cookies-sent"] != 0 {
			t.Errorf("without protection, counters are %v", got)
		}
		sysctl(t, m, wanted)
		m.Set("PATCH", "s protection", `"AUTO"`)
		m.reads("s cookies status", `"ACTIVE"`)
		for range 20 {
			c, in := m.pair(server4)
			if err := transfer(c, in, 4<<10); err != nil {
				t.Fatal(err)
			}
		}
		n := stop()
		got := m.counts()
		if got["cookies-sent"] < 100 || got["cookies-valid"] < 20 || got["unavailable"] > uint64(n) {
			t.Errorf("after a flood of %d SYNs, counters are %v", n, got)
		}
		t.Logf("a flood of %d SYNs: %v", n, got)
	})
}

// TestForgedACKsReachNoSocket: a flood of them is dropped.
func TestForgedACKsReachNoSocket(t *testing.T) {
	everyHook(t, on, func(t *testing.T, m *machine) {
		c, in := m.pair(server4)
		raw := netns.OpenRaw(t, m.Hosts[0], netns.Inner)
		rnd := rand.New(rand.NewPCG(3, 4))
		for range 500 {
			s := stranger(rnd)
			s.flags, s.options, s.acked = ack, nil, rnd.Uint32()
			if err := raw.Send(m.frame(s)); err != nil {
				t.Fatal(err)
			}
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := m.Fates("s")["invalid-cookie"]; got != 500 {
				return fmt.Errorf("%d ACKs were dropped, want 500", got)
			}
			return nil
		})
		if err := transfer(c, in, 64<<10); err != nil {
			t.Errorf("the connection of a client: %v", err)
		}
	})
}
