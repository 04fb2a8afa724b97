// SPDX-License-Identifier: Apache-2.0

package main

// What clients have sent on connections that are not decided yet.

import (
	"encoding/binary"

	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/ring"
)

// connection is struct connection of the program: the smaller end first.
type connection struct {
	Low, High         inet.Address
	LowPort, HighPort flow.Port
	VLAN              uint16
	Protocol, Zero    uint8
}

// keyOf is the key of a flow. The order of the ends is that of source_is_low, which compares words as they are in memory.
func keyOf(f *flow.Flow) connection {
	c := connection{Low: f.Source, High: f.Destination, LowPort: f.SourcePort, HighPort: f.DestinationPort, VLAN: f.VLAN, Protocol: f.Protocol}
	if !sourceIsLow(f) {
		c.Low, c.High, c.LowPort, c.HighPort = c.High, c.Low, c.HighPort, c.LowPort
	}
	return c
}

func sourceIsLow(f *flow.Flow) bool {
	a, b := f.Source, f.Destination
	for i := 0; i < len(a); i += 4 {
		if x, y := binary.NativeEndian.Uint32(a[i:]), binary.NativeEndian.Uint32(b[i:]); x != y {
			return x < y
		}
	}
	return binary.NativeEndian.Uint16(f.SourcePort[:]) < binary.NativeEndian.Uint16(f.DestinationPort[:])
}

const (
	// generation is how many streams are assembled at the same time, or twice as many: older ones are given up.
	generation = 2048
	// otherStream is a distance in sequence numbers that packets of one stream do not have at its start.
	otherStream = 1 << 20
)

// stream is what a client has sent. It stays when the connection is decided: more of its packets may be in the ring.
type stream struct {
	first   uint32 // sequence number of sent[0]
	sent    []byte
	decided bool
}

// assembly puts the first bytes of streams together.
type assembly struct{ young, old map[connection]*stream }

func newAssembly() *assembly { return &assembly{young: map[connection]*stream{}} }

// add adds a packet to its stream, which has what the client has sent so far, without gaps. Nil if it is not TCP.
func (a *assembly) add(p *ring.Packet) (connection, *stream) {
	f, ok := flow.Read(p.Data)
	at := int(f.L4)
	if !ok || f.Has&flow.TCP == 0 || at+20 > len(p.Data) {
		return connection{}, nil
	}
	sequence := binary.BigEndian.Uint32(p.Data[at+4:])
	end := min(len(p.Data), packetEnd(p.Data, &f))
	if at += int(p.Data[at+12]>>4) * 4; at > end {
		return connection{}, nil
	}
	key := keyOf(&f)
	s := a.find(key, sequence)
	if offset := sequence - s.first; offset <= uint32(len(s.sent)) && offset < most {
		s.sent = append(s.sent[:offset:offset], p.Data[at:min(end, at+most)]...)
	}
	return key, s
}

// packetEnd is where the IP packet of a frame ends: what follows is padding.
func packetEnd(frame []byte, f *flow.Flow) int {
	at, head := int(f.L3)+2, 0
	if f.Has&flow.IPv6 != 0 {
		at, head = int(f.L3)+4, 40
	}
	length := int(binary.BigEndian.Uint16(frame[at:]))
	if length == 0 { // a superframe of more than 64 KB
		return len(frame)
	}
	return int(f.L3) + head + length
}

// find returns the stream of a connection to which a packet belongs, perhaps a new one.
func (a *assembly) find(key connection, sequence uint32) *stream {
	for _, streams := range []map[connection]*stream{a.young, a.old} {
		if s := streams[key]; s != nil && sequence-s.first < otherStream {
			return s
		}
	}
	if len(a.young) >= generation {
		a.young, a.old = map[connection]*stream{}, a.young
	}
	s := &stream{first: sequence}
	a.young[key] = s
	return s
}
