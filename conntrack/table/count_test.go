// SPDX-License-Identifier: Apache-2.0

package table

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

// counted finds the counts of the connection between two ends by listing all, "" if there is none.
func (l *packetLab) counted(port uint16) (found string) {
	l.t.Helper()
	for cursor, more := uint32(0), true; more; more = cursor != 0 {
		cursor = Counters{l.Table}.Page(cursor, 2, func(e *Entry, c Counts) bool {
			if e.Key.Port[0].Number() != port && e.Key.Port[1].Number() != port {
				return false
			}
			if found != "" {
				l.t.Errorf("the connection of port %d is shown twice", port)
			}
			found = fmt.Sprintf("%d %d, %d %d", c.Original.Packets, c.Original.Bytes, c.Reply.Packets, c.Reply.Bytes)
			return true
		})
	}
	return found
}

func (l *packetLab) wantCount(name string, port uint16, want string) {
	l.t.Helper()
	if got := l.counted(port); got != want {
		l.t.Errorf("%s: counted %q, want %q", name, got, want)
	}
}

// loadCounting loads a program that counts, or not.
func loadCounting(t testing.TB, object []byte, counts bool) *packetLab {
	t.Helper()
	needPackets(t)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	if err := spec.Variables["counts"].Set(counts); err != nil {
		t.Fatal(err)
	}
	l := loadSpec(t, spec, 256)
	return &packetLab{l, mappedOf[verdict](l, "verdicts")}
}

// udpBytes is a packet of UDP with a payload, to 10.0.0.2 or back, in a frame that is padded as Ethernet does.
func udpBytes(sport uint16, payload int, reply bool) []byte {
	from, to, ports := hostA, hostB, [2]uint16{sport, 53}
	if reply {
		from, to, ports = hostB, hostA, [2]uint16{53, sport}
	}
	frame := framed(pkt.IPv4Header{From: from, To: to, Protocol: udp, TTL: 64}.
		Packet(pkt.UDPDatagram(from, to, ports[0], ports[1], make([]byte, payload))))
	return append(frame, make([]byte, max(0, 60-len(frame)))...)
}

func TestPacketsOfConnectionsAreCounted(t *testing.T) {
	for name, object := range packetObjects {
		t.Run(name, func(t *testing.T) {
			l := loadCounting(t, object, true)
			if err := (Counters{l.Table}).Start(7); err != nil {
				t.Fatal(err)
			}
			l.v.Zone = 7
			l.class("the first", udpBytes(1, 2, false), conntrack.New)
			l.wantCount("half open, without the padding", 1, "1 30, 0 0")
			l.class("another one", udpBytes(1, 100, false), conntrack.New)
			l.wantCount("half open", 1, "2 158, 0 0")
			l.class("the reply", udpBytes(1, 1000, true), conntrack.Established)
			l.wantCount("open", 1, "2 158, 1 1028")
			l.class("the next", udpBytes(1, 0, false), conntrack.Established)
			l.wantCount("open", 1, "3 186, 1 1028")
			l.handshake(9, 2)
			l.wantCount("of TCP", 2, "2 80, 1 40")
			l.class("refused by the rules", udpBytes(3, 100, false), conntrack.New)
			l.pass(udpBytes(4, 100, false), 1)
			l.wantCount("refused", 4, "")
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l.open()
			l.wantCount("after a restart", 1, "3 186, 1 1028")
			if err := (Counters{l.Table}).Start(7); err != nil {
				t.Fatal(err)
			}
			if err := l.Resize(2 * step); err != nil {
				t.Fatal(err)
			}
			l.wantCount("in a larger table", 1, "3 186, 1 1028")
			l.remove(all)
			for port := range uint16(250) { // all numbers are used again
				l.class("the first of another connection", udpBytes(1000+port, 2, false), conntrack.New)
				l.class("its reply", udpBytes(1000+port, 2, true), conntrack.Established)
				l.wantCount("of another connection", 1000+port, "1 30, 1 30")
			}
			if err := (Counters{l.Table}).Stop(7); err != nil {
				t.Fatal(err)
			}
			l.class("without memory", udpBytes(1000, 2, false), conntrack.Established)
			l.wantCount("without memory", 1000, "0 0, 0 0")
		})
	}
}

// TestWithoutTheConstantNothingIsCounted: whatever other zones want.
func TestWithoutTheConstantNothingIsCounted(t *testing.T) {
	l := loadCounting(t, packetTC, false)
	if err := (Counters{l.Table}).Start(7); err != nil {
		t.Fatal(err)
	}
	l.class("the first", udpBytes(1, 2, false), conntrack.New)
	l.class("the reply", udpBytes(1, 2, true), conntrack.Established)
	l.wantCount("nothing", 1, "0 0, 0 0")
}

// TestMemoryOfCountsIsThereWhileAZoneWantsThem, and a table of a cube's own has none.
func TestMemoryOfCountsIsThereWhileAZoneWantsThem(t *testing.T) {
	l := newPacketLab(t, packetTC, 3*step)
	c := Counters{l.Table}
	has := func(want int) {
		t.Helper()
		if got := len(l.counting.large.elem) + len(l.counting.young.elem); got != want {
			t.Errorf("there are %d parts of counts, want %d", got, want)
		}
	}
	has(0)
	for _, zone := range []uint16{1, 2, 2} {
		if err := c.Start(zone); err != nil {
			t.Fatal(err)
		}
	}
	has(4)
	if err := errors.Join(l.Resize(6*step-1), l.Resize(step)); err != nil {
		t.Fatal(err)
	}
	has(3)
	if err := c.Stop(2); err != nil {
		t.Fatal(err)
	}
	has(3)
	if err := errors.Join(c.Stop(3), l.Own(1, "a"), l.Own(1, "")); err != nil {
		t.Fatal(err)
	}
	has(0)
	own := newLab(t, tableTC, 256)
	if err := (Counters{own.Table}).Start(1); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("a table without counts: %v", err)
	}
}

// TestASessionTakesAtMost256Bytes: with its counts, and twice the words of its line, while the table grows.
func TestASessionTakesAtMost256Bytes(t *testing.T) {
	lines := 2 * unsafe.Sizeof(line{}) / entriesOfLine
	if bytes := unsafe.Sizeof(Entry{}) + unsafe.Sizeof(sides{}) + 2*lines + 2*unsafe.Sizeof(uint32(0)); bytes > 256 {
		t.Errorf("a session takes %d bytes", bytes)
	}
}
