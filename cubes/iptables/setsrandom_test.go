// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// reference is an element as a list of them has it.
type reference struct {
	prefix  netip.Prefix
	port    uint16
	nomatch bool
}

// has looks a packet up in a list: the longest prefix decides.
func has(list []reference, a netip.Addr, port uint16) bool {
	best, found := -1, false
	for _, r := range list {
		if r.prefix.Contains(a) && r.port == port && r.prefix.Bits() > best {
			best, found = r.prefix.Bits(), !r.nomatch
		}
	}
	return found
}

// TestRandomSetsAreLists compares packets with random sets of prefixes and ports that change, with what a list of their elements says.
func TestRandomSetsAreLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	o := newOurs(t)
	o.Create("ipset", "s", `{"set-type":"hash:net,port","counters":true}`)
	o.restore(t, []string{"a"}, "INPUT -m set --match-set s src,dst -j DROP")
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{198, 51, byte(rng.IntN(4)), byte(rng.IntN(8))})
	}
	var list []reference
	matched := 0
	for round := range 150 {
		r := reference{netip.PrefixFrom(address(), 8+rng.IntN(25)).Masked(), uint16(1 + rng.IntN(3)), rng.IntN(3) == 0}
		text := strings.TrimSuffix(r.prefix.String(), "/32")
		if i := rng.IntN(len(list) + 5); i < len(list) {
			r, text = list[i], strings.TrimSuffix(list[i].prefix.String(), "/32")
			o.must(t, "s", fmt.Sprintf("del s %s,udp:%d", text, r.port))
			list = append(list[:i:i], list[i+1:]...)
		} else {
			option := map[bool]string{true: " nomatch"}[r.nomatch]
			if _, code := o.ipset(t, "s", fmt.Sprintf("add s %s,udp:%d%s", text, r.port, option)); code == 0 {
				list = append(list, r)
			}
		}
		for range 10 {
			from, port := address(), uint16(1+rng.IntN(3))
			h := pkt.IPv4Header{From: from.String(), To: inside, Protocol: pkt.ProtoUDP, TTL: 64}
			drop := ""
			if has(list, from, port) {
				drop = "rule"
				matched++
			}
			o.in(t, fmt.Sprintf("round %d, %s port %d, %v", round, from, port, list),
				h.Packet(pkt.UDPDatagram(from.String(), inside, 9, port, make([]byte, 30))), drop)
			if t.Failed() {
				return
			}
		}
	}
	if matched == 0 {
		t.Error("no packet was in the set")
	}
}
