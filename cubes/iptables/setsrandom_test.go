// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// reference is an element as a list of them has it: fields that the type of the set does not have are zero.
type reference struct {
	prefix  netip.Prefix
	proto   string
	port    uint16
	to      netip.Addr
	nomatch bool
}

// kindOf is a type of set: the fields of its elements, and the directions by which a rule compares them.
type kindOf struct {
	settings, dirs       string
	ip, net, port, other bool // other is a second address
}

var kindsOfSets = map[string]kindOf{
	"hash:ip":                {`"set-type":"hash:ip","timeout":0`, "src", true, false, false, false},
	"hash:net":               {`"set-type":"hash:net","exceptions":true`, "src", true, true, false, false},
	"hash:ip,port":           {`"set-type":"hash:ip,port"`, "src,dst", true, false, true, false},
	"hash:ip,port, source":   {`"set-type":"hash:ip,port"`, "src,src", true, false, true, false},
	"hash:net,port":          {`"set-type":"hash:net,port","counters":true`, "src,dst", true, true, true, false},
	"hash:ip,port,ip":        {`"set-type":"hash:ip,port,ip","timeout":0`, "src,dst,dst", true, false, true, true},
	"bitmap:port":            {`"set-type":"bitmap:port","first-port":1,"last-port":4`, "dst", false, false, true, false},
	"bitmap:port, timeouts":  {`"set-type":"bitmap:port","first-port":2,"last-port":3,"timeout":600`, "dst", false, false, true, false},
	"hash:ip,port, counters": {`"set-type":"hash:ip,port","counters":true,"timeout":600`, "src,dst", true, false, true, false},
}

// text is the element as ipset takes it.
func (k kindOf) text(r reference) string {
	var words []string
	if k.ip {
		words = append(words, strings.TrimSuffix(r.prefix.String(), "/32"))
	}
	switch {
	case k.port && k.ip:
		words = append(words, fmt.Sprintf("%s:%d", r.proto, r.port))
	case k.port:
		words = append(words, fmt.Sprint(r.port))
	}
	if k.other {
		words = append(words, r.to.String())
	}
	return strings.Join(words, ",")
}

// random is an element.
func (k kindOf) random(rng *rand.Rand) reference {
	r := reference{prefix: netip.PrefixFrom(someAddress(rng), 32)}
	if k.net {
		r.prefix = netip.PrefixFrom(r.prefix.Addr(), 8+rng.IntN(25)).Masked()
		r.nomatch = rng.IntN(3) == 0
	}
	if k.port {
		r.proto, r.port = []string{"udp", "tcp"}[rng.IntN(2)], uint16(1+rng.IntN(4))
	}
	if k.other {
		r.to = netip.MustParseAddr([]string{inside, "10.9.9.9"}[rng.IntN(2)])
	}
	return r
}

func someAddress(rng *rand.Rand) netip.Addr {
	return netip.AddrFrom4([4]byte{198, 51, byte(rng.IntN(4)), byte(rng.IntN(8))})
}

// has looks a packet up in a list: the longest prefix decides.
func (k kindOf) has(list []reference, from netip.Addr, proto string, port uint16) bool {
	best, found := -1, false
	for _, r := range list {
		is := (!k.ip || r.prefix.Contains(from)) && (!k.port || r.port == port) && (!k.port || !k.ip || r.proto == proto) &&
			(!k.other || r.to == netip.MustParseAddr(inside))
		if is && r.prefix.Bits() > best {
			best, found = r.prefix.Bits(), !r.nomatch
		}
	}
	return found
}

// TestRandomSetsAreLists compares packets with random sets that change, of all types but hash:mac and list:set, with what a list of
// their elements says.
func TestRandomSetsAreLists(t *testing.T) {
	seed := repeat.Seed(t)
	o := newOurs(t)
	for name, k := range kindsOfSets {
		o.Create("ipset", "s", "{"+k.settings+"}")
		o.restore(t, []string{"a"}, "INPUT -m set --match-set s "+k.dirs+" -j DROP")
		o.randomSet(t, name, k, rand.New(rand.NewPCG(seed, 1)))
		o.restore(t, []string{"a"}, "INPUT -p udp")
		o.Set("DELETE", "s", "")
		if t.Failed() {
			return
		}
	}
}

// randomSet changes the set and sends packets.
func (o *ours) randomSet(t *testing.T, name string, k kindOf, rng *rand.Rand) {
	t.Helper()
	var list []reference
	seen := map[bool]int{}
	for round := range 150 {
		list = o.changeList(t, k, rng, list)
		for range 10 {
			from, proto, port := someAddress(rng), []string{"udp", "tcp"}[rng.IntN(2)], uint16(1+rng.IntN(4))
			if len(list) > 0 && rng.IntN(2) == 0 { // most random packets are in no set
				r := list[rng.IntN(len(list))]
				from, proto, port = r.prefix.Addr(), cmp.Or(r.proto, proto), cmp.Or(r.port, port)
			}
			drop := map[bool]string{true: "rule"}[k.has(list, from, proto, port)]
			seen[drop != ""]++
			o.in(t, fmt.Sprintf("%s, round %d, %s %s port %d, %v", name, round, from, proto, port, list), randomPacket(from, proto, port, k.dirs), drop)
			if t.Failed() {
				return
			}
		}
	}
	if seen[true] < 10 || seen[false] < 10 {
		t.Errorf("%s: %d packets were in the set, %d were not", name, seen[true], seen[false])
	}
}

// randomPacket has a port on the side that the set compares, and another one on the other side.
func randomPacket(from netip.Addr, proto string, port uint16, dirs string) []byte {
	source, destination := uint16(9), port
	if strings.HasSuffix(dirs, ",src") {
		source, destination = port, 9
	}
	if proto == "tcp" {
		h := pkt.IPv4Header{From: from.String(), To: inside, Protocol: pkt.ProtoTCP, TTL: 64}
		return h.Packet(pkt.TCPSegment(from.String(), inside, source, destination, 2, nil)) // SYN
	}
	h := pkt.IPv4Header{From: from.String(), To: inside, Protocol: pkt.ProtoUDP, TTL: 64}
	return h.Packet(pkt.UDPDatagram(from.String(), inside, source, destination, make([]byte, 30)))
}

// changeList adds an element, deletes one, or, rarely, all.
func (o *ours) changeList(t *testing.T, k kindOf, rng *rand.Rand, list []reference) []reference {
	t.Helper()
	if rng.IntN(25) == 0 {
		o.must(t, "s", "flush s")
		return nil
	}
	if i := rng.IntN(len(list) + 8); i < len(list) {
		o.must(t, "s", "del s "+k.text(list[i]))
		return slices.Delete(list, i, i+1)
	}
	r := k.random(rng)
	there := slices.ContainsFunc(list, func(is reference) bool { return k.text(is) == k.text(r) })
	out, code := o.ipset(t, "s", "add s "+k.text(r)+map[bool]string{true: " nomatch"}[r.nomatch])
	beyond := strings.Contains(k.settings, `"first-port":2`) && (r.port < 2 || r.port > 3)
	if refused := there || beyond; refused != (code != 0) {
		t.Errorf("add %s, of which the set has %v: %d %s", k.text(r), list, code, out)
	}
	if code == 0 {
		list = append(list, r)
	}
	return list
}
