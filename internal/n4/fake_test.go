// SPDX-License-Identifier: Apache-2.0

package n4

// A data plane without packets, and a server with SMFs, for the tests.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/n4/rules"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/smf"
)

var patience = pace.Stretch(10 * time.Second)

var (
	local4 = netip.MustParseAddr("192.0.2.1")
	local6 = netip.MustParseAddr("2001:db8::1")
	base   = netip.MustParseAddr("192.0.2.100")
)

// fakeUsage is a row of the fake.
type fakeUsage struct {
	counts           pdusession.Counts
	threshold, quota pdusession.Volume
	notified, closed bool
}

// fake is a DataPlane that keeps what it is given.
type fake struct {
	notice func(pdusession.Notice)

	mu         sync.Mutex // guards what follows
	next       uint32
	sessions   map[uint32]*pdusession.Session // by block
	usages     map[uint32]*fakeUsage
	seen       time.Duration
	endMarkers []string
	locals     rules.Locals // nil: localAddresses
	commits    int
	puts       int
	room       int // sessions that fit; 0: any
	failCommit func(b *fakeBatch) error
}

func newFake() *fake {
	return &fake{sessions: map[uint32]*pdusession.Session{}, usages: map[uint32]*fakeUsage{}}
}

type fakeBatch struct {
	*fake
	do    []func(final map[uint32]pdusession.Counts)
	added []*pdusession.Session
}

func (f *fake) Begin() Batch { return &fakeBatch{fake: f} }

func (b *fakeBatch) Put(was *pdusession.Rows, s *pdusession.Session) (*pdusession.Rows, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if was == nil && b.room != 0 && len(b.sessions)+len(b.added) >= b.room {
		return nil, fmt.Errorf("session %v: %w", s.IPv4, cube.ErrFull)
	}
	rows := &pdusession.Rows{Size: uint32(len(s.Rules)), Usages: map[uint32]uint32{}}
	b.next++
	rows.Block = b.next
	gone := map[uint32]uint32{}
	if was != nil {
		maps.Copy(gone, was.Usages)
	}
	for _, u := range s.Usages {
		if was != nil && was.Usages[u.ID] != 0 {
			rows.Usages[u.ID] = was.Usages[u.ID]
		} else {
			b.next++
			rows.Usages[u.ID] = b.next
		}
		delete(gone, u.ID)
	}
	b.added = append(b.added, s)
	b.do = append(b.do, func(final map[uint32]pdusession.Counts) {
		b.puts++
		if was != nil {
			delete(b.sessions, was.Block)
		}
		b.sessions[rows.Block] = s
		b.drop(gone, final)
		for _, u := range s.Usages {
			row := rows.Usages[u.ID]
			if b.usages[row] == nil {
				b.usages[row] = &fakeUsage{}
			}
			b.usages[row].arm(u.Threshold, u.Quota)
		}
	})
	return rows, nil
}

func (b *fakeBatch) drop(rows map[uint32]uint32, final map[uint32]pdusession.Counts) {
	for _, row := range rows {
		final[row] = b.usages[row].counts
		delete(b.usages, row)
	}
}

func (b *fakeBatch) Remove(rows *pdusession.Rows) error {
	b.do = append(b.do, func(final map[uint32]pdusession.Counts) {
		delete(b.sessions, rows.Block)
		b.drop(rows.Usages, final)
	})
	return nil
}

func (b *fakeBatch) Commit() (map[uint32]pdusession.Counts, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.commits++
	if b.failCommit != nil {
		if err := b.failCommit(b); err != nil {
			return nil, err
		}
	}
	final := map[uint32]pdusession.Counts{}
	for _, do := range b.do {
		do(final)
	}
	return final, nil
}

func (u *fakeUsage) arm(threshold, quota pdusession.Volume) {
	if u.threshold != threshold {
		u.notified = false
	}
	if u.quota != quota {
		u.closed = false
	}
	u.threshold, u.quota = threshold, quota
}

func (f *fake) Counts(row uint32) (pdusession.Counts, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	u := f.usages[row]
	if u == nil {
		return pdusession.Counts{}, errors.New("no such row")
	}
	return u.counts, nil
}

func (f *fake) Arm(row uint32, threshold, quota pdusession.Volume) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.usages[row] == nil {
		return errors.New("no such row")
	}
	f.usages[row].arm(threshold, quota)
	return nil
}

func (f *fake) Seen(*pdusession.Rows) (time.Duration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen, nil
}

func (f *fake) EndMarker(m rules.EndMarker) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := fmt.Sprintf("%v %d", m.Peer, m.TEID)
	if m.Local != "" {
		text += " from " + m.Local
	}
	f.endMarkers = append(f.endMarkers, text)
	return nil
}

// localAddresses are those of both families, without a network instance.
var localAddresses = rules.Locals{{Address: local4}, {Address: local6}}

func (f *fake) Locals() rules.Locals {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.locals != nil {
		return f.locals
	}
	return localAddresses
}

// count has packets pass, as far as the quota allows, with the notices that they cause. It returns what passed.
func (f *fake) count(row uint32, up, down uint64) uint64 {
	f.mu.Lock()
	u := f.usages[row]
	if u == nil {
		f.mu.Unlock()
		return 0
	}
	var notices []pdusession.Notice
	if over(u.quota, u.counts.Up+up, u.counts.Down+down) {
		if !u.closed {
			u.closed = true
			notices = append(notices, pdusession.Notice{Kind: pdusession.QuotaReached, Usage: row})
		}
		up, down = 0, 0
	} else if up+down > 0 {
		now := monotonic()
		if u.counts.First == 0 {
			u.counts.First = now
			notices = append(notices, pdusession.Notice{Kind: pdusession.Started, Usage: row})
		}
		u.counts.Last = now
		u.counts.Up, u.counts.Down = u.counts.Up+up, u.counts.Down+down
		u.counts.UpPackets++
		if over(u.threshold, u.counts.Up+1, u.counts.Down) && !u.notified {
			u.notified = true
			notices = append(notices, pdusession.Notice{Kind: pdusession.ThresholdReached, Usage: row})
		}
	}
	f.mu.Unlock()
	for _, n := range notices {
		f.notice(n)
	}
	return up + down
}

func over(limit pdusession.Volume, up, down uint64) bool {
	at := func(n, limit uint64) bool { return limit != 0 && n > limit }
	return at(up+down, limit.Total) || at(up, limit.Up) || at(down, limit.Down)
}

// only returns the one session of the fake, and its block.
func (f *fake) only(t testing.TB) (*pdusession.Session, uint32) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sessions) != 1 {
		t.Fatalf("the data plane has %d sessions instead of one", len(f.sessions))
	}
	for block, s := range f.sessions {
		return s, block
	}
	return nil, 0
}

// row returns the one row of usages.
func (f *fake) row(t testing.TB) uint32 {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.usages) != 1 {
		t.Fatalf("the data plane has %d usages instead of one", len(f.usages))
	}
	for row := range f.usages {
		return row
	}
	return 0
}

func (f *fake) size() (sessions, usages int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.sessions), len(f.usages)
}

// work is the number of sessions that were put, and of batches.
func (f *fake) work() (puts, commits int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.puts, f.commits
}

// ended are the end markers.
func (f *fake) ended() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.endMarkers)
}

// set changes the fake.
func (f *fake) set(change func(f *fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// bench is a server with a fake data plane.
type bench struct {
	*Server
	t      testing.TB
	data   *fake
	config Config
	stop   func()
	// reported are sequence numbers of requests with usage reports.
	reported map[uint32]bool
	// established is the number of sessions, and the last one's CP SEID.
	established uint64
	logs        *bytes.Buffer
}

// loopback returns an address that no other test has, so that all can use port 8805.
func loopback() netip.Addr {
	return netip.AddrFrom4([4]byte{127, byte(1 + rand.IntN(250)), byte(rand.IntN(256)), byte(1 + rand.IntN(254))})
}

func testConfig(t testing.TB) Config {
	return Config{
		Address: netip.AddrPortFrom(loopback(), Port), T1: 20 * time.Millisecond, N1: 2, Heartbeat: 50 * time.Millisecond,
		Store: filepath.Join(t.TempDir(), "sessions"),
	}
}

// start starts a server; change may be nil.
func start(t testing.TB, change func(*Config)) *bench {
	t.Helper()
	c := testConfig(t)
	if change != nil {
		change(&c)
	}
	b := &bench{t: t, data: newFake(), config: c, reported: map[uint32]bool{}}
	b.restart()
	t.Cleanup(func() { b.stop() })
	return b
}

// restart runs a server with the store and the data plane of the one before.
func (b *bench) restart() {
	b.t.Helper()
	if b.stop != nil {
		b.stop()
	}
	b.logs = &bytes.Buffer{}
	b.config.Log = slog.New(slog.NewTextHandler(b.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(b.config, b.data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.Server = s
	b.data.notice = s.Notice
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			b.t.Error(err)
		}
		if b.t.Failed() {
			b.t.Log(b.logs.String())
		}
	})
}

// smf returns an SMF with an association.
func (b *bench) smf() *smf.SMF {
	b.t.Helper()
	is := b.stranger(netip.AddrPortFrom(loopback(), Port))
	if _, err := is.Associate(b.context()); err != nil {
		b.t.Fatal(err)
	}
	return is
}

// stranger returns an SMF without an association.
func (b *bench) stranger(at netip.AddrPort) *smf.SMF {
	b.t.Helper()
	is, err := smf.New(at, b.config.Address, at.Addr().String())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { is.Close() })
	return is
}

func (b *bench) context() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	b.t.Cleanup(cancel)
	return ctx
}

// eventually polls until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
		<-tick.C
	}
}

func (b *bench) status() Status {
	b.t.Helper()
	is, err := b.Status()
	if err != nil {
		b.t.Fatal(err)
	}
	return is
}

// teids is the number of TEIDs in use.
func (b *bench) teids() (n int) {
	b.t.Helper()
	if err := b.do(func() { n = len(b.resources.teids) }); err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bench) smfAddress(m *smf.SMF) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(m.Node), Port)
}
