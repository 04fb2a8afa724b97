// SPDX-License-Identifier: Apache-2.0

package rules

// Create URR and Update URR.

import (
	"fmt"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/tlv"
	"github.com/polycube/polycube/pdusession"
)

// Trigger is a set of reporting triggers: the first two octets of Reporting Triggers (TS 29.244 8.2.19), the first in the
// lower bits.
type Trigger uint16

// The triggers that are supported.
const (
	Periodic        Trigger = 1 << 0
	VolumeThreshold Trigger = 1 << 1
	TimeThreshold   Trigger = 1 << 2
	StartOfTraffic  Trigger = 1 << 4
	VolumeQuota     Trigger = 1 << 8
	TimeQuota       Trigger = 1 << 9

	supportedTriggers = Periodic | VolumeThreshold | TimeThreshold | StartOfTraffic | VolumeQuota | TimeQuota
)

// Flags of Measurement Method and Measurement Information.
const (
	methodDuration = 1
	methodVolume   = 2

	measureBefore   = 1 << 0
	measureInactive = 1 << 1
	measureAtOnce   = 1 << 3
	measurePackets  = 1 << 4
)

var urrUnsupported = []uint16{
	ie.MonitoringTime, ie.SubsequentVolumeThreshold, ie.SubsequentTimeThreshold, ie.SubsequentVolumeQuota,
	ie.SubsequentTimeQuota, ie.SubsequentEventThreshold, ie.SubsequentEventQuota, ie.EventThreshold, ie.EventQuota,
	ie.DroppedDLTrafficThreshold, ie.TimeQuotaMechanism, ie.AggregatedURRs, ie.FARID, ie.EthernetInactivityTimer,
	ie.AdditionalMonitoringTime, ie.QuotaValidityTime, ie.NumberOfReports, ie.InactivityDetectionTime, ie.QuotaHoldingTime,
	ie.LinkedURRID,
}

// read reads the IEs of a Create URR or Update URR, and reports which quotas are new.
func (r *URR) read(g tlv.Group) (volumeQuota, timeQuota bool, err error) {
	if err := refuseAny(g, urrUnsupported); err != nil {
		return false, false, err
	}
	if err := r.readMethod(g); err != nil {
		return false, false, err
	}
	for _, n := range []struct {
		kind uint16
		into *uint32
		set  *bool
	}{{ie.MeasurementPeriod, &r.Period, nil}, {ie.TimeThreshold, &r.TimeThreshold, nil}, {ie.TimeQuota, &r.TimeQuota, &timeQuota}} {
		ok, err := number(g, n.kind, 4, n.into)
		if err != nil {
			return false, false, err
		}
		if n.set != nil {
			*n.set = ok
		}
	}
	for _, v := range []struct {
		kind uint16
		into *pdusession.Volume
		set  *bool
	}{{ie.VolumeThreshold, &r.Threshold, nil}, {ie.VolumeQuota, &r.Quota, &volumeQuota}} {
		i, ok := g.First(v.kind)
		if !ok {
			continue
		}
		if *v.into, err = volume(i); err != nil {
			return false, false, err
		}
		if v.set != nil {
			*v.set = true
		}
	}
	r.HasQuota = r.HasQuota || volumeQuota
	r.HasTimeQuota = r.HasTimeQuota || timeQuota
	return volumeQuota, timeQuota, r.check()
}

// readMethod reads how is measured, and when a report is due.
func (r *URR) readMethod(g tlv.Group) error {
	var method, how uint8
	if ok, err := number(g, ie.MeasurementMethod, 1, &method); err != nil {
		return err
	} else if ok {
		if method&^(methodDuration|methodVolume) != 0 {
			return unsupported(ie.MeasurementMethod, fmt.Sprintf("method %#x", method))
		}
		r.Duration, r.Volume = method&methodDuration != 0, method&methodVolume != 0
	}
	if ok, err := number(g, ie.MeasurementInformation, 1, &how); err != nil {
		return err
	} else if ok {
		if how&(measureBefore|measureInactive) != 0 {
			return unsupported(ie.MeasurementInformation, fmt.Sprintf("information %#x", how))
		}
		r.Immediate, r.Packets = how&measureAtOnce != 0, how&measurePackets != 0
	}
	i, ok := g.First(ie.ReportingTriggers)
	if !ok {
		return nil
	}
	if len(i.Value) < 2 {
		return Incorrect(i.Type, fmt.Errorf("%d bytes", len(i.Value)))
	}
	all := uint32(i.Value[0]) | uint32(i.Value[1])<<8
	if len(i.Value) > 2 {
		all |= uint32(i.Value[2]) << 16
	}
	if all&^uint32(supportedTriggers) != 0 {
		return unsupported(i.Type, fmt.Sprintf("triggers %#x", all))
	}
	r.Triggers = Trigger(all)
	return nil
}

// check refuses a trigger without what it is compared with. A quota may come later.
func (r *URR) check() error {
	switch {
	case r.Triggers&Periodic != 0 && r.Period == 0:
		return conditional(ie.MeasurementPeriod, "reports are periodic")
	case r.Triggers&VolumeThreshold != 0 && r.Threshold == pdusession.Volume{}:
		return conditional(ie.VolumeThreshold, "reports are triggered by a volume")
	case r.Triggers&TimeThreshold != 0 && r.TimeThreshold == 0:
		return conditional(ie.TimeThreshold, "reports are triggered by a time")
	}
	return nil
}
