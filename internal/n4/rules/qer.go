// SPDX-License-Identifier: Apache-2.0

package rules

// Create QER and Update QER. The averaging window is ignored: the burst of a rate is fixed.

import (
	"fmt"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
)

var qerUnsupported = []uint16{
	ie.PacketRate, ie.PacketRateStatus, ie.DLFlowLevelMarking, ie.PagingPolicyIndicator, ie.QERControlIndications,
	ie.QERCorrelationID,
}

func (r *QER) read(g tlv.Group) error {
	if err := refuseAny(g, qerUnsupported); err != nil {
		return err
	}
	var reflective, gate, qfi uint8
	if _, err := number(g, ie.RQI, 1, &reflective); err != nil {
		return err
	}
	if reflective&1 != 0 {
		return unsupported(ie.RQI, "reflective QoS")
	}
	if ok, err := number(g, ie.GateStatus, 1, &gate); err != nil {
		return err
	} else if ok {
		// Values above 1 are for future use, and closed until then (TS 29.244 8.2.7).
		r.UpClosed, r.DownClosed = gate>>2&3 != 0, gate&3 != 0
	}
	for _, rates := range []struct {
		kind uint16
		into **Rates
	}{{ie.MBR, &r.MBR}, {ie.GBR, &r.GBR}} {
		i, ok := g.First(rates.kind)
		if !ok {
			continue
		}
		if len(i.Value) < 10 {
			return Incorrect(i.Type, fmt.Errorf("%d bytes", len(i.Value)))
		}
		up, _ := tlv.IE{Value: i.Value[:5]}.Uint(5)
		down, _ := tlv.IE{Value: i.Value[5:10]}.Uint(5)
		*rates.into = &Rates{Up: up, Down: down}
	}
	if ok, err := number(g, ie.QFI, 1, &qfi); err != nil {
		return err
	} else if ok {
		qfi &= 0x3f
		r.QFI = &qfi
	}
	return nil
}

// limits reports whether a QER needs a meter.
func (r *QER) limits() bool { return r.UpClosed || r.DownClosed || r.MBR != nil }
