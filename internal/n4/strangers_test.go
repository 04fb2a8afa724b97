// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

// setups has nodes of an address set up associations.
func (b *bench) setups(from netip.Addr, nodes int) {
	b.t.Helper()
	var all []datagram
	for i := range nodes {
		m := message.NewAssociationSetupRequest(uint32(i+1), ie.NewNodeIDHeuristic(fmt.Sprintf("n%d.%x.example", i, from.As16())), ie.NewRecoveryTimeStamp(time.Now()))
		all = append(all, datagram{netip.AddrPortFrom(from, Port), bytesOf(b.t, m)})
	}
	if err := b.do(func() {
		for _, d := range all {
			b.receive(d)
		}
		b.out = nil // nobody is there
	}); err != nil {
		b.t.Fatal(err)
	}
}

// TestASenderHasFewAssociations: an IPv4 address, or an IPv6 prefix of 64 bits.
func TestASenderHasFewAssociations(t *testing.T) {
	b := start(t, slow)
	b.setups(netip.MustParseAddr("127.9.0.1"), maxOfSender+5)
	if n := len(b.status().Peers); n != maxOfSender {
		t.Errorf("an address has %d associations, want %d", n, maxOfSender)
	}
	if n := b.status().Strangers; n != 0 {
		t.Errorf("%d messages of an SMF are strangers'", n)
	}
	b.setups(netip.MustParseAddr("127.9.0.1"), 1) // it is there already
	b.setups(netip.MustParseAddr("2001:db8::1"), maxOfSender-1)
	b.setups(netip.MustParseAddr("2001:db8::2"), 2)
	b.setups(netip.MustParseAddr("2001:db8:0:1::1"), 1)
	if n := len(b.status().Peers); n != 2*maxOfSender+1 {
		t.Errorf("there are %d associations, want %d", n, 2*maxOfSender+1)
	}
	b.smf()
}

// TestStrangersDoNotTakeAllAssociations: if there are too many, one without heartbeats and sessions makes room; the SMFs that the
// configuration names find a place in any case.
func TestStrangersDoNotTakeAllAssociations(t *testing.T) {
	named := netip.AddrPortFrom(loopback(), Port)
	b := start(t, func(c *Config) { slow(c); c.Peers = []netip.AddrPort{named} })
	first := b.smf()
	b.establish1(first, plain()...)
	for i := range maxPeers / maxOfSender {
		b.setups(netip.AddrFrom4([4]byte{127, 9, 1, byte(i)}), maxOfSender)
	}
	if n := len(b.status().Peers); n != maxPeers {
		t.Fatalf("there are %d associations, want %d", n, maxPeers)
	}
	second := b.smf()
	if n := len(b.status().Peers); n != maxPeers {
		t.Errorf("there are %d associations, want %d", n, maxPeers)
	}
	if err := b.do(func() {
		for _, p := range b.peers { // they answer heartbeats
			p.answered = p.Since.Add(time.Second)
		}
	}); err != nil {
		t.Fatal(err)
	}
	_, err := b.stranger(netip.AddrPortFrom(loopback(), Port)).Associate(b.context())
	if r := refused(t, err); r.Cause != ie.CauseNoResourcesAvailable {
		t.Error(r)
	}
	if _, err := b.stranger(named).Associate(b.context()); err != nil {
		t.Error(err)
	}
	for _, m := range []*smf.SMF{first, second} {
		if err := m.Release(b.context()); err != nil {
			t.Error(err)
		}
	}
}

// repeats sends requests of an address, with numbers from first on, and returns how many were repetitions.
func (b *bench) repeats(from netip.Addr, first, n int) (repeated int) {
	b.t.Helper()
	if err := b.do(func() {
		before := b.counters.repeated
		for i := first; i < first+n; i++ {
			b.receive(datagram{netip.AddrPortFrom(from, Port), marshal(message.MsgTypeSessionDeletionRequest, true, 1, uint32(i), nil)})
		}
		b.out = nil
		repeated = int(b.counters.repeated - before)
	}); err != nil {
		b.t.Fatal(err)
	}
	return repeated
}

// TestNobodyHasTheRequestsOfOthersForgotten: neither strangers nor another SMF.
func TestNobodyHasTheRequestsOfOthersForgotten(t *testing.T) {
	b := start(t, slow)
	m, other := b.smfAddress(b.smf()).Addr(), b.smfAddress(b.smf()).Addr()
	if err := b.do(func() { b.received.max, b.received.strange = 2000, 500 }); err != nil {
		t.Fatal(err)
	}
	b.repeats(m, 100, 300)
	before := b.status().Strangers
	for i := range 20 {
		b.repeats(netip.AddrFrom4([4]byte{127, 9, 2, byte(i)}), 0, 500)
	}
	if n := b.status().Strangers - before; n != 20*500 {
		t.Errorf("%d messages of strangers were counted", n)
	}
	if n := b.repeats(m, 100, 300); n != 300 {
		t.Errorf("after a flood of strangers %d requests of 300 are known", n)
	}
	b.repeats(other, 100, 5000)
	if n := b.repeats(m, 100, 300); n != 300 {
		t.Errorf("after a flood of another SMF %d requests of 300 are known", n)
	}
	if n := b.repeats(other, 5000, 100); n != 100 {
		t.Errorf("%d of the last 100 requests of that SMF are known", n)
	}
	var all, orders int
	if err := b.do(func() {
		all = len(b.received.responses)
		for _, order := range b.received.order {
			orders += len(order)
		}
	}); err != nil {
		t.Fatal(err)
	}
	if all != 2000 || orders != all {
		t.Errorf("%d requests are remembered, %d in order, want 2000", all, orders)
	}
}

// TestOldRequestsAreForgotten, of all addresses.
func TestOldRequestsAreForgotten(t *testing.T) {
	b := start(t, func(c *Config) { c.Heartbeat = time.Hour })
	b.repeats(b.smfAddress(b.smf()).Addr(), 100, 10)
	b.repeats(netip.MustParseAddr("127.9.3.1"), 100, 10)
	eventually(t, "no request", func() (none bool) {
		if err := b.do(func() { none = len(b.received.responses)+len(b.received.order) == 0 }); err != nil {
			t.Fatal(err)
		}
		return none
	})
}

// TestMalformedMessagesAreCounted, those of an SMF and those of strangers.
func TestMalformedMessagesAreCounted(t *testing.T) {
	b := start(t, slow)
	m := b.smfAddress(b.smf())
	stranger := netip.MustParseAddrPort("127.9.4.1:8805")
	before := b.status()
	for _, bytes := range [][]byte{
		{}, {0x20}, // too short
		{0x20, 1, 0, 4, 0, 0, 1, 0},         // a heartbeat without a time stamp
		{0x20, 1, 0, 99, 0, 0, 1, 0},        // a heartbeat of another length
		{0x20, 5, 0, 99, 0, 0, 71, 0},       // an association setup of another length
		{0x20, 52, 0, 4, 0, 0, 2, 0},        // a session's request without a SEID
		{0x20, 6, 0, 99, 0, 0, 1, 0},        // a response of another length
		{0x40, 50, 0, 4, 0, 0, 9, 0},        // another version
		{0x20, 5, 0, 6, 0, 0, 73, 0, 0, 60}, // half an IE
	} {
		for _, from := range []netip.AddrPort{m, stranger} {
			b.inbox <- datagram{from, bytes}
		}
	}
	// The heartbeat without a time stamp is a well-formed message.
	eventually(t, "all messages", func() bool {
		is := b.status()
		return is.Malformed-before.Malformed == 18 && is.Strangers-before.Strangers == 8
	})
}
