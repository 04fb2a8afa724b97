// SPDX-License-Identifier: Apache-2.0

package n4

// Each byte is reported once: random traffic, queries, changes and restarts, against the sum of what passed.

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

// ledger sums usage reports: those with the same sequence number count once.
type ledger struct {
	t    *testing.T
	seen map[uint32]smf.Usage
}

func (l *ledger) add(m message.Message) {
	l.t.Helper()
	list, err := smf.UsageReports(m)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, u := range list {
		if was, ok := l.seen[u.Sequence]; ok && (was.Total != u.Total || was.Up != u.Up) {
			l.t.Fatalf("report %d says %+v, and %+v", u.Sequence, was, u)
		}
		l.seen[u.Sequence] = u
	}
}

func (l *ledger) total() (sum uint64) {
	for n := range uint32(len(l.seen)) {
		u, ok := l.seen[n]
		if !ok {
			l.t.Fatalf("no report %d of %d", n, len(l.seen))
		}
		sum += u.Total
	}
	return sum
}

func TestEachByteIsReportedOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("POLYCUBE_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("POLYCUBE_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	b := start(t, nil)
	m := b.smf()
	// A third of the requests is lost, or their responses are.
	lossy := rand.New(rand.NewPCG(seed, 1))
	m.Answer(func(r message.Message) message.Message {
		if r.MessageType() == message.MsgTypeSessionReportRequest && lossy.IntN(3) == 0 {
			return nil
		}
		return m.Accept(r)
	})
	is := b.establish1(m, measured(smf.URR{Triggers: [2]byte{2, 1}, Threshold: 5000, Quota: 20000})...)
	l := &ledger{t, map[uint32]smf.Usage{}}
	var passed uint64
	collect := func() {
		for {
			select {
			case r := <-m.Requests():
				if r.MessageType() == message.MsgTypeSessionReportRequest {
					l.add(r)
				}
			default:
				return
			}
		}
	}
	for range 300 {
		collect()
		switch n := random.IntN(100); {
		case n < 80:
			passed += b.data.count(b.data.row(t), random.Uint64N(2000), random.Uint64N(2000))
		case n < 88:
			got, err := m.Modify(b.context(), is, ie.NewQueryURR(ie.NewURRID(1)))
			if err != nil {
				t.Fatal(err)
			}
			l.add(got)
		case n < 95:
			update := smf.URR{ID: 1, Triggers: [2]byte{2, 1}, Threshold: 1000 + random.Uint64N(9000), Quota: 1 + random.Uint64N(40000)}
			if _, err := m.Modify(b.context(), is, update.Update()); err != nil {
				t.Fatal(err)
			}
		case n < 98:
			if _, err := m.Modify(b.context(), is, toBase().Update()); err != nil {
				t.Fatal(err)
			}
		default:
			b.restart()
		}
	}
	m.Answer(m.Accept)
	b.acknowledged()
	got, err := m.Delete(b.context(), is)
	if err != nil {
		t.Fatal(err)
	}
	l.add(got)
	collect()
	if sum := l.total(); sum != passed {
		t.Errorf("%d bytes passed, %d were reported", passed, sum)
	}
}
