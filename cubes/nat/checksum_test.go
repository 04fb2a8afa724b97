// SPDX-License-Identifier: Apache-2.0

package nat

// Checksums at their limits: 0 in UDP means that there is none, and a computed 0 is sent as ffff.

import (
	"encoding/binary"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// withCheck returns a datagram with a given checksum: a word of the payload compensates for it.
func withCheck(from, to string, check uint16) []byte {
	d := udp(from, to, 4000, 53, make([]byte, 2))
	binary.BigEndian.PutUint16(d[6:], check)
	rest := pkt.Sum(pkt.PseudoHeader(from, to, nextUDP, len(d)), d[:8])
	binary.BigEndian.PutUint16(d[8:], ^rest)
	return d
}

func TestChecksumsAtTheirEdges(t *testing.T) {
	atBothHooks(t, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, snat)
		// Checksums of outgoing packets, whatever they were.
		for _, check := range []uint16{1, 2, 0x7fff, 0x8000, 0xfffe, 0xffff} {
			d, d6 := withCheck(ours, other, check), withCheck(ours6, other6, check)
			inside, inside6 := append([]byte{}, d...), append([]byte{}, d6...)
			fill(inside, host, other)
			fill(inside6, host6, other6)
			b.steps(
				step{"UDP out", false, outFrame(plain4(host, other, nextUDP, inside)), outFrame(plain4(ours, other, nextUDP, d)), ""},
				step{"UDP of IPv6 out", false, outFrame(ip6(host6, other6, nextUDP, inside6)), outFrame(ip6(ours6, other6, nextUDP, d6)), ""},
			)
			// And of incoming packets.
			came, gone := withCheck(host, other, check), append([]byte{}, withCheck(host, other, check)...)
			fill(gone, ours, other)
			b.steps(step{"UDP that comes so", false, outFrame(plain4(host, other, nextUDP, came)), outFrame(plain4(ours, other, nextUDP, gone)), ""})
		}
		none := func(from string) []byte {
			d := udp(from, other, 4000, 53, bytesOf(9))
			d[6], d[7] = 0, 0
			return d
		}
		b.steps(step{"UDP without a checksum", false, outFrame(plain4(host, other, nextUDP, none(host))), outFrame(plain4(ours, other, nextUDP, none(ours))), ""})
		// A wrong checksum stays as wrong as it is: the receiver must detect it.
		wrong := udp(host, other, 4000, 53, bytesOf(9))
		wrong[7] ^= 1
		got, err := b.pass(false, outFrame(plain4(host, other, nextUDP, wrong)))
		if err != nil || checked(got) == nil {
			t.Errorf("a wrong checksum became right: %x, %v", got, err)
		}
	})
}

// fill computes the checksum of a datagram.
func fill(d []byte, from, to string) {
	d[6], d[7] = 0, 0
	check := ^pkt.Sum(pkt.PseudoHeader(from, to, nextUDP, len(d)), d)
	if check == 0 {
		check = 0xffff
	}
	binary.BigEndian.PutUint16(d[6:], check)
}
