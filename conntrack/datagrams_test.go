// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// experimental is a protocol number for experiments (RFC 3692).
const experimental = 253

// datagram is the payload of a packet of a side, of a conversation that side 0 begins.
func datagram(protocol, from byte, number uint16, request bool) (payload []byte, of flow) {
	ports := [2]uint16{number, 53}
	switch protocol {
	case pkt.ProtoUDP:
		at := ports
		if from == 1 {
			at = [2]uint16{53, number}
		}
		payload = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, at[0]), at[1])
		payload = append(payload, 0, 12, 0, 0, 1, 2, 3, 4)
	case pkt.ProtoICMP:
		payload = append([]byte{map[bool]byte{true: 8}[request], 0, 0, 0, byte(number >> 8), byte(number)}, 0, 1, 2, 3)
	default:
		payload = []byte{1, 2, 3, 4}
		ports = [2]uint16{}
	}
	return payload, flow{protocol, 0, ports}
}

// TestLinuxTracksDatagramsAlike: UDP, ping and an unknown protocol have the same classes and states as in nf_conntrack,
// and the same timeout before a reply. Linux prolongs that of UDP only after two seconds.
func TestLinuxTracksDatagramsAlike(t *testing.T) {
	k := newKernel(t, conntrack.Options{})
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	for number := range uint16(60) {
		protocol := []byte{pkt.ProtoUDP, pkt.ProtoICMP, experimental}[number%3]
		if protocol == experimental { // it has no ports: all are one flow
			if err := k.Forget(); err != nil {
				t.Fatal(err)
			}
		}
		var s conntrack.State
		for packet := range 6 {
			from := byte(r.IntN(2))
			if packet == 0 && protocol != pkt.ProtoICMP {
				from = 0
			}
			payload, of := datagram(protocol, from, 1000+number, from == 0)
			var ours conntrack.Class
			switch protocol {
			case pkt.ProtoUDP:
				ours = s.UDP(from)
			case pkt.ProtoICMP:
				ours = s.ICMP(from, from == 0)
			default:
				ours = s.Other(from)
			}
			theirs, err := k.pass(from, protocol, payload)
			if err != nil {
				t.Fatal(err)
			}
			state, left, err := k.tracked(of)
			if err != nil {
				t.Fatal(err)
			}
			if ours != theirs || s.State != state {
				t.Fatalf("packet %d of protocol %d: %v in %v; with Linux %v in %v", packet, protocol, ours, s.State, theirs, state)
			}
			if want := kernelTimeouts.Of(&s); ours != conntrack.Invalid && (s.State == conntrack.Unreplied || protocol != pkt.ProtoUDP) && (left-want).Abs() > 500*time.Second {
				t.Errorf("packet %d of protocol %d: the timeout is %v; with Linux %v", packet, protocol, want, left)
			}
		}
	}
}
