// SPDX-License-Identifier: Apache-2.0

package classifier

// Flows of subscribers in the form of the program.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// maxFlows is CLASSIFIER_FLOWS.
const maxFlows = 32

// Where the fields are: enum classifier_field.
const (
	protocolAt = 32
	dscpAt     = 40
	qfiAt      = 48
	ipv6At     = 56
	portsAt    = 57
)

// flow is struct classifier_flow.
type flow struct{ Fields, Mask, First, Last uint64 }

// remote is struct classifier_remote.
type remote struct{ Is, Mask [2]uint64 }

// list is struct classifier_list. Equal lists are those of equal flows.
type list struct {
	Flow   [maxFlows]flow
	Remote [maxFlows]remote
	Class  [maxFlows]uint32
	Count  uint32
	_      uint32
}

// list returns the flows of a subscriber, by precedence.
func (s *Subscriber) list() (*list, error) {
	if len(s.Flows) > maxFlows {
		return nil, fmt.Errorf("flow: %d flows, at most %d are possible: %w", len(s.Flows), maxFlows, cube.ErrInvalid)
	}
	flows := slices.SortedFunc(slices.Values(s.Flows), func(a, b Flow) int { return int(int64(a.Precedence) - int64(b.Precedence)) })
	l := &list{Count: uint32(len(flows))}
	for i := range flows {
		l.Flow[i], l.Remote[i] = flows[i].words()
		l.Class[i] = flows[i].Class
	}
	return l, nil
}

// words returns what a packet is compared with.
func (f *Flow) words() (w flow, r remote) {
	field := func(at int, is, mask uint64) { w.Fields, w.Mask = w.Fields|is<<at, w.Mask|mask<<at }
	if f.L4Proto != nil {
		field(protocolAt, uint64(*f.L4Proto), 0xff)
	}
	if f.DSCP != nil {
		field(dscpAt, uint64(*f.DSCP), 0xff)
	}
	if f.QFI != nil {
		field(qfiAt, uint64(*f.QFI), 0xff)
	}
	if f.RemotePort != nil || f.LocalPort != nil {
		field(portsAt, 1, 1)
	}
	any := inet.Ports{First: 0, Last: 0xffff}
	remotePort, localPort := orAny(f.RemotePort, any), orAny(f.LocalPort, any)
	w.First = uint64(remotePort.First) | uint64(localPort.First)<<32
	w.Last = uint64(remotePort.Last) | uint64(localPort.Last)<<32
	if f.Remote == nil {
		return w, r
	}
	is, mask := halvesOf(f.Remote.Prefix)
	if f.Remote.Addr().Is4() {
		field(ipv6At, 0, 1)
		field(0, is[1]&0xffffffff, mask[1]&0xffffffff)
		return w, r
	}
	field(ipv6At, 1, 1)
	return w, remote{is, mask}
}

func orAny(p *inet.Ports, any inet.Ports) inet.Ports {
	if p == nil {
		return any
	}
	return *p
}

// halvesOf returns the bits of a prefix and its mask; those of IPv4 are at the end.
func halvesOf(p netip.Prefix) (is, mask [2]uint64) {
	is[0], is[1] = halves(inet.AddressOf(p.Masked().Addr()))
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := range mask {
		ones := min(max(bits-64*i, 0), 64)
		mask[i] = ^uint64(0) << (64 - ones) // 0 for a shift of 64
	}
	return is, mask
}

// halves returns an address in host byte order.
func halves(a inet.Address) (high, low uint64) {
	return binary.BigEndian.Uint64(a[:8]), binary.BigEndian.Uint64(a[8:])
}
