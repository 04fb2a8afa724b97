// SPDX-License-Identifier: Apache-2.0

package n4

// Associations that end with many sessions.

import (
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/internal/n4/store"
	"github.com/polycube/polycube/test/smf"
)

// slow is a configuration in which nothing is sent again.
func slow(c *Config) { c.T1, c.Heartbeat = time.Minute, time.Hour }

// many establishes sessions of an SMF, with CP F-SEIDs and addresses from first on, without waiting for each.
func (b *bench) many(m *smf.SMF, first, n int, more ...*ie.IE) {
	b.t.Helper()
	from := b.smfAddress(m)
	was := b.status().Sessions
	for i := first; i < first+n; i++ {
		list := append([]*ie.IE{m.NodeID(), m.FSEID(uint64(i + 1))}, append(smf.Device(manyAddress(i), base, uint32(i+1)), more...)...)
		is := message.NewSessionEstablishmentRequest(0, 0, 0, 0x800000+uint32(i), 0, list...) // far from those of m
		raw := make([]byte, is.MarshalLen())
		if err := is.MarshalTo(raw); err != nil {
			b.t.Fatal(err)
		}
		b.inbox <- datagram{from, raw}
	}
	eventually(b.t, "the sessions", func() bool { return b.status().Sessions == was+n })
}

func manyAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// gate holds batches of the data plane, and counts them. While it holds one, sent is the number of requests whose answers were sent, and
// left that of sessions.
type gate struct {
	step             chan struct{}
	held, sent, left atomic.Int64
	open             func()
}

// gate has each batch wait for a step, until the gate is opened.
func (b *bench) gate(all ...*smf.SMF) *gate {
	for _, m := range all {
		m.Retransmit = patience // a heartbeat that is sent again is answered twice
	}
	g := &gate{step: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.step) })
	b.t.Cleanup(g.open) // before the server ends
	b.data.set(func(f *fake) {
		f.failCommit = func(batch *fakeBatch) error { // in the goroutine of the server
			sent := -len(b.out)
			for _, n := range b.counters.requests {
				sent += int(n)
			}
			g.sent.Store(int64(sent))
			g.left.Store(int64(len(batch.sessions)))
			g.held.Add(1)
			<-g.step
			return nil
		}
	})
	return g
}

// next carries out the batch that is held, and waits for the next one.
func (g *gate) next(t *testing.T) {
	t.Helper()
	eventually(t, "a batch", func() bool { return g.held.Load() > 0 })
	before := g.held.Load()
	g.step <- struct{}{}
	eventually(t, "the next batch", func() bool { return g.held.Load() > before })
}

// seidOf returns the SEID of one of an SMF's sessions.
func (b *bench) seidOf(m *smf.SMF) (seid uint64) {
	b.t.Helper()
	if err := b.do(func() { seid = b.sessions.byNumber[b.sessions.ofNode(m.Node)[0]].SEID }); err != nil {
		b.t.Fatal(err)
	}
	return seid
}

// answers has a request come during a batch, and returns after how many batches its answer was sent.
func (b *bench) answers(t *testing.T, g *gate, ask func() error) (steps int, err error) {
	t.Helper()
	before := g.sent.Load()
	answer := make(chan error, 1)
	go func() { answer <- ask() }()
	eventually(t, "the request", func() bool { return len(b.inbox) > 0 })
	for g.sent.Load() == before {
		if steps++; steps > 5 {
			t.Fatal("no answer was sent")
		}
		g.next(t)
	}
	return steps, <-answer
}

// TestAReleaseKeepsNobodyWaiting: while 20,000 sessions are removed, others are answered after two of the 79 batches, and the
// SMF's sessions are none any more.
func TestAReleaseKeepsNobodyWaiting(t *testing.T) {
	const sessions = 20_000
	b := start(t, slow)
	m, other := b.smf(), b.smf()
	b.many(m, 0, sessions)
	seid := b.seidOf(m)
	g := b.gate(m, other)
	released := make(chan error, 1)
	go func() { released <- m.Release(b.context()) }()
	g.next(t)
	for what, ask := range map[string]func() error{
		"a heartbeat":                func() error { _, err := other.Heartbeat(b.context()); return err },
		"a heartbeat of the SMF":     func() error { _, err := m.Heartbeat(b.context()); return err },
		"a session of another SMF":   func() error { _, err := other.Establish(b.context(), 1, plainAt(base)...); return err },
		"a session of the SMF":       cause(72, func() error { _, err := m.Establish(b.context(), 1, plain()...); return err }),
		"the SMF modifies a session": cause(72, func() error { _, err := m.Modify(b.context(), &smf.Session{Seid: seid}, toBase().Update()); return err }),
		"the SMF deletes a session":  cause(72, func() error { _, err := m.Delete(b.context(), &smf.Session{Seid: seid}); return err }),
		"the SMF releases again":     cause(72, func() error { return m.Release(b.context()) }),
	} {
		steps, err := b.answers(t, g, ask)
		if err != nil || steps > 2 {
			t.Errorf("%s: answered after %d batches, %v", what, steps, err)
		}
	}
	select {
	case err := <-released:
		t.Errorf("the release is answered while there are sessions: %v", err)
	default:
	}
	if n := g.left.Load(); n < sessions/2 {
		t.Errorf("%d sessions are left of %d", n, sessions)
	}
	g.open()
	if err := <-released; err != nil {
		t.Fatal(err)
	}
	if n, _ := b.data.size(); n != 1 || b.status().Sessions != 1 {
		t.Errorf("%d sessions are left, want that of the other SMF", n)
	}
	if _, err := m.Associate(b.context()); err != nil {
		t.Fatal(err)
	}
	b.many(m, sessions, 10)
}

// cause turns the refusal that is expected into no error.
func cause(want uint8, ask func() error) func() error {
	return func() error {
		var r *smf.RefusedError
		if err := ask(); !errors.As(err, &r) || r.Cause != want {
			return errors.Join(errors.New("it is not refused"), err)
		}
		return nil
	}
}

// plainAt is a plain session of another device.
func plainAt(address netip.Addr) []*ie.IE {
	p := uplink()
	p.UE4 = address
	return []*ie.IE{p.Create(), toCore().Create()}
}

// TestAnSMFThatIsBackWaitsForItsFormerSessions: they may have the addresses of its new ones.
func TestAnSMFThatIsBackWaitsForItsFormerSessions(t *testing.T) {
	for name, restart := range map[string]bool{"a new association": false, "a restart": true} {
		t.Run(name, func(t *testing.T) {
			b := start(t, slow)
			m := b.smf()
			b.many(m, 0, 8*maxBatch)
			g := b.gate(m)
			done := make(chan error, 1)
			if restart {
				m.Restart()
				go func() { _, err := m.Heartbeat(b.context()); done <- err }()
			} else {
				go func() { _, err := m.Associate(b.context()); done <- err }()
			}
			g.next(t)
			g.next(t) // now the heartbeat is answered
			steps, err := b.answers(t, g, cause(72, func() error { _, err := m.Establish(b.context(), 1, plainAt(manyAddress(5))...); return err }))
			if err != nil || steps > 2 {
				t.Errorf("a session is refused after %d batches: %v", steps, err)
			}
			g.open()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			eventually(t, "no session", func() bool { return b.status().Sessions == 0 })
			if _, err := m.Establish(b.context(), 1, plainAt(manyAddress(5))...); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestARemovalGoesOnAfterARestart of this end, of what was to be removed and of nothing else.
func TestARemovalGoesOnAfterARestart(t *testing.T) {
	for name, crash := range map[string]struct {
		before func(b *bench, p *peer)
		left   int
	}{
		"a release": {func(b *bench, p *peer) {
			delete(b.peers, p.Node)
			b.writes = append(b.writes, store.Write{Bucket: store.Peers, Key: []byte(p.Node)})
		}, 1},
		"a restart of the SMF": {func(b *bench, p *peer) {
			p.Before = b.last
			b.keep(p)
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, slow)
			m, other := b.smf(), b.smf()
			b.many(other, maxBatch*4, 1)
			b.many(m, 0, 2*maxBatch)
			if err := b.do(func() { crash.before(b, b.peers[m.Node]) }); err != nil {
				t.Fatal(err)
			}
			b.restart()
			eventually(t, "the sessions that should be left", func() bool {
				n, _ := b.data.size()
				return n == crash.left && b.status().Sessions == crash.left
			})
		})
	}
}
