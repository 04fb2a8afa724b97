// SPDX-License-Identifier: Apache-2.0

package ddosmitigator_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// frame is a datagram of 72 or 92 bytes.
func frame(from, to string) []byte {
	e := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02")
	if strings.Contains(from, ":") {
		return e.IPv6(from, to).UDP(1, 2).Payload(30).Bytes()
	}
	return e.IPv4(from, to).UDP(1, 2).Payload(30).Bytes()
}

// tagged is a frame in a VLAN.
func tagged(frame []byte) []byte {
	return slices.Concat(frame[:12], []byte{0x81, 0x00, 0, 10}, frame[12:])
}

// solicitation is a neighbour solicitation, with a hop limit.
func solicitation(from, to string, hopLimit byte) []byte {
	message := pkt.ICMPv6Message(from, to, 135, 0, 0, make([]byte, 16))
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(pkt.IPv6Header{From: from, To: to, Next: 58, HopLimit: hopLimit}.Packet(message)).Bytes()
}

var arp = pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").ARPRequest("02:00:00:00:00:01", "192.0.2.1", "10.0.0.2").Bytes()

// each runs a test at each hook, with a mitigator d on veth1.
func each(t *testing.T, conf string, test func(t *testing.T, l *bpftest.Lab)) {
	bpftest.Each(t, bpftest.Options{Hosts: 1}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("ddosmitigator", "d", conf)
		l.Attach("d", "veth1")
		test(t, l)
	})
}

// expect fails the test unless a frame has a fate: pass, or the reason of a drop.
func expect(t *testing.T, l *bpftest.Lab, what string, frame []byte, fate string) {
	t.Helper()
	want := bpftest.Outcome{Verdict: "drop", Fate: "d " + fate}
	if fate == "pass" {
		want.Verdict = "pass"
	}
	if got := l.Run("veth1", frame); got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// state reads a part of the mitigator.
func state[V any](t *testing.T, l *bpftest.Lab, words string) (v V) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.Read(words)), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// counts are those of an entry.
type counts struct {
	Packets uint64 `json:"drop-pkts"`
	Bytes   uint64 `json:"drop-bytes"`
}

const (
	src = "blacklist-src"
	dst = "blacklist-dst"
)

func TestListedAddressesAreDroppedAndCounted(t *testing.T) {
	each(t, `{"blacklist-src":[{"ip":"192.0.2.1"},{"ip":"192.0.2.0/24"},{"ip":"2001:db8::/32"},{"ip":"2001:db8::bad"},{"ip":"8000::/1"}],
		"blacklist-dst":[{"ip":"198.51.100.0/24"},{"ip":"2001:db8:1::/64"}]}`, func(t *testing.T, l *bpftest.Lab) {
		for _, tt := range []struct{ from, to, fate string }{
			{"192.0.2.1", "10.0.0.1", src}, {"192.0.2.2", "10.0.0.1", src}, {"192.0.3.1", "10.0.0.1", "pass"},
			{"10.0.0.1", "198.51.100.7", dst}, {"10.0.0.1", "192.0.2.1", "pass"}, {"198.51.100.7", "10.0.0.1", "pass"},
			{"192.0.2.1", "198.51.100.7", src},
			{"2001:db8::bad", "fd00::1", src}, {"2001:db8::1", "fd00::1", src}, {"2001:db9::1", "fd00::1", "pass"},
			{"2001:db9::1", "2001:db8:1::1", dst}, {"2001:db9::1", "2001:db8:1:1::1", "pass"}, {"8000::1", "fd00::1", src},
		} {
			expect(t, l, tt.from+" to "+tt.to, frame(tt.from, tt.to), tt.fate)
			expect(t, l, tt.from+" to "+tt.to+" in a VLAN", tagged(frame(tt.from, tt.to)), tt.fate)
		}
		const four, six = 72 + 76, 92 + 96 // bytes of a frame without and with a tag
		for words, want := range map[string]counts{
			"d blacklist-src 192.0.2.1": {4, 2 * four}, "d blacklist-src 192.0.2.0/24": {2, four},
			"d blacklist-src 2001:db8::bad": {2, six}, "d blacklist-src 2001:db8::/32": {2, six}, "d blacklist-src 8000::/1": {2, six},
			"d blacklist-dst 198.51.100.0/24": {2, four}, "d blacklist-dst 2001:db8:1::/64": {2, six},
		} {
			if got := state[counts](t, l, words); got != want {
				t.Errorf("%s: %+v, want %+v", words, got, want)
			}
		}
		if got := state[struct{ Pkts, Bytes uint64 }](t, l, "d stats"); got.Pkts != 16 || got.Bytes != 4*four+4*six {
			t.Errorf("%+v were dropped, want 16 packets of %d bytes", got, 4*four+4*six)
		}
	})
}

// TestTheAllowListWins over every other list, as source and as destination, with longer and with shorter prefixes.
func TestTheAllowListWins(t *testing.T) {
	each(t, `{"blacklist-src":[{"ip":"192.0.2.1"},{"ip":"203.0.113.0/24"},{"ip":"2001:db8::1"}],"blacklist-dst":[{"ip":"198.51.100.0/24"}],
		"allow":[{"ip":"192.0.2.0/24"},{"ip":"203.0.113.7"},{"ip":"198.51.100.9"},{"ip":"2001:db8::/32"}]}`, func(t *testing.T, l *bpftest.Lab) {
		for _, tt := range []struct{ from, to, fate string }{
			{"192.0.2.1", "10.0.0.1", "pass"}, {"203.0.113.7", "10.0.0.1", "pass"}, {"203.0.113.8", "10.0.0.1", src},
			{"203.0.113.8", "198.51.100.9", "pass"}, {"10.0.0.1", "198.51.100.8", dst}, {"192.0.2.9", "198.51.100.8", "pass"},
			{"2001:db8::1", "fd00::1", "pass"},
		} {
			expect(t, l, tt.from+" to "+tt.to, frame(tt.from, tt.to), tt.fate)
		}
		l.Set("DELETE", "d allow 192.0.2.0/24", "")
		expect(t, l, "no longer allowed", frame("192.0.2.1", "10.0.0.1"), src)
		l.Set("POST", "d allow 192.0.2.1", "{}")
		expect(t, l, "a prefix of two lists", frame("192.0.2.1", "10.0.0.1"), "pass")
		l.Set("DELETE", "d blacklist-src 192.0.2.1", "")
		l.Set("DELETE", "d allow 192.0.2.1", "")
		expect(t, l, "a prefix of none", frame("192.0.2.1", "10.0.0.1"), "pass")
	})
}

// TestTheLinkStays: ARP and neighbour discovery pass, whatever is listed.
func TestTheLinkStays(t *testing.T) {
	each(t, `{"blacklist-src":[{"ip":"192.0.2.0/24"},{"ip":"fe80::/10"},{"ip":"fd00::/8"}],"auto-src-packets":1,"auto-dst-packets":1}`, func(t *testing.T, l *bpftest.Lab) {
		for range 5 {
			expect(t, l, "ARP", arp, "pass")
			expect(t, l, "a solicitation", solicitation("fe80::1", "ff02::1:ff00:2", 255), "pass")
			expect(t, l, "a solicitation in a VLAN", tagged(solicitation("fd00::1", "fd00::2", 255)), "pass")
		}
		expect(t, l, "a solicitation from elsewhere", solicitation("fd00::1", "fd00::2", 254), src)
		expect(t, l, "a datagram", frame("fe80::1", "fe80::2"), src)
	})
}

// TestListsChangeAsAWhole: adding a list adds it, replacing it removes the others, and deleting it empties it. (The first
// Polycube deleted blacklist-dst when it was to be added.)
func TestListsChangeAsAWhole(t *testing.T) {
	each(t, `{}`, func(t *testing.T, l *bpftest.Lab) {
		for _, list := range []string{src, dst} {
			packet := func(listed string) []byte {
				if list == src {
					return frame(listed, "10.0.0.9")
				}
				return frame("10.0.0.9", listed)
			}
			l.Set("POST", "d "+list, `[{"ip":"192.0.2.1"},{"ip":"192.0.2.2"}]`)
			expect(t, l, "of an added list", packet("192.0.2.1"), list)
			expect(t, l, "of an added list", packet("192.0.2.2"), list)
			l.Set("PUT", "d "+list, `[{"ip":"192.0.2.2"},{"ip":"192.0.2.3"}]`)
			expect(t, l, "no longer in the list", packet("192.0.2.1"), "pass")
			expect(t, l, "in both lists", packet("192.0.2.2"), list)
			expect(t, l, "in the new list", packet("192.0.2.3"), list)
			if got := state[counts](t, l, "d "+list+" 192.0.2.2"); got.Packets != 2 {
				t.Errorf("%s: an entry that stays has %d packets, want 2", list, got.Packets)
			}
			l.Set("DELETE", "d "+list, "")
			expect(t, l, "of an empty list", packet("192.0.2.2"), "pass")
			l.Set("POST", "d "+list+" 192.0.2.2", "{}")
			if got := state[counts](t, l, "d "+list+" 192.0.2.2"); got.Packets != 0 {
				t.Errorf("%s: an entry that returns has %d packets", list, got.Packets)
			}
		}
	})
}

func TestAnEntryGoesAfterItsLifetime(t *testing.T) {
	each(t, `{}`, func(t *testing.T, l *bpftest.Lab) {
		l.Set("POST", "d blacklist-src 192.0.2.1", `{"lifetime":1}`)
		l.Set("POST", "d blacklist-src 192.0.2.2", `{"lifetime":1000}`)
		l.Set("POST", "d blacklist-src 192.0.2.3", `{"lifetime":1}`)
		l.Set("PATCH", "d blacklist-src 192.0.2.3 lifetime", `0`)
		l.Set("POST", "d allow 192.0.2.0/24", `{"lifetime":1}`)
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := l.Read("d blacklist-src"); strings.Contains(got, `"192.0.2.1"`) {
				return fmt.Errorf("the entry is still there: %s", got)
			}
			if got := l.Read("d allow"); got != "[]" {
				return fmt.Errorf("the allowed prefix is still there: %s", got)
			}
			return nil
		})
		expect(t, l, "after the lifetime", frame("192.0.2.1", "10.0.0.1"), "pass")
		expect(t, l, "within the lifetime", frame("192.0.2.2", "10.0.0.1"), src)
		expect(t, l, "without one", frame("192.0.2.3", "10.0.0.1"), src)
		left := state[struct {
			Left uint32 `json:"time-left"`
		}](t, l, "d blacklist-src 192.0.2.2").Left
		if left < 900 || left > 1000 {
			t.Errorf("the other entry has %d s left, want up to 1000", left)
		}
	})
}

// TestARestartKeepsEntriesCountersAndLifetimes: and the next cube with the number has none of them.
func TestARestartKeepsEntriesCountersAndLifetimes(t *testing.T) {
	each(t, `{"blacklist-src":[{"ip":"192.0.2.1","lifetime":1000},{"ip":"192.0.2.2","lifetime":1}],"auto-src-packets":1,"auto-lifetime":1000}`, func(t *testing.T, l *bpftest.Lab) {
		expect(t, l, "a listed source", frame("192.0.2.1", "10.0.0.1"), src)
		exceed(t, l, frame("203.0.113.1", "10.0.0.1"), "detected-src")
		l.Restart(nil)
		expect(t, l, "after a restart", frame("192.0.2.1", "10.0.0.1"), src)
		expect(t, l, "an automatic entry after a restart", frame("203.0.113.1", "10.0.0.1"), "detected-src")
		if got := state[counts](t, l, "d blacklist-src 192.0.2.1"); got.Packets != 2 {
			t.Errorf("the entry has %d packets, want 2", got.Packets)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := l.Read("d blacklist-src"); strings.Contains(got, "192.0.2.2") {
				return fmt.Errorf("the entry whose lifetime is over is still there: %s", got)
			}
			return nil
		})
		l.Detach("d", "veth1")
		l.Set("DELETE", "d", "")
		l.Create("ddosmitigator", "d", `{"auto-src-packets":1000000}`)
		l.Attach("d", "veth1")
		expect(t, l, "a new cube", frame("192.0.2.1", "10.0.0.1"), "pass")
		expect(t, l, "a new cube", frame("203.0.113.1", "10.0.0.1"), "pass")
	})
}

func TestInvalidEntriesAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("ddosmitigator", "d", `{"blacklist-src":[{"ip":"192.0.2.1"}]}`)
	l.Attach("d", "veth1")
	before := l.Read("d")
	for _, tt := range []struct{ words, body, says string }{
		{"d blacklist-src 192.0.2.300", `{}`, "192.0.2.300"},
		{"d blacklist-src 192.0.2.1/24", `{}`, "192.0.2.1/24"},
		{"d blacklist-src 192.0.2.1/32", `{}`, "192.0.2.1"},
		{"d blacklist-dst 0.0.0.0/0", `{}`, "it contains every address"},
		{"d allow ::/0", `{}`, "it contains every address"},
		{"d blacklist-src ::ffff:192.0.2.1", `{}`, "IPv4"},
		{"d blacklist-src 192.0.2.1", `{}`, "exist"},
		{"d blacklist-src 192.0.2.2", `{"lifetime":-1}`, "lifetime"},
	} {
		if err := l.Try("POST", tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s: %v, want an error with %q", tt.words, tt.body, err, tt.says)
		}
	}
	for _, tt := range []struct{ words, body, says string }{
		{"d auto-lifetime", `0`, "auto-lifetime"}, {"d auto-src-packets", `-1`, "auto-src-packets"},
	} {
		if err := l.Try("PATCH", tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s: %v, want an error with %q", tt.words, tt.body, err, tt.says)
		}
	}
	if err := l.Try("DELETE", "d detected SRC 192.0.2.1", ""); err == nil {
		t.Error("an address that is not listed can be released")
	}
	if after := l.Read("d"); after != before {
		t.Errorf("refused changes have changed\n%s\nto\n%s", before, after)
	}
	expect(t, l, "after refused changes", frame("192.0.2.2", "10.0.0.1"), "pass")
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
