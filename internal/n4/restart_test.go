// SPDX-License-Identifier: Apache-2.0

package n4

// The store: what a restart, or an error in between, must not change.

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/smf"
)

func TestSessionsOutliveTheProgram(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{Triggers: [2]byte{2}, Threshold: 1000})...)
	before, block := b.data.only(t)
	row := b.data.row(t)
	b.data.count(row, 300, 0)
	b.stop()
	s, err := New(b.config, b.data)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for got, err := range s.Sessions() {
		if n++; err != nil || got.Rows.Block != block || got.Session.IPv4 != before.IPv4 || len(got.Session.Rules) != len(before.Rules) || got.Session.Usages[0] != before.Usages[0] {
			t.Errorf("%+v, error %v", got, err)
		}
	}
	if n != 1 {
		t.Errorf("%d sessions", n)
	}
	// A context that has ended: the server closes what it has opened.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.data.count(row, 700, 0)
	if u := b.usageReport(m); u.Total != 1000 {
		t.Errorf("%+v", u)
	}
	if _, err := m.Modify(b.context(), is, toBase().Update()); err != nil {
		t.Error(err)
	}
}

func TestAReportIsSentAgainWithItsSequenceNumber(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, measured(smf.URR{Triggers: [2]byte{2}, Threshold: 1000})...)
	m.Answer(func(r message.Message) message.Message {
		if r.MessageType() == message.MsgTypeSessionReportRequest {
			return nil
		}
		return m.Accept(r)
	})
	row := b.data.row(t)
	b.data.count(row, 1200, 0)
	first := b.usageReport(m)
	b.restart()
	if again := b.usageReport(m); again != first {
		t.Errorf("%+v, then %+v", first, again)
	}
	m.Answer(m.Accept)
	b.acknowledged()
	b.data.count(row, 1000, 0)
	for {
		if u := b.usageReport(m); u != first {
			if u.Sequence != 1 || u.Total != 1000 {
				t.Errorf("%+v", u)
			}
			break
		}
	}
}

// acknowledged waits until no report waits for an SMF.
func (b *bench) acknowledged() {
	b.t.Helper()
	eventually(b.t, "no report waits", func() bool {
		waiting := 0
		err := b.do(func() {
			for _, is := range b.sessions.byNumber {
				waiting += len(is.Pending)
			}
		})
		return err == nil && waiting == 0
	})
}

func TestAResponseWithUsageIsRepeatedAfterARestart(t *testing.T) {
	b := start(t, func(c *Config) { c.T1 = time.Minute })
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{})...)
	b.data.count(b.data.row(t), 55, 0)
	request := message.NewSessionDeletionRequest(0, 0, is.Seid, 0, 0)
	got, err := m.Exchange(b.context(), request)
	if err != nil {
		t.Fatal(err)
	}
	b.restart()
	repeated := b.repeat(m, request)
	if list, err := smf.UsageReports(repeated); err != nil || len(list) != 1 || list[0].Total != 55 || repeated.Sequence() != got.Sequence() {
		t.Errorf("%+v, error %v", list, err)
	}
}

// repeat handles a request again, with its sequence number, and returns what it is answered with.
func (b *bench) repeat(m *smf.SMF, request message.Message) message.Message {
	b.t.Helper()
	raw := make([]byte, request.MarshalLen())
	if err := request.MarshalTo(raw); err != nil {
		b.t.Fatal(err)
	}
	var out []datagram
	err := b.do(func() {
		b.receive(datagram{b.smfAddress(m), raw})
		b.commit()
		for _, d := range b.out {
			out = append(out, d.datagram)
		}
	})
	if err != nil || len(out) != 1 {
		b.t.Fatalf("%d responses, error %v", len(out), err)
	}
	is, err := message.Parse(out[0].bytes)
	if err != nil {
		b.t.Fatal(err)
	}
	return is
}

func TestReinstalledSessionsCountFromZero(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{Triggers: [2]byte{2, 1}, Threshold: 1000, Quota: 5000})...)
	b.data.count(b.data.row(t), 1000, 0)
	b.usageReport(m)
	b.acknowledged()
	b.stop()
	fresh := newFake()
	b.data = fresh
	s, err := New(b.config, fresh)
	if err != nil {
		t.Fatal(err)
	}
	for got, err := range s.Sessions() {
		if err != nil {
			t.Fatal(err)
		}
		batch := fresh.Begin()
		rows, err := batch.Put(nil, got.Session)
		if err == nil {
			_, err = batch.Commit()
		}
		if err == nil {
			err = s.Reinstalled(got.ID, rows)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Run(ctx); err != nil {
		t.Fatal(err)
	}
	b.restart()
	u := fresh.usages[fresh.row(t)]
	if u.threshold.Total != 1000 || u.quota.Total != 4000 {
		t.Errorf("%+v", u)
	}
	fresh.count(fresh.row(t), 10, 0)
	got, err := m.Delete(b.context(), is)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 1 || list[0].Total != 10 || list[0].Sequence != 1 {
		t.Errorf("%+v, error %v", list, err)
	}
}

func TestABatchThatCannotBeCommittedRefusesOnlyTheBadRequest(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	bad := base
	b.data.set(func(f *fake) {
		f.failCommit = func(batch *fakeBatch) error {
			if slices.ContainsFunc(batch.added, func(s *pdusession.Session) bool { return s.IPv4 == bad }) {
				return errors.New("broken")
			}
			return nil
		}
	})
	b.together(m, 20, bad)
	if st := b.status(); st.Sessions != 20 || st.Addresses != 20 {
		t.Errorf("%+v", st)
	}
	if n, _ := b.data.size(); n != 20 || b.teids() != 20 {
		t.Errorf("%d sessions, %d TEIDs", n, b.teids())
	}
}

// together has n good sessions and a bad one established by one batch.
func (b *bench) together(m *smf.SMF, n int, bad any) {
	b.t.Helper()
	var raws []datagram
	for i := range n + 1 {
		addr := device
		for range i {
			addr = addr.Next()
		}
		if i == n/2 {
			addr = base
		}
		p := uplink()
		p.UE4 = addr
		is := message.NewSessionEstablishmentRequest(0, 0, 0, uint32(1000+i), 0, m.NodeID(), m.FSEID(uint64(100+i)), p.Create(), toCore().Create())
		raw := make([]byte, is.MarshalLen())
		if err := is.MarshalTo(raw); err != nil {
			b.t.Fatal(err)
		}
		raws = append(raws, datagram{b.smfAddress(m), raw})
	}
	var causes []uint8
	err := b.do(func() {
		for _, d := range raws {
			b.receive(d)
		}
		b.commit()
		for _, d := range b.out {
			if answer, err := message.ParseSessionEstablishmentResponse(d.bytes); err == nil {
				cause, _ := answer.Cause.Cause()
				causes = append(causes, cause)
			}
		}
	})
	if err != nil || len(causes) != n+1 {
		b.t.Fatalf("%d responses, error %v", len(causes), err)
	}
	slices.Sort(causes)
	if bad != nil && (causes[n-1] != ie.CauseRequestAccepted || causes[n] == ie.CauseRequestAccepted) {
		b.t.Errorf("causes %v", causes)
	}
}

func TestSessionsWithoutRoomAreRefused(t *testing.T) {
	b := start(t, nil)
	b.data.set(func(f *fake) { f.room = 1 })
	m := b.smf()
	b.establish1(m, plain()...)
	p := uplink()
	p.UE4 = base
	if _, err := m.Establish(b.context(), 1002, p.Create(), toCore().Create()); refused(t, err).Cause != ie.CauseNoResourcesAvailable {
		t.Error(err)
	}
}

func TestWhatCannotBeStoredIsNotDone(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	is := b.establish1(m, measured(smf.URR{Quota: 5000})...)
	b.data.count(b.data.row(t), 100, 0)
	if err := b.do(func() {
		if err := b.store.Close(); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Fatal(err)
	}
	p := uplink()
	p.UE4 = base
	_, created := m.Establish(b.context(), 1002, p.Create(), toCore().Create())
	_, modified := m.Modify(b.context(), is, smf.FAR{ID: 2, Action: smf.Drop}.Update())
	_, deleted := m.Delete(b.context(), is)
	for _, err := range []error{created, modified, deleted} {
		if refused(t, err).Cause != ie.CauseSystemFailure {
			t.Error(err)
		}
	}
	if s, _ := b.data.only(t); s.Rules[1].Forward.Action != pdusession.Pass {
		t.Errorf("%+v", s.Rules[1])
	}
	// The session has other rows now, which continue the quota.
	if q := b.data.usages[b.data.row(t)].quota.Total; q != 4900 {
		t.Errorf("quota %d", q)
	}
	if err := b.do(func() {
		var err error
		if b.store, err = store.Open(b.config.Store); err != nil {
			t.Error(err)
		}
	}); err != nil {
		t.Error(err)
	}
	got, err := m.Delete(b.context(), is)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := smf.UsageReports(got); err != nil || len(list) != 1 || list[0].Total != 100 {
		t.Errorf("%+v, error %v", list, err)
	}
}

func TestAStoreIsOpenOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sessions")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := store.Open(path); err == nil {
		t.Error("it was opened twice")
	}
}
