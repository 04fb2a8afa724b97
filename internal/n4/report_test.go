// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"net/netip"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/smf"
)

// measured is the plain session with a URR in both PDRs.
func measured(u smf.URR) []*ie.IE {
	up, down := uplink(), downlink()
	u.ID = 1
	up.URRs, down.URRs = []uint32{1}, []uint32{1}
	return []*ie.IE{up.Create(), down.Create(), toCore().Create(), toBase().Create(), u.Create()}
}

// usageReport awaits a Session Report Request with a usage report, other than those that are sent again.
func (b *bench) usageReport(m *smf.SMF) smf.Usage {
	b.t.Helper()
	is := b.await(m, "a usage report", func(is message.Message) bool {
		r, ok := is.(*message.SessionReportRequest)
		return ok && r.ReportType.HasUSAR() && !b.reported[r.Sequence()]
	})
	b.reported[is.Sequence()] = true
	list, err := smf.UsageReports(is)
	if err != nil || len(list) != 1 || is.SEID() != 1 {
		b.t.Fatalf("%+v for session %d, error %v", list, is.SEID(), err)
	}
	return list[0]
}

func TestAVolumeThresholdIsReportedAndArmedAgain(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{Triggers: [2]byte{2}, Threshold: 1000})...)
	row := b.data.row(t)
	b.data.count(row, 600, 500)
	if u := b.usageReport(m); u.Total != 1100 || u.Up != 600 || u.Down != 500 || u.Sequence != 0 || u.Trigger != [3]byte{2} {
		t.Errorf("%+v", u)
	}
	b.data.count(row, 900, 0)
	b.data.count(row, 100, 0)
	if u := b.usageReport(m); u.Total != 1000 || u.Sequence != 1 {
		t.Errorf("%+v", u)
	}
	b.data.count(row, 7, 0)
	got, err := m.Modify(b.context(), is, ie.NewQueryURR(ie.NewURRID(1)))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 1 || list[0].Total != 7 || list[0].Sequence != 2 || list[0].Trigger != [3]byte{0x80} {
		t.Errorf("%+v, error %v", list, err)
	}
	b.data.count(row, 1, 2)
	end, err := m.Delete(b.context(), is)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(end); err != nil || len(list) != 1 || list[0].Total != 3 || list[0].Sequence != 3 || list[0].Trigger != [3]byte{0, 8} {
		t.Errorf("%+v, error %v", list, err)
	}
}

func TestAVolumeQuotaStopsPacketsUntilTheNext(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{Triggers: [2]byte{0, 1}, Quota: 1000})...)
	row := b.data.row(t)
	if b.data.count(row, 1000, 0) != 1000 || b.data.count(row, 1, 0) != 0 {
		t.Error("the quota is another one")
	}
	if u := b.usageReport(m); u.Total != 1000 || u.Trigger != [3]byte{0, 1} {
		t.Errorf("%+v", u)
	}
	if b.data.count(row, 1, 0) != 0 {
		t.Error("packets pass without a quota")
	}
	if _, err := m.Modify(b.context(), is, ie.NewUpdateURR(ie.NewURRID(1), ie.NewVolumeQuota(1, 500, 0, 0))); err != nil {
		t.Fatal(err)
	}
	if b.data.count(row, 500, 0) != 500 || b.data.count(row, 1, 0) != 0 {
		t.Error("the second quota is another one")
	}
	if u := b.usageReport(m); u.Total != 500 || u.Sequence != 1 {
		t.Errorf("%+v", u)
	}
}

func TestTimesAreReported(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, measured(smf.URR{Triggers: [2]byte{1 | 4 | 16, 2}, Period: time.Second, TimeThreshold: time.Second, TimeQuota: 2 * time.Second, Duration: true})...)
	row := b.data.row(t)
	b.data.count(row, 10, 0)
	seen := [3]byte{}
	var total, duration uint64
	for seen != [3]byte{1 | 4 | 16, 2} {
		u := b.usageReport(m)
		for i := range seen {
			seen[i] |= u.Trigger[i]
		}
		total, duration = total+u.Total, duration+uint64(u.Seconds)
	}
	if total != 10 || duration > 3 || duration < 1 {
		t.Errorf("%d bytes in %d s", total, duration)
	}
	eventually(t, "packets stop", func() bool { return b.data.count(row, 1, 0) == 0 })
}

func TestARemovedURRIsReported(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{})...)
	b.data.count(b.data.row(t), 5, 6)
	got, err := m.Modify(b.context(), is, ie.NewRemoveURR(ie.NewURRID(1)), smf.URR{ID: 1}.Create())
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 1 || list[0].Total != 11 || list[0].Trigger != [3]byte{0, 8} {
		t.Errorf("created again: %+v, error %v", list, err)
	}
	b.data.count(b.data.row(t), 2, 0)
	if got, err = m.Modify(b.context(), is, ie.NewRemoveURR(ie.NewURRID(1))); err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 1 || list[0].Total != 2 || list[0].Sequence != 0 {
		t.Errorf("removed: %+v, error %v", list, err)
	}
}

func TestAllURRsAreQueried(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, plain(smf.URR{ID: 1}.Create(), smf.URR{ID: 2}.Create())...)
	got, err := m.Modify(b.context(), is, ie.NewPFCPSMReqFlags(4))
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 2 {
		t.Errorf("%+v, error %v", list, err)
	}
}

func TestDownlinkDataIsReportedOnce(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	far := smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify, BAR: 1}
	is := b.establish1(m, uplink().Create(), downlink().Create(), toCore().Create(), far.Create(),
		ie.NewCreateBAR(ie.NewBARID(1), ie.NewDownlinkDataNotificationDelay(50*time.Millisecond)))
	silent := make(chan struct{})
	m.Answer(func(r message.Message) message.Message {
		if r.MessageType() == message.MsgTypeSessionReportRequest {
			select {
			case <-silent:
			default:
				return nil
			}
		}
		return m.Accept(r)
	})
	_, block := b.data.only(t)
	waits := pdusession.Notice{Kind: pdusession.Waiting, Block: block, Rule: 1, DSCP: 46}
	b.Notice(waits)
	b.Notice(waits)
	report := func() *message.SessionReportRequest {
		return b.await(m, "a downlink data report", func(is message.Message) bool {
			r, ok := is.(*message.SessionReportRequest)
			return ok && r.ReportType.HasDLDR()
		}).(*message.SessionReportRequest)
	}
	first := report()
	pdr, err := first.DownlinkDataReport.PDRID()
	info, err2 := first.DownlinkDataReport.FindByType(ie.DownlinkDataServiceInformation)
	if err != nil || err2 != nil || pdr != 2 {
		t.Fatalf("PDR %d, errors %v, %v", pdr, err, err2)
	}
	if ppi, err := info.PPI(); err != nil || ppi != 46 {
		t.Errorf("PPI %d, error %v", ppi, err)
	}
	close(silent)
	// Retransmissions have the sequence number of the first one. A new report has another.
	eventually(t, "a report after the answer", func() bool {
		b.Notice(waits)
		select {
		case is := <-m.Requests():
			return is.MessageType() == message.MsgTypeSessionReportRequest && is.Sequence() != first.Sequence()
		default:
			return false
		}
	})
	if _, err := m.Modify(b.context(), is, toBase().Update()); err != nil {
		t.Fatal(err)
	}
	b.Notice(waits)
	if b.status().Notices < 4 {
		t.Error("notices are not counted")
	}
}

func TestAnErrorIndicationIsReported(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, plain()...)
	b.Notice(pdusession.Notice{Kind: pdusession.ErrorIndication, Peer: base, TEID: 99})
	b.Notice(pdusession.Notice{Kind: pdusession.ErrorIndication, Peer: base, TEID: 5})
	r := b.await(m, "an error indication report", func(is message.Message) bool {
		r, ok := is.(*message.SessionReportRequest)
		return ok && r.ReportType.HasERIR()
	}).(*message.SessionReportRequest)
	f, err := r.ErrorIndicationReport.FTEID()
	if err != nil || f.TEID != 5 || !f.IPv4Address.Equal(base.AsSlice()) {
		t.Errorf("%+v, error %v", f, err)
	}
}

func TestInactivityIsReported(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, plain(ie.NewUserPlaneInactivityTimer(time.Second))...)
	b.await(m, "a report of inactivity", func(is message.Message) bool {
		r, ok := is.(*message.SessionReportRequest)
		return ok && r.ReportType.HasUPIR()
	})
}

func TestAPathFailureIsReported(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	for _, peer := range []string{"192.0.2.7", "2001:db8::7"} {
		b.Notice(pdusession.Notice{Kind: pdusession.PathDown, Peer: netip.MustParseAddr(peer)})
		r := b.await(m, "a node report", func(is message.Message) bool {
			return is.MessageType() == message.MsgTypeNodeReportRequest
		}).(*message.NodeReportRequest)
		f, err := r.UserPlanePathFailureReport.RemoteGTPUPeer()
		if err != nil || f.IPv4Address.String() != peer && f.IPv6Address.String() != peer {
			t.Errorf("%+v, error %v", f, err)
		}
	}
}

func TestUsageIsReportedLateWhenTheSMFIsDown(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, measured(smf.URR{Triggers: [2]byte{2}, Threshold: 100})...)
	m.Answer(func(message.Message) message.Message { return nil })
	eventually(t, "down", func() bool { return !b.status().Peers[0].Up })
	row := b.data.row(t)
	for range 10 {
		b.data.count(row, 150, 0)
	}
	eventually(t, "the notice", func() bool { return b.status().Notices >= 1 })
	m.Answer(m.Accept)
	if u := b.usageReport(m); u.Total != 1500 || u.Sequence != 0 || u.Trigger != [3]byte{2} {
		t.Errorf("%+v", u)
	}
	b.acknowledged()
	b.data.count(row, 150, 0)
	if u := b.usageReport(m); u.Total != 150 || u.Sequence != 1 {
		t.Errorf("%+v", u)
	}
}

func TestASessionReportResponseChangesTheBARAndDropsPackets(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	far := smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify, BAR: 1}
	b.establish1(m, uplink().Create(), downlink().Create(), toCore().Create(), far.Create(), ie.NewCreateBAR(ie.NewBARID(1)))
	m.Answer(func(r message.Message) message.Message {
		if r.MessageType() != message.MsgTypeSessionReportRequest {
			return m.Accept(r)
		}
		return message.NewSessionReportResponse(0, 0, r.SEID(), r.Sequence(), 0, ie.NewCause(ie.CauseRequestAccepted), ie.NewPFCPSRRspFlags(1),
			ie.NewUpdateBARWithinSessionReportResponse(ie.NewBARID(1), ie.NewDownlinkDataNotificationDelay(100*time.Millisecond)))
	})
	before, _ := b.data.work()
	_, block := b.data.only(t)
	b.Notice(pdusession.Notice{Kind: pdusession.Waiting, Block: block, Rule: 1})
	eventually(t, "packets are dropped, and wait again", func() bool {
		puts, _ := b.data.work()
		s, _ := b.data.only(t)
		return puts == before+2 && s.Rules[1].Forward.Action == pdusession.Wait
	})
	var delay uint8
	if err := b.do(func() {
		for _, is := range b.sessions.byNumber {
			delay = is.Set.BAR(1).Delay
		}
	}); err != nil || delay != 2 {
		t.Errorf("delay %d, error %v", delay, err)
	}
}
