// SPDX-License-Identifier: Apache-2.0

package ddosmitigator_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// listing is an entry of the list `detected`.
type listing struct {
	End, IP, Reason string
	Rate            uint64
	Left            uint32 `json:"time-left"`
	Packets         uint64 `json:"drop-pkts"`
	Bytes           uint64 `json:"drop-bytes"`
}

// exceed repeats a frame until it is dropped for a reason: its rate is as high as the machine can send it.
func exceed(t *testing.T, l *bpftest.Lab, frame []byte, reason string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		l.Flood("veth1", frame, 2000)
		if got := l.Run("veth1", frame).Fate; got != "d "+reason {
			return fmt.Errorf("the fate is %s, want d %s", got, reason)
		}
		return nil
	})
}

// syn and ack are segments with a flag.
func syn(from, to string) []byte { return segment(from, to, pkt.TCPFlags{SYN: true}) }
func ack(from, to string) []byte { return segment(from, to, pkt.TCPFlags{ACK: true}) }
func segment(from, to string, flags pkt.TCPFlags) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4(from, to).TCP(1, 80, flags).Bytes()
}

// TestAddressesAboveARateAreListed for each leaf, and nothing else is: the other end of the packets, other packets, and those
// that no leaf is about.
func TestAddressesAboveARateAreListed(t *testing.T) {
	for _, tt := range []struct {
		leaf                  string
		limit                 int
		attack, same, another []byte
		listed                listing
		released              string
	}{
		{"auto-src-packets", 1000, frame("192.0.2.1", "10.0.0.1"), frame("192.0.2.1", "10.0.0.2"), frame("192.0.2.2", "10.0.0.1"),
			listing{End: "SRC", IP: "192.0.2.1", Reason: "PACKETS"}, "detected-src"},
		{"auto-dst-packets", 1000, frame("192.0.2.1", "10.0.0.1"), frame("192.0.2.2", "10.0.0.1"), frame("192.0.2.1", "10.0.0.2"),
			listing{End: "DST", IP: "10.0.0.1", Reason: "PACKETS"}, "detected-dst"},
		{"auto-src-syns", 1000, syn("192.0.2.1", "10.0.0.1"), frame("192.0.2.1", "10.0.0.2"), syn("192.0.2.2", "10.0.0.1"),
			listing{End: "SRC", IP: "192.0.2.1", Reason: "SYNS"}, "detected-src"},
		{"auto-dst-syns", 1000, syn("192.0.2.1", "10.0.0.1"), ack("192.0.2.2", "10.0.0.1"), syn("192.0.2.1", "10.0.0.2"),
			listing{End: "DST", IP: "10.0.0.1", Reason: "SYNS"}, "detected-dst"},
		{"auto-src-bytes", 72_000, frame("2001:db8::1", "fd00::1"), frame("2001:db8::1", "fd00::2"), frame("2001:db8::2", "fd00::1"),
			listing{End: "SRC", IP: "2001:db8::1", Reason: "BYTES"}, "detected-src"},
		{"auto-dst-bytes", 72_000, frame("2001:db8::1", "fd00::1"), frame("2001:db8::2", "fd00::1"), frame("2001:db8::1", "fd00::2"),
			listing{End: "DST", IP: "fd00::1", Reason: "BYTES"}, "detected-dst"},
	} {
		t.Run(tt.leaf, func(t *testing.T) {
			each(t, `{"auto-lifetime":1000}`, func(t *testing.T, l *bpftest.Lab) {
				l.Flood("veth1", tt.attack, 5000)
				expect(t, l, "without a limit", tt.attack, "pass")
				l.Set("PATCH", "d "+tt.leaf, fmt.Sprint(tt.limit))
				if strings.HasSuffix(tt.leaf, "syns") {
					l.Flood("veth1", ack("192.0.2.1", "10.0.0.1"), 5000)
					expect(t, l, "packets other than SYNs", ack("192.0.2.1", "10.0.0.1"), "pass")
				}
				exceed(t, l, tt.attack, tt.released)
				expect(t, l, "another packet of the address", tt.same, tt.released)
				expect(t, l, "a packet of another address", tt.another, "pass")
				all := state[[]listing](t, l, "d detected")
				if len(all) != 1 {
					t.Fatalf("%+v are listed, want one", all)
				}
				got := all[0]
				if got.Rate <= uint64(tt.limit) || got.Left == 0 || got.Left > 1000 || got.Packets < 2 || got.Bytes < 54*got.Packets {
					t.Errorf("the entry is %+v, with a limit of %d", got, tt.limit)
				}
				got.Rate, got.Left, got.Packets, got.Bytes = 0, 0, 0, 0
				if got != tt.listed {
					t.Errorf("%+v is listed, want %+v", got, tt.listed)
				}
				netns.Eventually(t, bpftest.Patience, func() error {
					if n := strings.Count(l.Logs(), `msg="address listed"`); n != 1 {
						return fmt.Errorf("%d addresses were announced, want 1:\n%s", n, l.Logs())
					}
					return nil
				})
				l.Set("PATCH", "d "+tt.leaf, "0")
				l.Set("DELETE", "d detected "+tt.listed.End+" "+tt.listed.IP, "")
				expect(t, l, "a released address", tt.attack, "pass")
			})
		})
	}
}

// TestSlowAddressesAreNotListed: a rate below the limit, which the test cannot exceed with the packets that it sends.
func TestSlowAddressesAreNotListed(t *testing.T) {
	each(t, `{"auto-src-packets":1000000,"auto-dst-bytes":1000000000}`, func(t *testing.T, l *bpftest.Lab) {
		for range 10 {
			l.Flood("veth1", frame("192.0.2.1", "10.0.0.1"), 1000)
		}
		expect(t, l, "below the limit", frame("192.0.2.1", "10.0.0.1"), "pass")
		if got := l.Read("d detected"); got != "[]" {
			t.Errorf("%s are listed", got)
		}
	})
}

// TestListedAddressesAreReleased after the time, and listed again if they are above the rate again.
func TestListedAddressesAreReleased(t *testing.T) {
	each(t, `{"auto-src-packets":1000,"auto-lifetime":1}`, func(t *testing.T, l *bpftest.Lab) {
		for range 2 {
			exceed(t, l, frame("192.0.2.1", "10.0.0.1"), "detected-src")
			netns.Eventually(t, bpftest.Patience, func() error {
				if got := l.Run("veth1", frame("192.0.2.1", "10.0.0.1")).Fate; got != "d pass" {
					return fmt.Errorf("the fate is still %s", got)
				}
				if got := l.Read("d detected"); got != "[]" {
					return fmt.Errorf("%s are still listed", got)
				}
				return nil
			})
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := strings.Count(l.Logs(), `msg="address released"`); n == 0 {
				return fmt.Errorf("no release was announced:\n%s", l.Logs())
			}
			return nil
		})
	})
}

// TestAllowedAddressesAreNeverListed, as source or as destination.
func TestAllowedAddressesAreNeverListed(t *testing.T) {
	each(t, `{"auto-src-packets":1000,"auto-dst-packets":1000,"allow":[{"ip":"192.0.2.0/24"},{"ip":"10.0.0.1"}]}`, func(t *testing.T, l *bpftest.Lab) {
		for _, f := range [][]byte{frame("192.0.2.1", "10.0.0.9"), frame("203.0.113.1", "10.0.0.1")} {
			for range 5 {
				l.Flood("veth1", f, 4000)
			}
			expect(t, l, "from or to an allowed address", f, "pass")
		}
		if got := l.Read("d detected"); got != "[]" {
			t.Errorf("%s are listed", got)
		}
		exceed(t, l, frame("203.0.113.1", "10.0.0.9"), "detected-src")
		l.Set("POST", "d allow 203.0.113.1", "{}")
		expect(t, l, "listed, but allowed by now", frame("203.0.113.1", "10.0.0.9"), "pass")
	})
}

// TestMitigatorsAreApart: they share the memory of rates and automatic entries.
func TestMitigatorsAreApart(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("ddosmitigator", "d", `{"auto-src-packets":1000,"auto-lifetime":1000}`)
		l.Attach("d", "veth1")
		l.Create("ddosmitigator", "e", `{"auto-src-packets":1000000}`)
		l.Attach("e", "veth2")
		exceed(t, l, frame("192.0.2.1", "10.0.0.1"), "detected-src")
		if got, want := l.Run("veth2", frame("192.0.2.1", "10.0.0.1")), (bpftest.Outcome{Verdict: "pass", Fate: "e pass"}); got != want {
			t.Errorf("on the other netdev: %+v, want %+v", got, want)
		}
		if got := l.Read("e detected"); got != "[]" {
			t.Errorf("the other cube has listed %s", got)
		}
		l.Set("DELETE", "e detected", "")
		expect(t, l, "after the other cube has released all", frame("192.0.2.1", "10.0.0.1"), "detected-src")
		l.Set("DELETE", "d detected", "")
		l.Set("PATCH", "d auto-src-packets", "0")
		expect(t, l, "after this one has", frame("192.0.2.1", "10.0.0.1"), "pass")
	})
}

// TestMoreThanFitIsNotListed: the packets pass, and are counted.
func TestMoreThanFitIsNotListed(t *testing.T) {
	each(t, `{"auto-src-packets":1000}`, func(t *testing.T, l *bpftest.Lab) {
		type key struct {
			High, Low uint64
			Cube, End uint32
		}
		type value [5]uint64
		m := l.Map("d", "detected")
		keys := make([]key, m.MaxEntries())
		for i := range keys {
			keys[i] = key{High: uint64(i), Cube: 1 << 20} // of no cube
		}
		if n, err := m.BatchUpdate(keys, make([]value, len(keys)), nil); err != nil || n != len(keys) {
			t.Fatalf("%d of %d entries: %v", n, len(keys), err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			l.Flood("veth1", frame("192.0.2.1", "10.0.0.1"), 2000)
			if state[map[string]uint64](t, l, "d stats")["not-listed"] == 0 {
				return errors.New("no packet is counted as not listed")
			}
			return nil
		})
		expect(t, l, "of an address without room", frame("192.0.2.1", "10.0.0.1"), "pass")
		if got := l.Read("d detected"); got != "[]" {
			t.Errorf("%s are listed", got)
		}
	})
}
