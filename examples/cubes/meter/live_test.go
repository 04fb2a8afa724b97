// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// Packets of an upload are in a class of their own, so that nothing else is counted there.
const (
	uploadDSCP = 10
	overhead   = 14 + 20 + 32 // headers of a segment, with timestamps
)

// upload sends bytes over TCP from the first host to the second, without end if n is 0, until the test ends. It returns
// how many have arrived.
func upload(t *testing.T, l *bpftest.Lab, n int64) (arrived *atomic.Int64) {
	t.Helper()
	far, near := l.Hosts[0], l.Hosts[1]
	far.Run("ip", "addr", "add", "10.0.0.1/24", "dev", netns.Inner)
	near.Run("ip", "addr", "add", "10.0.0.2/24", "dev", netns.Inner)
	var listener net.Listener
	near.Must(func() (err error) { listener, err = net.Listen("tcp4", "10.0.0.2:7000"); return err })
	var c net.Conn
	d := net.Dialer{Timeout: pace.Stretch(10 * time.Second), Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		return errors.Join(raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_TOS, uploadDSCP<<2)
		}), err)
	}}
	far.Must(func() (err error) { c, err = d.DialContext(context.Background(), "tcp4", "10.0.0.2:7000"); return err })
	in, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	arrived = new(atomic.Int64)
	sent, received := make(chan struct{}), make(chan error, 1)
	go func() {
		defer close(sent)
		block := make([]byte, 64<<10)
		for left := n; n == 0 || left > 0; left -= int64(len(block)) {
			if _, err := c.Write(block); err != nil {
				return // the test ends
			}
		}
	}()
	go func() {
		block := make([]byte, 64<<10)
		for {
			got, err := in.Read(block)
			arrived.Add(int64(got))
			if err != nil {
				received <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = listener.Close()
		_ = c.Close()
		_ = in.Close()
		<-sent
		if err := <-received; err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the upload ends: %v", err)
		}
	})
	return arrived
}

// TestAnUploadIsLimited: TCP of the hosts' own gets the rate, at each hook. At no time may more pass than the rate and a
// burst; how close TCP comes to it also depends on the machine, so one good second is enough.
func TestAnUploadIsLimited(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			o := bpftest.Options{Type: typ, Hosts: 2}
			if typ != cube.TypeTC {
				o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
			}
			l := bpftest.New(t, o)
			const rate, burst = 16_000_000, 800_000 // 400 ms, twice what TCP waits at least before it repeats a segment
			policed(l, fmt.Sprintf(`{"dscp":[{"value":%d,"class":1}],"limit":[{"class":1,"direction":"INGRESS","rate":%d,"burst":%d}]}`,
				uploadDSCP, rate, burst))
			arrived := upload(t, l, 0)
			conforming := func() float64 { return float64(countsOf(t, l, "p limit 1 INGRESS").ConformingBytes) }
			exceeding := func() uint64 { return countsOf(t, l, "p limit 1 INGRESS").ExceedingPackets }
			begin, first := time.Now(), conforming()
			from, bytes, data := begin, first, arrived.Load()
			netns.Eventually(t, 4*bpftest.Patience, func() error {
				now := conforming()
				all := time.Since(begin).Seconds()
				if most := rate/8*all + burst; now-first > most {
					t.Fatalf("%.0f bytes pass in %.1f s, more than the rate and a burst, %.0f", now-first, all, most)
				}
				if time.Since(from) < time.Second {
					return errWait
				}
				second := time.Since(from).Seconds()
				passed, came := (now-bytes)*8/second, float64(arrived.Load()-data)*8/second
				from, bytes, data = time.Now(), now, arrived.Load()
				if passed < 0.95*rate || came < 0.85*rate || exceeding() == 0 {
					return fmt.Errorf("%.1f Mbit/s conform and %.1f of data arrive, the rate is %.1f; %d packets exceed it",
						passed/1e6, came/1e6, rate/1e6, exceeding())
				}
				t.Logf("%.1f Mbit/s conform, %.1f of data arrive, the rate is %.1f", passed/1e6, came/1e6, rate/1e6)
				return nil
			})
			if dropped := l.Fates("p"); dropped["ingress-exceeded"] == 0 {
				t.Errorf("no packet above the rate is dropped: %v", dropped)
			}
		})
	}
}

var errWait = errors.New("a second has not passed")

// TestSuperframesCountAsOnTheWire: each segment, with its headers.
func TestSuperframesCountAsOnTheWire(t *testing.T) {
	const size, segment = 4 << 20, 1448
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeTC, Hosts: 2})
	policed(l, fmt.Sprintf(`{"dscp":[{"value":%d,"class":1}],"limit":[{"class":1,"direction":"INGRESS"}]}`, uploadDSCP))
	arrived := upload(t, l, size)
	netns.Eventually(t, 2*bpftest.Patience, func() error {
		if n := arrived.Load(); n != size {
			return fmt.Errorf("%d of %d bytes have arrived", n, size)
		}
		return nil
	})
	c, port := countsOf(t, l, "p limit 1 INGRESS"), l.Counters("f", "p1")
	if port.RxPackets*4 > c.ConformingPackets || c.ConformingPackets < size/segment {
		t.Errorf("%d packets are counted for %d frames, want %d segments of superframes", c.ConformingPackets, port.RxPackets, size/segment)
	}
	// A segment that TCP sends twice is the only other thing in this class.
	if data := c.ConformingBytes - c.ConformingPackets*overhead; data < size || data > size+size/100 {
		t.Errorf("%d packets with %d bytes are %d without headers, want %d", c.ConformingPackets, c.ConformingBytes, data, size)
	}
}
