// SPDX-License-Identifier: Apache-2.0

// Package sdf brings the service data flows of devices (3GPP TS 23.203) into the form of <pcn/sdf.h>, which compares packets
// with them.
package sdf

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Max is PCN_SDF_FLOWS, the most flows of a list.
const Max = 32

// Flow is a service data flow, seen from the device: Remote is the other end. What is nil matches anything; a flow with ports
// only matches packets that have ports, and one with Remote only packets of its family.
type Flow struct {
	Remote                *netip.Prefix
	L4Proto               *uint8
	RemotePort, LocalPort *inet.Ports
	DSCP, QFI             *uint8
}

// List is struct pcn_sdf_list. Lists of equal flows and values are equal.
type List struct {
	Flow   [Max]words
	Remote [Max]remote
	Value  [Max]uint32
	Count  uint32
	_      uint32
}

// words is struct pcn_sdf_flow.
type words struct{ Fields, Mask, First, Last uint64 }

// remote is struct pcn_sdf_remote.
type remote struct{ Is, Mask [2]uint64 }

// Where the fields are: enum pcn_sdf_field.
const (
	protocolAt = 32
	dscpAt     = 40
	qfiAt      = 48
	ipv6At     = 56
	portsAt    = 57
)

// NewList returns the list of some flows, in order: a packet has the value of the first one that matches. The error wraps
// cube.ErrInvalid if there are more than Max.
func NewList(flows []Flow, values []uint32) (*List, error) {
	if len(flows) > Max {
		return nil, fmt.Errorf("flow: %d flows, at most %d are possible: %w", len(flows), Max, cube.ErrInvalid)
	}
	if len(values) != len(flows) {
		return nil, fmt.Errorf("%d values for %d flows: %w", len(values), len(flows), cube.ErrInvalid)
	}
	l := &List{Count: uint32(len(flows))}
	for i := range flows {
		l.Flow[i], l.Remote[i] = flows[i].words()
		l.Value[i] = values[i]
	}
	return l, nil
}

// words returns what a packet is compared with.
func (f *Flow) words() (w words, r remote) {
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
	remotePort, localPort := orAny(f.RemotePort), orAny(f.LocalPort)
	w.First = uint64(remotePort.First) | uint64(localPort.First)<<32
	w.Last = uint64(remotePort.Last) | uint64(localPort.Last)<<32
	if f.Remote == nil {
		return w, r
	}
	is, mask := halvesOf(*f.Remote)
	if f.Remote.Addr().Is4() {
		field(ipv6At, 0, 1)
		field(0, is[1]&0xffffffff, mask[1]&0xffffffff)
		return w, r
	}
	field(ipv6At, 1, 1)
	return w, remote{is, mask}
}

func orAny(p *inet.Ports) inet.Ports {
	if p == nil {
		return inet.Ports{First: 0, Last: 0xffff}
	}
	return *p
}

// halvesOf returns the bits of a prefix and its mask; those of IPv4 are at the end.
func halvesOf(p netip.Prefix) (is, mask [2]uint64) {
	address := inet.AddressOf(p.Masked().Addr())
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	for i := range mask {
		is[i] = binary.BigEndian.Uint64(address[8*i:])
		ones := min(max(bits-64*i, 0), 64)
		mask[i] = ^uint64(0) << (64 - ones) // 0 for a shift of 64
	}
	return is, mask
}
