// SPDX-License-Identifier: Apache-2.0

package n4

// The measurement of a URR. Counts of the data plane are never reset: what was reported is kept instead, so that each byte
// is reported once. Reported counts are the counts of the row, modulo 2^64: they are below zero if a former row had counts
// that were not reported.

import (
	"encoding/binary"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/pdusession"
)

// usage is the state of a URR.
type usage struct {
	ID uint32 `json:"i"`
	// Sequence is the UR-SEQN of the next report.
	Sequence uint32            `json:"s,omitempty"`
	Reported pdusession.Counts `json:"r,omitzero"`
	// Since is when the measurement began, Metering when that of time did (zero: not yet). A report begins new ones.
	Since    time.Time `json:"f"`
	Metering time.Time `json:"m,omitzero"`
	// Quota is absolute. QuotaEnds is when the time quota is used up.
	Quota     pdusession.Volume `json:"q,omitzero"`
	QuotaEnds time.Time         `json:"e,omitzero"`
	// VolumeDone and TimeDone: the quota is exhausted, and reported. Stop is the quota that stops packets since then.
	VolumeDone bool   `json:"vd,omitempty"`
	TimeDone   bool   `json:"td,omitempty"`
	Stop       uint64 `json:"st,omitempty"`
	// NextPeriod is when the next periodic report is due.
	NextPeriod time.Time `json:"n,omitzero"`
	// Late are triggers whose report could not be made, because too many wait for the SMF.
	Late rules.Trigger `json:"l,omitempty"`
}

// newUsage begins the measurement of a URR.
func newUsage(r *rules.URR, now time.Time) usage {
	u := usage{ID: r.ID, Since: now}
	if r.Immediate {
		u.Metering = now
	}
	return u
}

// sum adds a limit to counts that were reported. The result is at least 1: 0 is no limit.
func sum(reported, limit uint64) uint64 {
	if limit == 0 {
		return 0
	}
	return uint64(max(1, int64(reported)+int64(limit)))
}

// above returns absolute volumes.
func above(reported pdusession.Counts, v pdusession.Volume) pdusession.Volume {
	return pdusession.Volume{Total: sum(reported.Up+reported.Down, v.Total), Up: sum(reported.Up, v.Up), Down: sum(reported.Down, v.Down)}
}

// limits returns the threshold and the quota that the data plane has.
func (u *usage) limits(r *rules.URR) (threshold, quota pdusession.Volume) {
	if r.Triggers&rules.VolumeThreshold != 0 && u.Late&rules.VolumeThreshold == 0 {
		threshold = above(u.Reported, r.Threshold)
	}
	if u.TimeDone {
		return threshold, pdusession.Volume{Total: u.Stop}
	}
	return threshold, u.Quota
}

// grantVolume begins a volume quota. What was counted since the last report is part of it.
func (u *usage) grantVolume(r *rules.URR) {
	u.Quota, u.VolumeDone = above(u.Reported, r.Quota), false
	u.Late &^= rules.VolumeQuota
}

// grantTime begins a time quota, at the last report or, if time is not measured yet, with the first packet.
func (u *usage) grantTime(r *rules.URR) {
	u.TimeDone, u.Stop, u.QuotaEnds = false, 0, time.Time{}
	u.Late &^= rules.TimeQuota
	u.beginTimeQuota(r)
}

func (u *usage) beginTimeQuota(r *rules.URR) {
	if r.HasTimeQuota && !u.TimeDone && u.QuotaEnds.IsZero() && !u.Metering.IsZero() {
		u.QuotaEnds = u.Metering.Add(seconds(r.TimeQuota))
	}
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// update follows a Create URR or Update URR.
func (u *usage) update(r *rules.URR, now time.Time) {
	switch {
	case r.Triggers&rules.Periodic == 0:
		u.NextPeriod = time.Time{}
	case u.NextPeriod.IsZero() || u.NextPeriod.After(now.Add(seconds(r.Period))):
		u.NextPeriod = now.Add(seconds(r.Period))
	}
}

// started begins the measurement of time with the first packet.
func (u *usage) started(r *rules.URR, counts pdusession.Counts) {
	if u.Metering.IsZero() && counts.First != 0 {
		u.Metering = wall(counts.First)
		u.beginTimeQuota(r)
	}
}

// elapsed returns the triggers that are due by time.
func (u *usage) elapsed(r *rules.URR, now time.Time) rules.Trigger {
	var due rules.Trigger
	if at := u.NextPeriod; !at.IsZero() && !at.After(now) {
		due |= rules.Periodic
	}
	if at := u.thresholdAt(r); !at.IsZero() && !at.After(now) {
		due |= rules.TimeThreshold
	}
	if at := u.QuotaEnds; !u.TimeDone && !at.IsZero() && !at.After(now) {
		due |= rules.TimeQuota
	}
	return due
}

// thresholdAt is when the time threshold is reached; zero: never.
func (u *usage) thresholdAt(r *rules.URR) time.Time {
	if r.Triggers&rules.TimeThreshold == 0 || u.Metering.IsZero() || u.Late&rules.TimeThreshold != 0 {
		return time.Time{}
	}
	return u.Metering.Add(seconds(r.TimeThreshold))
}

// next is when elapsed has something again; zero: never.
func (u *usage) next(r *rules.URR) time.Time {
	first := u.NextPeriod
	for _, at := range []time.Time{u.thresholdAt(r), u.QuotaEnds} {
		if !at.IsZero() && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// reached reports whether counts are at a threshold: a notice may be of a row that had another usage.
func (u *usage) reached(limit pdusession.Volume, c pdusession.Counts, slack uint64) bool {
	at := func(n, limit uint64) bool { return limit != 0 && n+slack >= limit }
	return at(c.Up+c.Down, limit.Total) || at(c.Up, limit.Up) || at(c.Down, limit.Down)
}

// Usage report triggers without a reporting trigger (TS 29.244 8.2.41), in the same form.
const (
	immediate   = 1 << 7
	termination = 1 << 11
)

// report returns the IEs of a usage report, and begins a new measurement.
func (u *usage) report(r *rules.URR, c pdusession.Counts, trigger uint32, now time.Time) []byte {
	u.started(r, c)
	list := []*ie.IE{
		ie.NewURRID(u.ID), ie.NewURSEQN(u.Sequence),
		ie.NewUsageReportTrigger(byte(trigger), byte(trigger>>8), byte(trigger>>16)),
		ie.NewStartTime(u.Since), ie.NewEndTime(now),
	}
	up, down := c.Up-u.Reported.Up, c.Down-u.Reported.Down
	if r.Volume {
		flags := uint8(7)
		upPackets, downPackets := c.UpPackets-u.Reported.UpPackets, c.DownPackets-u.Reported.DownPackets
		if r.Packets {
			flags = 0x3f
		}
		list = append(list, ie.NewVolumeMeasurement(flags, up+down, up, down, upPackets+downPackets, upPackets, downPackets))
	}
	var took time.Duration
	if !u.Metering.IsZero() {
		took = max(0, now.Sub(u.Metering)).Truncate(time.Second) // the rest is part of the next report
	}
	if r.Duration {
		list = append(list, ie.NewDurationMeasurement(took))
	}
	if up+down > 0 {
		if first := wall(c.First); c.First != 0 && !first.Before(u.Since) {
			list = append(list, ie.NewTimeOfFirstPacket(first))
		}
		if c.Last != 0 {
			list = append(list, ie.NewTimeOfLastPacket(wall(c.Last)))
		}
	}
	u.Sequence++
	u.Reported = pdusession.Counts{Up: c.Up, Down: c.Down, UpPackets: c.UpPackets, DownPackets: c.DownPackets}
	u.Since = now
	if !u.Metering.IsZero() {
		u.Metering = u.Metering.Add(took)
	}
	return encode(list)
}

// encode returns the bytes of IEs. It does not use their children, which those that were stored do not have.
func encode(list []*ie.IE) []byte {
	size := 0
	for _, i := range list {
		size += 4 + len(i.Payload)
	}
	b := make([]byte, 0, size)
	for _, i := range list {
		b = binary.BigEndian.AppendUint16(b, i.Type)
		b = binary.BigEndian.AppendUint16(b, uint16(len(i.Payload)))
		b = append(b, i.Payload...)
	}
	return b
}

// recount follows a usage to a new row, whose counts begin at 0: what the former row had counted and was not reported stays
// to be reported.
func (u *usage) recount(last pdusession.Counts) {
	old := u.Reported
	u.Reported = pdusession.Counts{Up: old.Up - last.Up, Down: old.Down - last.Down, UpPackets: old.UpPackets - last.UpPackets,
		DownPackets: old.DownPackets - last.DownPackets}
	move := func(limit, by uint64) uint64 {
		if limit == 0 {
			return 0
		}
		return uint64(max(1, int64(limit)-int64(by)))
	}
	u.Quota = pdusession.Volume{Total: move(u.Quota.Total, last.Up+last.Down), Up: move(u.Quota.Up, last.Up), Down: move(u.Quota.Down, last.Down)}
	u.Stop = move(u.Stop, last.Up+last.Down)
}
