// SPDX-License-Identifier: Apache-2.0

package rules

// Create FAR, Update FAR, and BARs.

import (
	"fmt"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// Flags of Apply Action (TS 29.244 8.2.26).
const (
	applyDrop = 1 << iota
	applyForward
	applyBuffer
	applyNotify
)

// SendEndMarkers is the flag SNDEM of PFCPSMReq-Flags, DropBuffered DROBU and QueryAll QAURR.
const (
	DropBuffered = 1 << iota
	SendEndMarkers
	QueryAll
)

var (
	farUnsupported        = []uint16{ie.DuplicatingParameters, ie.UpdateDuplicatingParameters, ie.RedundantTransmissionForwardingParameters}
	parametersUnsupported = []uint16{ie.TrafficEndpointID, ie.Proxying, ie.HeaderEnrichment, ie.DataNetworkAccessIdentifier}
)

// readFAR reads the IEs of a Create FAR or Update FAR. It reports whether end markers are to be sent into the former
// tunnel.
func (r *FAR) read(g tlv.Group, parameters uint16) (endMarkers bool, err error) {
	if err := refuseAny(g, farUnsupported); err != nil {
		return false, err
	}
	if i, ok := g.First(ie.ApplyAction); ok {
		if err := r.readAction(i); err != nil {
			return false, err
		}
	}
	if _, err := number(g, ie.BARID, 1, &r.BAR); err != nil {
		return false, err
	}
	if i, ok := g.First(parameters); ok {
		in, err := i.Group()
		if err != nil {
			return false, Incorrect(parameters, err)
		}
		if err := r.readParameters(in, parameters); err != nil {
			return false, err
		}
		var flags uint8
		if _, err := number(in, ie.PFCPSMReqFlags, 1, &flags); err != nil {
			return false, err
		}
		endMarkers = flags&SendEndMarkers != 0
	}
	return endMarkers, r.check()
}

func (r *FAR) readAction(i tlv.IE) error {
	n, err := i.Uint(1)
	if err != nil {
		return Incorrect(i.Type, err)
	}
	for _, more := range i.Value[1:] {
		n |= uint64(more) << 8
	}
	switch n &^ applyNotify {
	case applyDrop:
		r.Action = pdusession.Drop
	case applyForward:
		r.Action = pdusession.Pass
	case applyBuffer:
		r.Action = pdusession.Wait
	default:
		if n&^(applyDrop|applyForward|applyBuffer|applyNotify) != 0 {
			return unsupported(i.Type, fmt.Sprintf("action %#x", n))
		}
		return Incorrect(i.Type, fmt.Errorf("action %#x", n))
	}
	r.Notify = n&applyNotify != 0
	if r.Notify && r.Action == pdusession.Pass {
		return Incorrect(i.Type, fmt.Errorf("a notification of packets that are forwarded"))
	}
	return nil
}

func (r *FAR) readParameters(g tlv.Group, parameters uint16) error {
	if err := refuseAny(g, parametersUnsupported); err != nil {
		return err
	}
	if g.Has(ie.ForwardingPolicy) {
		return &RefusalError{Cause: ie.CauseInvalidForwardingPolicy, Offending: ie.ForwardingPolicy}
	}
	directed, err := number(g, ie.DestinationInterface, 1, &r.Destination)
	if err != nil {
		return err
	}
	if !directed && parameters == ie.ForwardingParameters {
		return Missing(ie.DestinationInterface)
	}
	if r.Destination &= 0xf; r.Destination > ie.DstInterfaceCPFunction {
		return unsupported(ie.DestinationInterface, fmt.Sprintf("interface %d", r.Destination))
	}
	if err := instance(g, &r.Instance); err != nil {
		return err
	}
	if i, ok := g.First(ie.OuterHeaderCreation); ok {
		if r.Tunnel, err = tunnel(i); err != nil {
			return err
		}
	} else if directed && outward(r.Destination) {
		// Packets that go to the data network from now on enter no tunnel.
		r.Tunnel = Tunnel{}
	}
	if i, ok := g.First(ie.TransportLevelMarking); ok {
		n, err := i.Uint(2)
		if err != nil {
			return Incorrect(i.Type, err)
		}
		if r.DSCP, err = dscp(byte(n>>8), byte(n)); err != nil {
			return unsupported(i.Type, err.Error())
		}
	}
	if i, ok := g.First(ie.RedirectInformation); ok {
		if r.Redirect, err = redirection(i); err != nil {
			return err
		}
	}
	r.Parameters = true
	return nil
}

// outward reports a destination whose packets need no tunnel.
func outward(destination uint8) bool {
	return destination == ie.DstInterfaceCore || destination == ie.DstInterfaceSGiLANN6LAN
}

func (r *FAR) check() error {
	switch {
	case r.Action != pdusession.Pass:
		return nil
	case !r.Parameters:
		return conditional(ie.ForwardingParameters, "packets are forwarded")
	case !r.Tunnel.Peer.IsValid() && !outward(r.Destination):
		return conditional(ie.OuterHeaderCreation, "packets are forwarded into a tunnel")
	}
	return nil
}

// read reads the IEs of a Create BAR or Update BAR. The number of packets that wait is that of the data plane.
func (r *BAR) read(g tlv.Group) error {
	if g.Has(ie.MTEDTControlInformation) {
		return unsupported(ie.MTEDTControlInformation, "")
	}
	_, err := number(g, ie.DownlinkDataNotificationDelay, 1, &r.Delay)
	return err
}
