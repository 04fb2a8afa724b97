// SPDX-License-Identifier: Apache-2.0

package rules

// Requests change the rules of a session: those of a set that the caller has cloned.

import (
	"cmp"
	"errors"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// Change is what a request has changed, beyond the rules themselves.
type Change struct {
	// PDRs are those of the Created PDR and Updated PDR IEs: this end has allocated something for them.
	PDRs, Updated []uint16
	// FARs were updated. EndMarkers are the former tunnels that end with an end marker.
	FARs       []uint32
	EndMarkers []EndMarker
	// RemovedURRs were removed, and perhaps created again with the same ID.
	RemovedURRs []uint32
	// VolumeQuotas and TimeQuotas are the URRs with new ones.
	VolumeQuotas, TimeQuotas []uint32
}

// EndMarker is for the remote end of a tunnel; Local is the network instance in the data plane that it is sent from.
type EndMarker struct {
	Tunnel
	Local string
}

var requestUnsupported = []uint16{
	ie.CreateTrafficEndpoint, ie.UpdateTrafficEndpoint, ie.RemoveTrafficEndpoint, ie.CreateMAR, ie.UpdateMAR, ie.RemoveMAR,
	ie.CreateBridgeInfoForTSC, ie.TSCManagementInformationWithinSessionModificationRequest, ie.CreateSRR, ie.UpdateSRR,
	ie.RemoveSRR, ie.ProvideATSSSControlInformation, ie.ProvideRDSConfigurationInformation, ie.TraceInformation,
	ie.EthernetContextInformation, ie.AccessAvailabilityControlInformation,
	ie.QueryPacketRateStatusWithinSessionModificationRequest,
}

// maxRules is the number of FARs, QERs, URRs and BARs each. The usage reports of all URRs fit in a response.
const maxRules = 2 * pdusession.MaxRules

// edit is a change while it is made.
type edit struct {
	*Set
	res    Resources
	change Change
}

// Apply carries out the IEs of a Session Establishment Request or Session Modification Request. After an error, which is
// a Refusal, the set has to be thrown away.
func (s *Set) Apply(g tlv.Group, res Resources) (*Change, error) {
	if err := refuseAny(g, requestUnsupported); err != nil {
		return nil, err
	}
	e := &edit{Set: s, res: res}
	// Rules are removed first, so that a message can give their IDs to new ones.
	for _, round := range []map[uint16]func(tlv.Group) error{
		{ie.RemovePDR: e.removePDR, ie.RemoveFAR: e.removeFAR, ie.RemoveQER: e.removeQER, ie.RemoveURR: e.removeURR, ie.RemoveBAR: e.removeBAR},
		{ie.CreateFAR: e.createFAR, ie.CreateQER: e.createQER, ie.CreateURR: e.createURR, ie.CreateBAR: e.createBAR, ie.CreatePDR: e.createPDR},
		{ie.UpdateFAR: e.updateFAR, ie.UpdateQER: e.updateQER, ie.UpdateURR: e.updateURR, ie.UpdateBARWithinSessionModificationRequest: e.updateBAR, ie.UpdatePDR: e.updatePDR},
	} {
		for _, i := range g {
			do := round[i.Type]
			if do == nil {
				continue
			}
			in, err := i.Group()
			if err == nil {
				err = do(in)
			} else {
				err = Incorrect(i.Type, err)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	return &e.change, s.check()
}

// check sorts the PDRs and refuses references to rules that the set does not have.
func (s *Set) check() error {
	slices.SortStableFunc(s.PDRs, func(a, b PDR) int {
		return cmp.Or(cmp.Compare(a.Precedence, b.Precedence), cmp.Compare(a.ID, b.ID))
	})
	if len(s.PDRs) > pdusession.MaxRules || max(len(s.FARs), len(s.QERs), len(s.URRs), len(s.BARs)) > maxRules {
		return &RefusalError{Cause: ie.CauseNoResourcesAvailable, Why: "too many rules"}
	}
	for p := range s.PDRs {
		r := &s.PDRs[p]
		if s.FAR(r.FAR) == nil {
			return failure(ie.RuleIDTypePDR, uint32(r.ID), "FAR %d is unknown", r.FAR)
		}
		for _, id := range r.QERs {
			if s.QER(id) == nil {
				return failure(ie.RuleIDTypePDR, uint32(r.ID), "QER %d is unknown", id)
			}
		}
		for _, id := range r.URRs {
			if s.URR(id) == nil {
				return failure(ie.RuleIDTypePDR, uint32(r.ID), "URR %d is unknown", id)
			}
		}
	}
	for f := range s.FARs {
		if r := &s.FARs[f]; r.BAR != 0 && s.BAR(r.BAR) == nil {
			return failure(ie.RuleIDTypeFAR, r.ID, "BAR %d is unknown", r.BAR)
		}
	}
	return s.resolve()
}

// named adds the rule to the refusal of a value in it: there, cause 73 has to be accompanied by a Failed Rule ID.
func named(err error, kind uint8, id uint32) error {
	var r *RefusalError
	if errors.As(err, &r) && r.Cause == ie.CauseRuleCreationModificationFailure && r.Failed == nil {
		r.Failed = &Failed{kind, id}
	}
	return err
}

func (e *edit) createPDR(g tlv.Group) error {
	var r PDR
	if err := required(g, ie.PDRID, 2, &r.ID); err != nil {
		return err
	}
	for _, kind := range []uint16{ie.Precedence, ie.PDI} {
		if !g.Has(kind) {
			return Missing(kind)
		}
	}
	if !g.Has(ie.FARID) {
		return conditional(ie.FARID, "the PDR has no other action")
	}
	if e.PDR(r.ID) != nil {
		return failure(ie.RuleIDTypePDR, uint32(r.ID), "the PDR is there already")
	}
	if err := e.readPDR(&r, g, e.res); err != nil {
		return err
	}
	if r.Chosen || r.UEChosen {
		e.change.PDRs = append(e.change.PDRs, r.ID)
	}
	e.PDRs = append(e.PDRs, r)
	return nil
}

func (e *edit) updatePDR(g tlv.Group) error {
	var id uint16
	if err := required(g, ie.PDRID, 2, &id); err != nil {
		return err
	}
	r := e.PDR(id)
	if r == nil {
		return failure(ie.RuleIDTypePDR, uint32(id), "the PDR is unknown")
	}
	if err := e.readPDR(r, g, e.res); err != nil {
		return err
	}
	if g.Has(ie.PDI) && (r.Chosen || r.UEChosen) {
		e.change.Updated = append(e.change.Updated, id)
	}
	return nil
}

func (e *edit) createFAR(g tlv.Group) error {
	var r FAR
	if err := required(g, ie.FARID, 4, &r.ID); err != nil {
		return err
	}
	if !g.Has(ie.ApplyAction) {
		return Missing(ie.ApplyAction)
	}
	if e.FAR(r.ID) != nil {
		return failure(ie.RuleIDTypeFAR, r.ID, "the FAR is there already")
	}
	if _, err := r.read(g, ie.ForwardingParameters); err != nil {
		return named(err, ie.RuleIDTypeFAR, r.ID)
	}
	if err := e.reachable(&r); err != nil {
		return err
	}
	e.FARs = append(e.FARs, r)
	return nil
}

func (e *edit) updateFAR(g tlv.Group) error {
	var id uint32
	if err := required(g, ie.FARID, 4, &id); err != nil {
		return err
	}
	r := e.FAR(id)
	if r == nil {
		return failure(ie.RuleIDTypeFAR, id, "the FAR is unknown")
	}
	was := EndMarker{r.Tunnel, r.Local}
	endMarkers, err := r.read(g, ie.UpdateForwardingParameters)
	if err != nil {
		return named(err, ie.RuleIDTypeFAR, id)
	}
	if err := e.reachable(r); err != nil {
		return err
	}
	e.change.FARs = append(e.change.FARs, id)
	if endMarkers && was.Peer.IsValid() && was.Tunnel != r.Tunnel {
		e.change.EndMarkers = append(e.change.EndMarkers, was)
	}
	return nil
}

// reachable decides which network instance packets in a tunnel are sent from, and refuses a tunnel of a family that this has no address
// of.
func (e *edit) reachable(r *FAR) error {
	r.Local = ""
	if !r.Tunnel.Peer.IsValid() {
		return nil
	}
	locals := e.res.Locals()
	r.Local = locals.Instance(r.Destination, r.Instance)
	if _, err := locals.Address(r.Local, r.Tunnel.Peer); err != nil {
		return failure(ie.RuleIDTypeFAR, r.ID, "tunnel to %v: %v", r.Tunnel.Peer, err)
	}
	return nil
}

func (e *edit) createQER(g tlv.Group) error {
	var r QER
	if err := required(g, ie.QERID, 4, &r.ID); err != nil {
		return err
	}
	if !g.Has(ie.GateStatus) {
		return Missing(ie.GateStatus)
	}
	if e.QER(r.ID) != nil {
		return failure(ie.RuleIDTypeQER, r.ID, "the QER is there already")
	}
	if err := r.read(g); err != nil {
		return named(err, ie.RuleIDTypeQER, r.ID)
	}
	e.QERs = append(e.QERs, r)
	return nil
}

func (e *edit) updateQER(g tlv.Group) error {
	var id uint32
	if err := required(g, ie.QERID, 4, &id); err != nil {
		return err
	}
	r := e.QER(id)
	if r == nil {
		return failure(ie.RuleIDTypeQER, id, "the QER is unknown")
	}
	return named(r.read(g), ie.RuleIDTypeQER, id)
}

func (e *edit) createURR(g tlv.Group) error {
	var r URR
	if err := required(g, ie.URRID, 4, &r.ID); err != nil {
		return err
	}
	for _, kind := range []uint16{ie.MeasurementMethod, ie.ReportingTriggers} {
		if !g.Has(kind) {
			return Missing(kind)
		}
	}
	if e.URR(r.ID) != nil {
		return failure(ie.RuleIDTypeURR, r.ID, "the URR is there already")
	}
	if err := e.readURR(&r, g); err != nil {
		return err
	}
	e.URRs = append(e.URRs, r)
	return nil
}

func (e *edit) readURR(r *URR, g tlv.Group) error {
	volume, time, err := r.read(g)
	if err != nil {
		return named(err, ie.RuleIDTypeURR, r.ID)
	}
	if volume {
		e.change.VolumeQuotas = append(e.change.VolumeQuotas, r.ID)
	}
	if time {
		e.change.TimeQuotas = append(e.change.TimeQuotas, r.ID)
	}
	return nil
}

func (e *edit) updateURR(g tlv.Group) error {
	var id uint32
	if err := required(g, ie.URRID, 4, &id); err != nil {
		return err
	}
	r := e.URR(id)
	if r == nil {
		return failure(ie.RuleIDTypeURR, id, "the URR is unknown")
	}
	return e.readURR(r, g)
}

func (e *edit) createBAR(g tlv.Group) error {
	var r BAR
	if err := required(g, ie.BARID, 1, &r.ID); err != nil {
		return err
	}
	if e.BAR(r.ID) != nil {
		return failure(ie.RuleIDTypeBAR, uint32(r.ID), "the BAR is there already")
	}
	if err := r.read(g); err != nil {
		return named(err, ie.RuleIDTypeBAR, uint32(r.ID))
	}
	e.BARs = append(e.BARs, r)
	return nil
}

func (e *edit) updateBAR(g tlv.Group) error { return e.UpdateBAR(g) }

// UpdateBAR carries out an Update BAR, of a request or of a Session Report Response.
func (s *Set) UpdateBAR(g tlv.Group) error {
	var id uint8
	if err := required(g, ie.BARID, 1, &id); err != nil {
		return err
	}
	r := s.BAR(id)
	if r == nil {
		return failure(ie.RuleIDTypeBAR, uint32(id), "the BAR is unknown")
	}
	return r.read(g)
}
