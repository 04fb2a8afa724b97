// SPDX-License-Identifier: Apache-2.0

package rules

// Create PDR and Update PDR.

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
)

// Resources are what the UP function allocates for a session. A request that is refused returns them.
type Resources interface {
	// TEID returns a new one of a network instance of the data plane.
	TEID(local string) (uint32, error)
	// IPv4 and IPv6 allocate from the pools of a network instance.
	IPv4(instance string) (netip.Addr, error)
	IPv6(instance string) (netip.Prefix, error)
	// Locals are the addresses of this end of tunnels.
	Locals() Locals
	// Known reports whether there is a network instance.
	Known(instance string) bool
}

// removals are the outer header removals of GTP-U: over IPv4, over IPv6, over either.
var removals = map[uint8]bool{0: true, 1: true, 6: true}

// pdrUnsupported and pdiUnsupported are IEs that change which packets a PDR is for, or what happens to them.
var (
	pdrUnsupported = []uint16{
		ie.ActivationTime, ie.DeactivationTime, ie.MARID, ie.PacketReplicationAndDetectionCarryOnInformation,
		ie.IPMulticastAddressingInfo, ie.UEIPAddressPoolIdentity, ie.MPTCPApplicableIndication, ie.TransportDelayReporting,
	}
	pdiUnsupported = []uint16{
		ie.TrafficEndpointID, ie.EthernetPDUSessionInformation, ie.EthernetPacketFilter, ie.FramedRouting,
		ie.IPMulticastAddressingInfo, ie.RedundantTransmissionParameters,
	}
)

// readPDR reads the IEs of a Create PDR or Update PDR into a PDR that has its ID.
func (s *Set) readPDR(r *PDR, g tlv.Group, res Resources) error {
	if err := refuseAny(g, pdrUnsupported); err != nil {
		return err
	}
	if g.Has(ie.ActivatePredefinedRules) || g.Has(ie.DeactivatePredefinedRules) {
		return failure(ie.RuleIDTypePDR, uint32(r.ID), "predefined rules")
	}
	if _, err := number(g, ie.Precedence, 4, &r.Precedence); err != nil {
		return err
	}
	if _, err := number(g, ie.FARID, 4, &r.FAR); err != nil {
		return err
	}
	var removal uint8
	if ok, err := number(g, ie.OuterHeaderRemoval, 1, &removal); err != nil {
		return err
	} else if ok {
		if !removals[removal] {
			return unsupported(ie.OuterHeaderRemoval, fmt.Sprintf("description %d", removal))
		}
		r.Removal = &removal
	}
	for _, list := range []struct {
		kind uint16
		into *[]uint32
	}{{ie.QERID, &r.QERs}, {ie.URRID, &r.URRs}} {
		if is, ok, err := numbers(g, list.kind); err != nil {
			return err
		} else if ok {
			*list.into = is
		}
	}
	if pdi, ok := g.First(ie.PDI); ok {
		return s.readPDI(r, pdi, res)
	}
	return nil
}

// readPDI replaces the PDI of a PDR.
func (s *Set) readPDI(r *PDR, pdi tlv.IE, res Resources) error {
	g, err := pdi.Group()
	if err != nil {
		return Incorrect(ie.PDI, err)
	}
	was := *r
	*r = PDR{ID: was.ID, Precedence: was.Precedence, Removal: was.Removal, FAR: was.FAR, QERs: was.QERs, URRs: was.URRs}
	if err := refuseAny(g, pdiUnsupported); err != nil {
		return err
	}
	if g.Has(ie.ApplicationID) {
		return failure(ie.RuleIDTypePDR, uint32(r.ID), "applications are not detected")
	}
	if err := required(g, ie.SourceInterface, 1, &r.Source); err != nil {
		return err
	}
	if r.Source &= 0xf; r.Source > ie.SrcInterfaceCPFunction {
		return unsupported(ie.SourceInterface, fmt.Sprintf("interface %d", r.Source))
	}
	if err := instance(g, &r.Instance); err != nil {
		return err
	}
	if r.Instance != "" && !res.Known(r.Instance) {
		return failure(ie.RuleIDTypePDR, uint32(r.ID), "network instance %q is not configured", r.Instance)
	}
	if i, ok := g.First(ie.FTEID); ok {
		if err := s.readFTEID(r, i, res); err != nil {
			return err
		}
	}
	if i, ok := g.First(ie.UEIPAddress); ok {
		if err := s.readUE(r, i, res); err != nil {
			return err
		}
	}
	return r.readMatches(g)
}

// readMatches reads what packets are compared with, apart from addresses and tunnels.
func (r *PDR) readMatches(g tlv.Group) error {
	for _, i := range g {
		switch i.Type {
		case ie.SDFFilter:
			f, err := readFilter(i)
			if err != nil {
				return err
			}
			r.Filters = append(r.Filters, f)
		case ie.QFI:
			n, err := i.Uint(1)
			if err != nil {
				return Incorrect(i.Type, err)
			}
			r.QFIs = append(r.QFIs, uint8(n)&0x3f)
		case ie.FramedRoute, ie.FramedIPv6Route:
			network, err := framedRoute(string(i.Value), i.Type == ie.FramedIPv6Route)
			if err != nil {
				return Incorrect(i.Type, err)
			}
			r.Routes = append(r.Routes, network)
		}
	}
	if len(r.QFIs) > 0 && r.TEID == 0 {
		return failure(ie.RuleIDTypePDR, uint32(r.ID), "a QFI without a tunnel")
	}
	return nil
}

// framedRoute reads the network of a route to the device, as RADIUS has it: "10.5.0.0/16 0.0.0.0 1" (RFC 2865 5.22, RFC 3162 2.5).
// The gateway is the device, and metrics have no meaning here.
func framedRoute(text string, ipv6 bool) (netip.Prefix, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return netip.Prefix{}, errors.New("an empty route")
	}
	network, err := netip.ParsePrefix(words[0])
	switch {
	case err != nil:
		return network, err
	case network.Addr().Is6() != ipv6 || network.Addr().Is4In6():
		return network, fmt.Errorf("%s is of the other address family", network)
	case network.Bits() == 0 || network.Addr().IsMulticast():
		return network, fmt.Errorf("%s is not a network behind a device", network)
	}
	return network.Masked(), nil
}

// readFTEID reads a local F-TEID: one that the CP function gives, or one to be chosen.
func (s *Set) readFTEID(r *PDR, i tlv.IE, res Resources) error {
	f, err := ie.ParseFTEIDFields(i.Value)
	if err != nil {
		return Incorrect(i.Type, err)
	}
	r.Tunnel4, r.Tunnel6 = f.HasIPv4(), f.HasIPv6()
	if !r.Tunnel4 && !r.Tunnel6 {
		return Incorrect(i.Type, fmt.Errorf("no address"))
	}
	if err := r.readLocal(f, res.Locals()); err != nil {
		return err
	}
	if !f.HasCh() {
		if r.TEID = f.TEID; r.TEID == 0 {
			return Incorrect(i.Type, fmt.Errorf("TEID 0"))
		}
		return nil
	}
	return s.choose(r, f, res)
}

// readLocal decides which network instance of the data plane a local F-TEID is in: that of the given addresses, or the one for the
// rule, if the address is to be chosen, too.
func (r *PDR) readLocal(f *ie.FTEIDFields, locals Locals) error {
	r.Local = locals.Instance(r.Source, r.Instance)
	first := true
	for _, family := range []struct {
		has   bool
		of    netip.Addr
		given []byte
	}{{r.Tunnel4, netip.IPv4Unspecified(), f.IPv4Address}, {r.Tunnel6, netip.IPv6Unspecified(), f.IPv6Address}} {
		switch {
		case !family.has:
			continue
		case f.HasCh():
			if _, err := locals.Address(r.Local, family.of); err != nil {
				return failure(ie.RuleIDTypePDR, uint32(r.ID), "address of tunnels: %v", err)
			}
			continue
		}
		given, _ := netip.AddrFromSlice(family.given)
		local, ok := locals.Of(given)
		switch {
		case !ok:
			return failure(ie.RuleIDTypePDR, uint32(r.ID), "%v is not an address of tunnels", given)
		case !first && local != r.Local:
			return failure(ie.RuleIDTypePDR, uint32(r.ID), "the addresses of the F-TEID are in network instances %q and %q", r.Local, local)
		}
		r.Local, first = local, false
	}
	return nil
}

// choose gives PDRs with the same CHOOSE ID the same TEID.
func (s *Set) choose(r *PDR, f *ie.FTEIDFields, res Resources) error {
	r.Chosen = true
	if f.HasChID() {
		id := f.ChooseID
		r.Choose = &id
		for j := range s.PDRs {
			if other := &s.PDRs[j]; other.Choose != nil && *other.Choose == id && other.TEID != 0 && other.Local == r.Local {
				r.TEID = other.TEID
				return nil
			}
		}
	}
	teid, err := res.TEID(r.Local)
	if err != nil {
		return &RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: err.Error()}
	}
	r.TEID = teid
	return nil
}
