// SPDX-License-Identifier: Apache-2.0

package topology

// Revisions: who made them, what they did, and the way back.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/yang"
)

// labPast is the past of a lab's store.
type labPast struct{ l *lab }

func (p labPast) At(seq uint64) (*store.State, error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	records := p.l.records
	switch n := uint64(len(p.l.txs)); {
	case seq > n:
		return nil, store.ErrGone
	case seq < n:
		records = p.l.states[seq]
	}
	state := &store.State{Sequence: seq}
	for _, k := range slices.Sorted(maps.Keys(records)) {
		state.Records = append(state.Records, store.Record{Key: k, Value: records[k]})
	}
	return state, nil
}

func (p labPast) Transactions(before uint64, n int, want func(key string) bool) ([]store.Transaction, error) {
	p.l.mu.Lock()
	defer p.l.mu.Unlock()
	var out []store.Transaction
	for _, tx := range slices.Backward(p.l.txs) {
		if (before == 0 || tx.Sequence <= before) && len(out) < n {
			tx.Records = slices.DeleteFunc(slices.Clone(tx.Records), func(r store.Record) bool { return !want(r.Key) })
			out = append(out, tx)
		}
	}
	return out, nil
}

func (p labPast) Oldest() (uint64, error) { return 0, nil }
func (p labPast) Stats() store.Stats      { return store.Stats{Repaired: []string{"the journal was cut"}} }

// exportAt returns the configuration of a revision.
func (l *lab) exportAt(revision uint64) string {
	l.t.Helper()
	c, err := l.ConfigurationAt(revision)
	if err != nil {
		l.t.Fatal(err)
	}
	var b bytes.Buffer
	if err := c.Export(context.Background(), &b); err != nil {
		l.t.Fatal(err)
	}
	return b.String()
}

func TestHistoryTellsWhoDidWhat(t *testing.T) {
	l := newLab(t, "veth1", "veth2", "veth3")
	anna := WithOrigin(context.Background(), history.Origin{Who: "anna", From: "socket", What: "PATCH /config"})
	if _, err := l.Apply(anna, []byte(site), ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := l.Edit(anna, "toybridge", "br1", yang.Merge, yang.Path{{Name: "note"}}, []byte(`"second"`)); err != nil {
		t.Fatal(err)
	}
	l.must(`detach th3 veth2`, `delete br2`, `create toyfilter th5`)
	if _, err := l.Rollback(anna, 1, ApplyOptions{}); err != nil {
		t.Fatal(err)
	}
	l.restart()
	h, err := l.History(0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range h.Revisions {
		if r.Time.IsZero() {
			t.Errorf("revision %d has no time", r.Number)
		}
		d, err := l.RevisionAt(r.Number)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %v %q +%v ~%v -%v n%v\n%s", r.Number, r.By, r.Note, r.Added, r.Changed, r.Deleted, r.Netdevs, shown(d.Difference)))
	}
	want := []string{
		"6 [{anna socket PATCH /config}] \"rollback to revision 1\" +[br2] ~[br1] -[th5] n[veth2]\n" +
			"change toybridge br1\n  add ports/p2/peer  > \"br2:p1\"\n  change note \"second\" > \"first\"\n" +
			"add toybridge br2\n  add ports/p1  > {\"peer\":\"br1:p2\"}\n  add fdb/aging-time  > 60\n  add fdb/entry/aa  > {\"port\":\"p1\"}\n" +
			"delete toyfilter th5\nnetdev veth2 [th4] > [th4 th3]\n",
		"5 [] \"\" +[th5] ~[] -[] n[]\nadd toyfilter th5\n",
		"4 [] \"\" +[] ~[br1] -[br2] n[]\nchange toybridge br1\n  delete ports/p2/peer \"br2:p1\" > \n" +
			"delete toybridge br2\n  delete ports/p1 {\"peer\":\"br1:p2\"} > \n  delete fdb/aging-time 60 > \n  delete fdb/entry/aa {\"port\":\"p1\"} > \n",
		"3 [] \"\" +[] ~[] -[] n[veth2]\nnetdev veth2 [th4 th3] > [th4]\n",
		"2 [{anna socket PATCH /config}] \"\" +[] ~[br1] -[] n[]\nchange toybridge br1\n  change note \"first\" > \"second\"\n",
	}
	for i, w := range want {
		if i >= len(got) || got[i] != w {
			t.Errorf("revision %d is\n%swant\n%s", 6-i, got[i], w)
		}
	}
	if first := h.Revisions[len(h.Revisions)-1]; len(first.Added) != 6 || h.Revision != 6 || h.Oldest != 0 || len(h.Notes) != 1 {
		t.Errorf("the first revision is %+v of %+v", first, h)
	}
	part, err := l.History(4, 2)
	if err != nil || len(part.Revisions) != 2 || part.Revisions[0].Number != 4 || part.Revisions[1].Number != 3 {
		t.Errorf("two from 4 on are %+v, %v", part, err)
	}
	for _, revision := range []uint64{7, 1 << 40} {
		if _, err := l.RevisionAt(revision); !errors.Is(err, cube.ErrNotFound) || !strings.Contains(err.Error(), "the configuration is at revision 6") {
			t.Errorf("revision %d: %v", revision, err)
		}
		if _, err := l.Rollback(anna, revision, ApplyOptions{}); !errors.Is(err, cube.ErrNotFound) {
			t.Errorf("rollback to %d: %v", revision, err)
		}
	}
}

func TestRollbackLeadsToEachRevision(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 3))
		l := newLab(t, "veth1", "veth2", "veth3")
		exports := []string{l.export()}
		for range 150 {
			if err := l.do(randomLine(r)); err != nil {
				continue // refused requests are no revisions
			}
			if n := l.Revision(); n == uint64(len(exports)) {
				exports = append(exports, l.export())
			} else if n != uint64(len(exports)-1) {
				t.Fatalf("revision %d after %d", n, len(exports)-1)
			}
		}
		for revision, want := range exports {
			if is := l.exportAt(uint64(revision)); is != want {
				t.Fatalf("seed %d: revision %d reads\n%s\nwas\n%s", seed, revision, is, want)
			}
		}
		for range 25 {
			to := r.IntN(len(exports))
			was := l.state()
			dry, err := l.Rollback(context.Background(), uint64(to), ApplyOptions{DryRun: true})
			if err != nil {
				t.Fatalf("seed %d: dry rollback to %d: %v", seed, to, err)
			}
			l.wantState(was)
			before := l.export()
			done, err := l.Rollback(context.Background(), uint64(to), ApplyOptions{})
			if err != nil || shown(dry.Difference) != shown(done.Difference) || done.Changed != (before != exports[to]) {
				t.Fatalf("seed %d: rollback to %d: %v, %+v", seed, to, err, done)
			}
			if is := l.export(); is != exports[to] {
				t.Fatalf("seed %d: rollback to %d from\n%s\nmade\n%s\nwant\n%s", seed, to, before, is, exports[to])
			}
			l.wantSound()
		}
	}
}

func TestARollbackThatIsNotPossibleChangesNothing(t *testing.T) {
	l := newLab(t, "veth1", "veth2")
	l.must(`create toybridge br1 <<< {"ports":[{"name":"p1","peer":"veth1"}]}`, `delete br1`, `create toyfilter th1`)
	l.devs.remove("veth1")
	before := l.state()
	_, err := l.Rollback(context.Background(), 1, ApplyOptions{})
	if !errors.Is(err, cube.ErrNotFound) || !strings.Contains(err.Error(), "rollback to revision 1: br1: port p1 of br1: peer veth1: netdev veth1: not found") {
		t.Errorf("it says %v", err)
	}
	l.wantState(before)
}

func TestWithoutAStoreThereIsNoHistory(t *testing.T) {
	l := newLab(t)
	l.Past = history.New(nil, nil, nil)
	_, history := l.History(0, 1)
	_, detail := l.RevisionAt(1)
	_, rollback := l.Rollback(context.Background(), 1, ApplyOptions{})
	for _, err := range []error{history, detail, rollback} {
		if !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("%v, want %v", err, cube.ErrUnsupported)
		}
	}
}

// Services are not part of a document, but adding and removing them makes revisions like changes of cubes.
func TestServicesAreRevisions(t *testing.T) {
	l, _ := newHosted(t)
	l.must(`create outer o1`)
	want := l.export()
	l.must(`delete o1`)
	ctx := WithOrigin(context.Background(), history.Origin{Who: "anna"})
	if err := l.RemoveService(ctx, "outer"); err != nil {
		t.Fatal(err)
	}
	h, err := l.History(0, 10)
	if err != nil || h.Revision != 4 || len(h.Revisions) != 4 {
		t.Fatalf("history is %+v, %v", h, err)
	}
	if r := h.Revisions[0]; r.Note != "service outer was removed" || len(r.By) != 1 || r.By[0].Who != "anna" || h.Revisions[3].Note != "service outer was added" {
		t.Errorf("the last revision is %+v, the first %+v", r, h.Revisions[3])
	}
	if d, err := l.RevisionAt(4); err != nil || !d.Difference.Empty() {
		t.Errorf("the last revision did %+v, %v", d, err)
	}
	if is := l.exportAt(2); is != want {
		t.Errorf("revision 2 is %s, want %s", is, want)
	}
	before := l.state()
	if _, err := l.Rollback(ctx, 2, ApplyOptions{}); err == nil || !strings.Contains(err.Error(), `o1: service-name: no service "outer"`) {
		t.Errorf("a rollback to a service that is gone: %v", err)
	}
	l.wantState(before)
}
