// SPDX-License-Identifier: Apache-2.0

// A crash is simulated by keeping, before each step of a commit or a rotation, the directories that a power cut could
// leave there: files not yet synced are empty, half or whole, names not yet synced are there or not.

package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// crashes collects directories and what may be found in each.
type crashes struct {
	t       *testing.T
	dir     string
	durable int // transactions whose Commit returned
	cases   []crash
	// What the directory entry of a name was before the last syncDir: "" for none.
	unsynced map[string]string
	dirty    map[string]int64 // synced length of files with bytes that are not
}

type crash struct {
	what, dir string
	durable   int
}

func (c *crashes) fault(op, name string) error {
	c.t.Helper()
	what := fmt.Sprintf("after %d transactions, before %s %s", c.durable, op, name)
	c.keep(what, nil)
	for file, synced := range c.dirty {
		for _, cut := range []int64{synced, synced + (c.length(file)-synced)/2} {
			c.keep(fmt.Sprintf("%s, %s cut at %d", what, file, cut), func(dir string) error {
				return os.Truncate(filepath.Join(dir, file), cut)
			})
		}
	}
	for name := range c.unsynced {
		c.keep(fmt.Sprintf("%s, without %s", what, name), func(dir string) error { return c.revert(dir, name) })
	}
	switch op {
	case "create":
		c.unsynced[name] = ""
	case "write":
		if _, ok := c.dirty[name]; !ok {
			c.dirty[name] = c.length(name)
		}
	case "sync":
		delete(c.dirty, name)
	case "rename":
		from := name + tmpSuffix
		c.unsynced[name] = from
		if synced, ok := c.dirty[from]; ok {
			c.dirty[name] = synced
		}
		delete(c.dirty, from)
		delete(c.unsynced, from)
	case "remove":
		delete(c.unsynced, name)
		delete(c.dirty, name)
	case "syncdir":
		clear(c.unsynced)
	}
	return nil
}

// revert undoes in dir what was not synced of a name.
func (c *crashes) revert(dir, name string) error {
	from := filepath.Join(dir, name)
	if was := c.unsynced[name]; was != "" {
		return os.Rename(from, filepath.Join(dir, was))
	}
	return os.Remove(from)
}

func (c *crashes) length(name string) int64 {
	st, err := os.Stat(filepath.Join(c.dir, name))
	if err != nil {
		c.t.Fatal(err)
	}
	return st.Size()
}

func (c *crashes) keep(what string, change func(dir string) error) {
	c.t.Helper()
	dir := copyDir(c.t, c.dir)
	if change != nil {
		if err := change(dir); err != nil {
			c.t.Fatalf("%s: %v", what, err)
		}
	}
	c.cases = append(c.cases, crash{what: what, dir: dir, durable: c.durable})
}

func TestCrashBetweenAnyTwoStepsKeepsWhatWasCommitted(t *testing.T) {
	c := &crashes{t: t, dir: newDir(t), unsynced: map[string]string{}, dirty: map[string]int64{}}
	s, _, err := open(Options{Dir: c.dir, SnapshotEvery: 4, KeepGenerations: 2, Logger: quiet()}, c.fault)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	txs, states := history(16)
	for _, tx := range txs {
		mustCommit(t, s, tx...)
		c.durable++
	}
	if gens := listGenerations(t, c.dir); gens[len(gens)-1].gen < 4 {
		t.Fatalf("only %d generations were begun", gens[len(gens)-1].gen)
	}
	for _, crash := range c.cases {
		checkCrash(t, crash, states)
	}
	t.Logf("%d crashes", len(c.cases))
}

// checkCrash opens what a crash left, commits to it and opens it again.
func checkCrash(t *testing.T, c crash, states []map[string]string) {
	t.Helper()
	var log logBuffer
	s, st, err := Open(Options{Dir: c.dir, Logger: log.logger()})
	if err != nil {
		t.Errorf("%s: %v", c.what, err)
		return
	}
	if strings.Contains(log.String(), "snapshot damaged") {
		t.Errorf("%s: a snapshot got its name before its bytes were durable: %s", c.what, log.String())
	}
	got := asMap(st)
	next := min(c.durable+1, len(states)-1)
	if !maps.Equal(got, states[c.durable]) && !maps.Equal(got, states[next]) {
		t.Errorf("%s: state %v, want %v or %v", c.what, got, states[c.durable], states[next])
	}
	mustCommit(t, s, put("later", c.what))
	mustClose(t, s)
	got["later"] = c.what
	if again, err := reopen(t, c.dir, nil); err != nil || !maps.Equal(again, got) {
		t.Errorf("%s: then %v, %v; want %v", c.what, again, err, got)
	}
}

var errFault = errors.New("injected fault")

// TestFaultAtAnyStepIsReportedOrHarmless refuses every single operation of a workload once: a Commit that returns nil
// is in the store afterwards, one that returns an error is not, and the store continues.
func TestFaultAtAnyStepIsReportedOrHarmless(t *testing.T) {
	txs, _ := history(10)
	for step := 0; ; step++ {
		dir, n, refused := newDir(t), -1, ""
		armed := false
		s, _, err := open(Options{Dir: dir, SnapshotEvery: 4, KeepGenerations: 2, Logger: quiet()}, func(op, name string) error {
			if !armed {
				return nil
			}
			if n++; n == step {
				refused = op + " " + name
				return errFault
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		armed = true
		want := map[string]string{}
		for i, tx := range txs {
			err := s.Commit(tx)
			if err != nil && !errors.Is(err, errFault) {
				t.Fatalf("%s: transaction %d: %v", refused, i, err)
			}
			if err != nil {
				continue
			}
			for _, r := range tx {
				delete(want, r.Key)
				if r.Value != nil {
					want[r.Key] = string(r.Value)
				}
			}
		}
		mustClose(t, s)
		if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s refused: %v, %v; want %v", refused, got, err, want)
		}
		if refused == "" {
			if step < 40 {
				t.Errorf("only %d steps were tried", step)
			}
			return
		}
	}
}

// TestCommitsThatWaitTogetherFailAlone: the two are written as one, that is refused, and then only the first again.
func TestCommitsThatWaitTogetherFailAlone(t *testing.T) {
	dir, writes := newDir(t), -1
	s, _, err := open(Options{Dir: dir, Logger: quiet()}, func(op, _ string) error {
		if op != "write" || writes < 0 {
			return nil
		}
		if writes++; writes <= 2 {
			return unix.ENOSPC
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	writes = 0
	results := [2]chan error{make(chan error, 1), make(chan error, 1)}
	for i, key := range []string{"large", "small"} {
		go func() { results[i] <- s.Commit([]Record{put(key, "x")}) }()
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
			s.queueMu.Lock()
			defer s.queueMu.Unlock()
			if len(s.queue) != i+1 {
				return fmt.Errorf("%d commits wait", len(s.queue))
			}
			return nil
		})
	}
	s.mu.Unlock()
	if err := <-results[0]; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the first: %v, want ENOSPC", err)
	}
	if err := <-results[1]; err != nil {
		t.Errorf("the second: %v", err)
	}
	mustClose(t, s)
	if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, map[string]string{"small": "x"}) {
		t.Errorf("%v, %v; want the second alone", got, err)
	}
}

func TestStoreHealsWhenTheDiskDoes(t *testing.T) {
	dir, sick := newDir(t), false
	s, _, err := open(Options{Dir: dir, Logger: quiet()}, func(op, _ string) error {
		if sick && (op == "sync" || op == "syncdir") {
			return unix.EIO
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, put("a", "1"))
	sick = true
	for range 3 {
		if err := s.Commit([]Record{put("a", "2"), put("b", "2")}); !errors.Is(err, ErrBroken) || !errors.Is(err, unix.EIO) {
			t.Fatalf("on a sick disk: %v", err)
		}
	}
	sick = false
	mustCommit(t, s, put("c", "3"))
	mustClose(t, s)
	want := map[string]string{"a": "1", "c": "3"}
	if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestFullDiskRefusesAndKeepsTheOldState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small tmpfs")
	}
	mnt := t.TempDir()
	if err := unix.Mount("store-test", mnt, "tmpfs", 0, "size=256k"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(mnt, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	dir := filepath.Join(mnt, "state")
	var log logBuffer
	s, _ := mustOpen(t, Options{Dir: dir, Logger: log.logger()})
	want := map[string]string{}
	refused := 0
	for i := range 20 {
		k, v := fmt.Sprintf("k%d", i), strings.Repeat("y", 30_000)
		err := s.Commit([]Record{put(k, v)})
		switch {
		case err == nil:
			want[k] = v
		case errors.Is(err, unix.ENOSPC) && !errors.Is(err, ErrBroken):
			refused++
		default:
			t.Fatal(err)
		}
	}
	if refused == 0 || len(want) == 0 {
		t.Fatalf("%d refused, %d stored", refused, len(want))
	}
	mustCommit(t, s, put("small", "fits"))
	want["small"] = "fits"
	mustClose(t, s)
	got, err := reopen(t, dir, log.logger())
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%d keys, %v; want %d", len(got), err, len(want))
	}
	if log.Len() > 0 {
		t.Errorf("what was refused is left in the journal: %s", log.String())
	}
}

// rejecting opens a store whose next commit reaches the journal whole, and is refused anyway at the step ops name.
func rejecting(t *testing.T, dir string, ops ...string) (s *Store, arm func()) {
	t.Helper()
	armed := false
	s, _, err := open(Options{Dir: dir, Logger: quiet()}, func(op, name string) error {
		if !armed || !slices.Contains(ops, op) {
			return nil
		}
		armed = op != ops[len(ops)-1]
		if op == "write" {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.Write(appendFrame(nil, s.seq+1, []Record{put("rejected", strings.Repeat("r", 500))})); err != nil {
				t.Fatal(err)
			}
		}
		return errFault
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s, func() { armed = true }
}

// TestRejectedTransactionNeverComesBack: its bytes are in the old generation's journal for good, and must not be read
// when the recovery falls back to it.
func TestRejectedTransactionNeverComesBack(t *testing.T) {
	for _, c := range []struct {
		name string
		ops  []string
	}{{"fsync refused", []string{"sync"}}, {"write and truncate refused", []string{"write", "truncate"}}} {
		t.Run(c.name, func(t *testing.T) {
			dir := newDir(t)
			s, arm := rejecting(t, dir, c.ops...)
			mustCommit(t, s, put("a", "1"))
			arm()
			if err := s.Commit([]Record{put("rejected", "x")}); !errors.Is(err, errFault) || errors.Is(err, ErrBroken) {
				t.Fatalf("%v, want the fault and a store that goes on", err)
			}
			mustCommit(t, s, put("b", "2"))
			mustClose(t, s)
			var log logBuffer
			want := map[string]string{"a": "1", "b": "2"}
			if got, err := reopen(t, dir, log.logger()); err != nil || !maps.Equal(got, want) || log.Len() > 0 {
				t.Errorf("%v, %v; want %v and silence: %s", got, err, want, log.String())
			}
			if b := readFile(t, filepath.Join(dir, journalName(1))); !strings.Contains(string(b), "rejected") {
				t.Fatal("the journal does not hold the rejected transaction: the test proves nothing")
			}
			writeFile(t, filepath.Join(dir, snapshotName(2)), []byte("damaged"))
			if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, want) {
				t.Errorf("after falling back: %v, %v; want %v", got, err, want)
			}
		})
	}
}

// TestDamagedTailOnAFullDiskIsCut: there is no room for a new generation, and the daemon must start nevertheless.
func TestDamagedTailOnAFullDiskIsCut(t *testing.T) {
	dir, journal, ends, states := journalOf(t, 5)
	writeFile(t, filepath.Join(dir, journalName(1)), journal[:ends[5]-3])
	full := true
	s, st, err := open(Options{Dir: dir, Logger: quiet()}, func(op, name string) error {
		if full && op == "write" {
			return unix.ENOSPC
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := asMap(st); !maps.Equal(got, states[4]) {
		t.Errorf("state %v, want %v", got, states[4])
	}
	full = false
	mustCommit(t, s, put("after", "1"))
	mustClose(t, s)
	want := maps.Clone(states[4])
	want["after"] = "1"
	if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}
