// SPDX-License-Identifier: Apache-2.0

package rules

// SDF filters, and the flows that they describe.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/internal/n4/filter"
	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
)

// Flags of an SDF Filter (TS 29.244 8.2.5).
const (
	filterFD = 1 << iota
	filterTTC
	filterSPI
	filterFL
	filterBID
)

// errShort: the IE ends before what its flags announce.
var errShort = errors.New("too short")

// readFilter decodes the IE itself: the decoder of go-pfcp trusts the length of the flow description.
func readFilter(i tlv.IE) (Filter, error) {
	b := i.Value
	if len(b) < 2 {
		return Filter{}, Incorrect(i.Type, errShort)
	}
	flags := b[0]
	b = b[2:]
	take := func(n int) []byte {
		if len(b) < n {
			return nil
		}
		is := b[:n]
		b = b[n:]
		return is
	}
	if flags&(filterSPI|filterFL) != 0 {
		return Filter{}, unsupported(i.Type, "SPI or flow label")
	}
	var f Filter
	if flags&filterFD != 0 {
		length := take(2)
		if length == nil {
			return Filter{}, Incorrect(i.Type, errShort)
		}
		text := take(int(binary.BigEndian.Uint16(length)))
		if len(text) == 0 {
			return Filter{}, Incorrect(i.Type, errShort)
		}
		if _, err := filter.Parse(string(text)); err != nil {
			return Filter{}, Incorrect(i.Type, err)
		}
		f.Flow = string(text)
	}
	if flags&filterTTC != 0 {
		class := take(2)
		if class == nil {
			return Filter{}, Incorrect(i.Type, errShort)
		}
		var err error
		if f.DSCP, err = dscp(class[0], class[1]); err != nil {
			return Filter{}, unsupported(i.Type, err.Error())
		}
	}
	if flags&filterBID != 0 {
		id := take(4)
		if id == nil {
			return Filter{}, Incorrect(i.Type, errShort)
		}
		f.ID = binary.BigEndian.Uint32(id)
		f.Reference = flags&(filterFD|filterTTC) == 0
	}
	if flags&(filterFD|filterTTC|filterBID) == 0 {
		return Filter{}, Incorrect(i.Type, errors.New("an empty filter"))
	}
	return f, nil
}

// resolve completes filters that refer to one in another PDR, which may come later in the message.
func (s *Set) resolve() error {
	for p := range s.PDRs {
		r := &s.PDRs[p]
		for n, f := range r.Filters {
			if !f.Reference || f.Flow != "" || f.DSCP != nil {
				continue
			}
			is := s.filter(f.ID)
			if is == nil {
				return failure(ie.RuleIDTypePDR, uint32(r.ID), "SDF filter %d is unknown", f.ID)
			}
			list := append([]Filter(nil), r.Filters...)
			list[n].Flow, list[n].DSCP = is.Flow, is.DSCP
			r.Filters = list
		}
	}
	return nil
}

// filter returns the one that an ID stands for.
func (s *Set) filter(id uint32) *Filter {
	for p := range s.PDRs {
		if f := find(s.PDRs[p].Filters, func(f *Filter) bool { return f.ID == id && !f.Reference }); f != nil {
			return f
		}
	}
	return nil
}

// flows returns those of a PDR: of each filter, for each QFI. None: all packets.
func (s *Set) flows(r *PDR) ([]sdf.Flow, error) {
	list := []sdf.Flow{}
	for n := range r.Filters {
		more, err := s.filterFlows(&r.Filters[n])
		if err != nil {
			return nil, failure(ie.RuleIDTypePDR, uint32(r.ID), "%v", err)
		}
		if list = append(list, more...); len(list) > pdusession.MaxFlows {
			break
		}
	}
	if len(r.QFIs) > 0 && len(list) <= pdusession.MaxFlows && len(r.QFIs) <= pdusession.MaxFlows {
		if len(list) == 0 {
			list = []sdf.Flow{{}}
		}
		of := list
		list = nil
		for n := range r.QFIs {
			for _, f := range of {
				f.QFI = &r.QFIs[n]
				list = append(list, f)
			}
		}
	}
	if len(list) > pdusession.MaxFlows || len(r.QFIs) > pdusession.MaxFlows {
		return nil, failure(ie.RuleIDTypePDR, uint32(r.ID), "more than %d flows", pdusession.MaxFlows)
	}
	return s.ofFamily(r, list), nil
}

// anyOf returns all addresses of a family.
func anyOf(v4 bool) *netip.Prefix {
	is := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if v4 {
		is = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return &is
}

// ofFamily restricts the flows of a PDR to the family of its address, if the device has addresses of both.
func (s *Set) ofFamily(r *PDR, flows []sdf.Flow) []sdf.Flow {
	if r.UE4 == r.UE6 || !s.IPv4.IsValid() || !s.IPv6.IsValid() {
		return flows
	}
	if len(flows) == 0 {
		flows = []sdf.Flow{{}}
	}
	for n := range flows {
		if flows[n].Remote == nil {
			flows[n].Remote = anyOf(r.UE4)
		}
	}
	return flows
}

// filterFlows returns a flow for each pair of ports.
func (s *Set) filterFlows(f *Filter) ([]sdf.Flow, error) {
	if f.Flow == "" {
		return []sdf.Flow{{DSCP: f.DSCP}}, nil
	}
	rule, err := filter.Parse(f.Flow)
	if err != nil {
		return nil, err
	}
	if d := rule.Device; d != nil && !d.Contains(s.IPv4) && !(s.IPv6.IsValid() && d.Bits() <= 64 && d.Contains(s.IPv6.Addr())) {
		return nil, fmt.Errorf("%v has no address of the device", d)
	}
	if d := rule.Device; d != nil && rule.Remote == nil {
		rule.Remote = anyOf(d.Addr().Is4())
	}
	var list []sdf.Flow
	for _, remote := range orAny(rule.RemotePorts) {
		for _, device := range orAny(rule.DevicePorts) {
			list = append(list, sdf.Flow{Remote: rule.Remote, L4Proto: rule.Protocol, RemotePort: remote, LocalPort: device, DSCP: f.DSCP})
		}
	}
	return list, nil
}

// orAny returns pointers to the ports, or nil for all.
func orAny(ports []inet.Ports) []*inet.Ports {
	if len(ports) == 0 {
		return []*inet.Ports{nil}
	}
	list := make([]*inet.Ports, len(ports))
	for n := range ports {
		list[n] = &ports[n]
	}
	return list
}
