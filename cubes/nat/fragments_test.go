// SPDX-License-Identifier: Apache-2.0

package nat

// Datagrams in several fragments, of which only the first has ports.

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

// parts4 cuts a datagram with its checksum into three fragments.
func parts4(from, to string, sport, dport, id uint16) (out [3][]byte) {
	d := udp(from, to, sport, dport, bytesOf(3*64-8))
	for i := range out {
		offset := uint16(i * 8)
		if i < 2 {
			offset |= 0x2000
		}
		out[i] = ip4(from, to, nextUDP, id, offset, nil, d[64*i:64*(i+1)])
	}
	return out
}

func parts6(from, to string, sport, dport uint16, id uint32) (out [3][]byte) {
	d := udp(from, to, sport, dport, bytesOf(3*64-8))
	for i := range out {
		offset := uint16(i * 64)
		if i < 2 {
			offset |= 1
		}
		out[i] = ip6(from, to, nextFragment, append(fragment6(nextUDP, offset, id), d[64*i:64*(i+1)]...))
	}
	return out
}

func TestFragments(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, `{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"},
			{"id":2,"internal-net":"fd00::/64","external-ip":"2001:db8::1"}]},
			"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.8"}]}}}`)
		out, want := parts4(host, other, 4000, 53, 7), parts4(ours, other, 4000, 53, 7)
		again := parts4(host, other, 4000, 53, 8)
		back, inside := parts4(other, ours, 53, 4000, 7), parts4(other, host, 53, 4000, 7)
		dnat, behind := parts4(other, "203.0.113.2", 53, 4000, 9), parts4(other, "10.0.0.8", 53, 4000, 9)
		foreign := parts4("10.9.0.1", other, 1, 2, 7)
		b.steps(
			step{"the first", false, outFrame(out[0]), outFrame(want[0]), ""},
			step{"the last", false, outFrame(out[2]), outFrame(want[2]), ""},
			step{"the second", false, outFrame(out[1]), outFrame(want[1]), ""},
			step{"of another datagram, before the first", false, outFrame(again[1]), nil, "fragment-without-first"},
			step{"the first of an answer", true, inFrame(back[0]), inFrame(inside[0]), ""},
			step{"the second of an answer", true, inFrame(back[1]), inFrame(inside[1]), ""},
			step{"of an address that leads inside, before the first", true, inFrame(dnat[1]), nil, "fragment-without-first"},
			step{"the first", true, inFrame(dnat[0]), inFrame(behind[0]), ""},
			step{"the second", true, inFrame(dnat[1]), inFrame(behind[1]), ""},
			same("of nobody's datagram", true, inFrame(parts4(other, "203.0.113.9", 1, 2, 3)[1])),
			same("of a network without a rule", false, outFrame(foreign[1])),
		)
		out6, want6 := parts6(host6, other6, 4000, 53, 7<<16), parts6(ours6, other6, 4000, 53, 7<<16)
		b.steps(
			step{"the first of IPv6", false, outFrame(out6[0]), outFrame(want6[0]), ""},
			step{"the second of IPv6", false, outFrame(out6[1]), outFrame(want6[1]), ""},
			step{"the last of IPv6", false, outFrame(out6[2]), outFrame(want6[2]), ""},
			step{"of another datagram", false, outFrame(parts6(host6, other6, 4000, 53, 8<<16)[1]), nil, "fragment-without-first"},
			step{"a first one that ends in its ports", false, outFrame(ip4(host, other, nextUDP, 6, 0x2000, nil, out[0][20:26])), nil, "malformed"},
		)
	})
}
