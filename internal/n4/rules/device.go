// SPDX-License-Identifier: Apache-2.0

package rules

// The addresses of the device. A session has one of each family, whichever PDR names it.

import (
	"fmt"
	"net/netip"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
)

// Flags of a UE IP Address (TS 29.244 8.2.62).
const (
	ueV6 = 1 << iota
	ueV4
	_
	ueDelegated
	ueChooseV4
	ueChooseV6
	uePrefixLength
)

// readUE reads a UE IP Address: given, or to be allocated.
func (s *Set) readUE(r *PDR, i tlv.IE, res Resources) error {
	f, err := ie.ParseUEIPAddressFields(i.Value)
	if err != nil {
		return Incorrect(i.Type, err)
	}
	switch {
	case f.Flags&ueDelegated != 0:
		return unsupported(i.Type, "prefix delegation")
	case f.Flags&uePrefixLength != 0 && f.IPv6PrefixLength != 64:
		return unsupported(i.Type, fmt.Sprintf("an IPv6 prefix of %d bits", f.IPv6PrefixLength))
	case f.Flags&(ueV4|ueV6|ueChooseV4|ueChooseV6) == 0:
		return Incorrect(i.Type, fmt.Errorf("no address"))
	}
	if err := s.readUE4(r, f, res); err != nil {
		return err
	}
	return s.readUE6(r, f, res)
}

func (s *Set) readUE4(r *PDR, f *ie.UEIPAddressFields, res Resources) error {
	switch {
	case f.Flags&ueChooseV4 != 0:
		r.UE4, r.UEChosen = true, true
		if s.IPv4.IsValid() {
			return nil
		}
		addr, err := res.IPv4(r.Instance)
		if err != nil {
			return &RefusalError{Cause: CauseAllDynamicAddressesOccupied, Why: err.Error()}
		}
		s.IPv4 = addr
	case f.Flags&ueV4 != 0:
		addr, _ := netip.AddrFromSlice(f.IPv4Address)
		if addr.IsUnspecified() || addr.IsMulticast() {
			return Incorrect(ie.UEIPAddress, fmt.Errorf("address %v", addr))
		}
		if s.IPv4.IsValid() && s.IPv4 != addr {
			return failure(ie.RuleIDTypePDR, uint32(r.ID), "a second IPv4 address of the device: %v", addr)
		}
		r.UE4, s.IPv4 = true, addr
	}
	return nil
}

func (s *Set) readUE6(r *PDR, f *ie.UEIPAddressFields, res Resources) error {
	switch {
	case f.Flags&ueChooseV6 != 0:
		r.UE6, r.UEChosen = true, true
		if s.IPv6.IsValid() {
			return nil
		}
		prefix, err := res.IPv6(r.Instance)
		if err != nil {
			return &RefusalError{Cause: CauseAllDynamicAddressesOccupied, Why: err.Error()}
		}
		s.IPv6 = prefix
	case f.Flags&ueV6 != 0:
		addr, _ := netip.AddrFromSlice(f.IPv6Address)
		prefix, err := addr.Prefix(64)
		if err != nil || addr.IsUnspecified() || addr.IsMulticast() || addr.Is4In6() {
			return Incorrect(ie.UEIPAddress, fmt.Errorf("address %v", addr))
		}
		if s.IPv6.IsValid() && s.IPv6 != prefix {
			return failure(ie.RuleIDTypePDR, uint32(r.ID), "a second IPv6 prefix of the device: %v", prefix)
		}
		r.UE6, s.IPv6 = true, prefix
	}
	return nil
}
