// SPDX-License-Identifier: Apache-2.0

package table

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/repeat"
)

// between is a packet from one end to another.
func between(from, to string, sport, dport uint16, protocol uint8, has flow.Has) *flow.Flow {
	f := &flow.Flow{Protocol: protocol, Has: flow.IP | flow.L4 | has, VLAN: flow.Untagged}
	f.Source, f.Destination = inet.AddressOf(netip.MustParseAddr(from)), inet.AddressOf(netip.MustParseAddr(to))
	binary.BigEndian.PutUint16(f.SourcePort[:], sport)
	binary.BigEndian.PutUint16(f.DestinationPort[:], dport)
	return f
}

// query is a packet of an ICMP query with an id.
func query(from, to string, id uint16, kind uint8, has flow.Has) *flow.Flow {
	protocol := uint8(icmp)
	if has&flow.IPv6 != 0 {
		protocol = icmpv6
	}
	f := between(from, to, id, id, protocol, has|flow.ICMP)
	f.ICMPType = kind
	return f
}

func TestBothDirectionsHaveOneKey(t *testing.T) {
	const a, b, a6, b6 = "10.0.0.1", "10.0.0.2", "2001:db8::1", "2001:db8::2"
	for name, c := range map[string][2]*flow.Flow{
		"TCP":            {between(a, b, 1000, 80, tcp, flow.Ports|flow.TCP), between(b, a, 80, 1000, tcp, flow.Ports|flow.TCP)},
		"UDP over IPv6":  {between(a6, b6, 53, 53, udp, flow.Ports|flow.IPv6), between(b6, a6, 53, 53, udp, flow.Ports|flow.IPv6)},
		"itself":         {between(a, a, 1000, 80, tcp, flow.Ports), between(a, a, 80, 1000, tcp, flow.Ports)},
		"no ports":       {between(a, b, 0, 0, 47, 0), between(b, a, 0, 0, 47, 0)},
		"echo":           {query(a, b, 7, 8, 0), query(b, a, 7, 0, 0)},
		"timestamp":      {query(a, b, 7, 13, 0), query(b, a, 7, 14, 0)},
		"address mask":   {query(a, b, 7, 17, 0), query(b, a, 7, 18, 0)},
		"echo over IPv6": {query(a6, b6, 7, 128, flow.IPv6), query(b6, a6, 7, 129, flow.IPv6)},
	} {
		there, side, ok := KeyOf(c[0], 5)
		back, other, also := KeyOf(c[1], 5)
		if !ok || !also || there != back || side == other {
			t.Errorf("%s: %v from side %d, %v; the reply %v from side %d, %v", name, there, side, ok, back, other, also)
		}
	}
}

func TestDifferentConnectionsHaveDifferentKeys(t *testing.T) {
	const a, b = "10.0.0.1", "10.0.0.2"
	all := map[Key]string{}
	for name, f := range map[string]*flow.Flow{
		"TCP":             between(a, b, 1000, 80, tcp, flow.Ports),
		"UDP":             between(a, b, 1000, 80, udp, flow.Ports),
		"ports exchanged": between(a, b, 80, 1000, udp, flow.Ports),
		"mapped in IPv6":  between(a, b, 1000, 80, tcp, flow.Ports|flow.IPv6),
		"echo":            query(a, b, 80, 8, 0),
		"echo back":       query(b, a, 80, 8, 0),
		"timestamp":       query(a, b, 80, 13, 0),
	} {
		for zone := range uint16(2) {
			k, _, ok := KeyOf(f, zone)
			if before, is := all[k]; is || !ok {
				t.Errorf("%s has the key of %s, %v", name, before, ok)
			}
			all[k] = name
		}
	}
}

func TestPacketsWithoutAKey(t *testing.T) {
	const a, b = "10.0.0.1", "10.0.0.2"
	later := between(a, b, 0, 0, udp, 0)
	later.Fragment = flow.Later
	for name, f := range map[string]*flow.Flow{
		"a later fragment":      later,
		"ports that are cut":    between(a, b, 0, 0, tcp, 0),
		"ICMP that is cut":      between(a, b, 0, 0, icmp, 0),
		"an ICMP error":         query(a, b, 0, 3, 0),
		"a neighbour's advert":  query("fe80::1", "fe80::2", 0, 136, flow.IPv6),
		"no IP":                 {},
		"headers that are none": {Has: flow.IP, Protocol: udp},
	} {
		if k, _, ok := KeyOf(f, 0); ok {
			t.Errorf("%s has the key %v", name, k)
		}
	}
}

// sameKey compares the key of a flow in Go with that in a program.
func (l *lab) sameKey(f flow.Flow, zone uint16) {
	l.t.Helper()
	*l.job = job{Flow: f, Zone: uint32(zone)}
	l.repeat("key", 1)
	want, side, ok := KeyOf(&f, zone)
	got := int64(side)
	if !ok {
		got = -1
	}
	if got != l.job.Side || ok && l.job.Key != want {
		l.t.Fatalf("%+v: the program has %v from side %d, Go has %v from side %d", f, l.job.Key, l.job.Side, want, got)
	}
}

func TestKeysInProgramsAndInGoAreTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	protocols := []uint8{icmp, tcp, udp, 47, icmpv6, sctp}
	for _, object := range objects {
		l := newLab(t, object, 256)
		for range 5000 {
			f := flow.Flow{Protocol: protocols[r.IntN(len(protocols))], Has: flow.Has(r.IntN(64)), ICMPType: uint8(r.IntN(20))}
			f.Fragment, f.Source[15], f.Destination[15] = flow.Fragment(r.IntN(3)), byte(r.IntN(3)), byte(r.IntN(3))
			f.Source[r.IntN(16)], f.Destination[r.IntN(16)] = byte(r.IntN(3)), byte(r.IntN(3))
			f.SourcePort, f.DestinationPort = flow.Port{byte(r.IntN(2)), byte(r.IntN(2))}, flow.Port{byte(r.IntN(2)), byte(r.IntN(2))}
			if r.IntN(2) == 0 {
				f.ICMPType = uint8(120 + r.IntN(12))
			}
			l.sameKey(f, uint16(r.IntN(3)))
		}
	}
}

// FuzzKey checks that a packet and its answer have one key, whatever they contain.
func FuzzKey(f *testing.F) {
	f.Add([]byte("0123456789abcdef0123456789ABCDEF"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var there flow.Flow
		copy((*[unsafe.Sizeof(there)]byte)(unsafe.Pointer(&there))[:], data)
		back := there
		back.Source, back.Destination = there.Destination, there.Source
		back.SourcePort, back.DestinationPort = there.DestinationPort, there.SourcePort
		if request, reply, _ := icmpQuery(there.ICMPType, there.Has&flow.IPv6 != 0); there.Has&flow.ICMP != 0 && !reply {
			back.ICMPType = request + 1
			if request == 8 {
				back.ICMPType = 0
			}
			there.ICMPType, there.SourcePort = request, there.DestinationPort
			back.SourcePort, back.DestinationPort = there.SourcePort, there.SourcePort
		} else if there.Has&flow.ICMP != 0 {
			return
		}
		k, side, ok := KeyOf(&there, 1)
		answer, other, also := KeyOf(&back, 1)
		ends := k.Address[0] == k.Address[1] && k.Port[0] == k.Port[1]
		if ok != also || k != answer || ok && !ends && side == other {
			t.Errorf("%+v: %v from %d, %v; its answer: %v from %d, %v", there, k, side, ok, answer, other, also)
		}
	})
}

// TestTheHashSpreadsSessionsOfFewHosts: as many values as random numbers would have.
func TestTheHashSpreadsSessionsOfFewHosts(t *testing.T) {
	c := control{seed: [keyWords]uint64{1, 2, 3, 4, 5}}
	const lines = 1 << 16
	count := make([]int, lines)
	values := map[uint64]bool{}
	for host := range uint16(1000) {
		for port := range uint16(500) {
			k := Key{Protocol: tcp}
			k.Address[0], k.Address[1] = inet.Address{12: 10, 14: byte(host >> 8), 15: byte(host)}, inet.Address{12: 192, 15: 1}
			k.Port = [2]flow.Port{{byte(port >> 8), byte(port)}, {1, 187}}
			h := c.hash(&k)
			values[h] = true
			count[h%lines]++
		}
	}
	over := 0 // in the next line
	for _, n := range count {
		over += max(n-15, 0)
	}
	if len(values) != 500000 || over > 500000/300 {
		t.Errorf("500000 keys have %d values, and %d are not in their line", len(values), over)
	}
}

// TestTheFunctionsAreCommon: they use no map that only one cube has, so a program has each of them once, and what they call
// is rare.
func TestTheFunctionsAreCommon(t *testing.T) {
	for hook, object := range objects {
		spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		in := ""
		for _, ins := range spec.Programs["pass"].Instructions {
			if name := ins.Symbol(); name != "" {
				in = name
				seen[in] = true
			}
			if !strings.HasPrefix(in, "pcn_conntrack_") {
				continue
			}
			if calls := ins.Reference(); ins.IsFunctionCall() && calls != "pcn_conntrack_contest" && calls != "pcn_conntrack_insert_also" {
				t.Errorf("%s: %s calls %s", hook, in, ins.Reference())
			}
			if m := spec.Maps[ins.Reference()]; ins.IsLoadFromMap() && (m == nil || len(m.Tags) != 1 || m.Tags[0] != "pcn_shared:conntrack") {
				t.Errorf("%s: %s uses %s", hook, in, ins.Reference())
			}
		}
		if !seen["pcn_conntrack_find"] || !seen["pcn_conntrack_try"] {
			t.Errorf("%s: the program has the functions %v", hook, seen)
		}
	}
}
