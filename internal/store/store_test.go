// SPDX-License-Identifier: Apache-2.0

// The contract of the store as its callers see it.

package store

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func TestStateIsTheLastValueOfEveryKey(t *testing.T) {
	for _, every := range []int{1, 2, 5, 1000} {
		t.Run(fmt.Sprintf("snapshot every %d", every), func(t *testing.T) {
			dir := newDir(t)
			txs, states := history(20)
			for i, tx := range txs {
				s, got := mustOpen(t, Options{Dir: dir, SnapshotEvery: every})
				if !maps.Equal(got, states[i]) {
					t.Fatalf("after %d transactions: %v, want %v", i, got, states[i])
				}
				mustCommit(t, s, tx...)
				mustClose(t, s)
			}
		})
	}
}

func TestRecordsAreSortedAndEmptyIsNotDeleted(t *testing.T) {
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir})
	mustCommit(t, s, put("b", "x"), put("a", ""), put("c", "x"), put("c", "y"), put("b", "z"), del("b"), del("never"))
	mustClose(t, s)
	_, st, err := Open(Options{Dir: dir, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	if len(st.Records) != 2 || st.Records[0].Key != "a" || st.Records[1].Key != "c" {
		t.Fatalf("records %v, want a and c", st.Records)
	}
	if st.Records[0].Value == nil || len(st.Records[0].Value) != 0 || string(st.Records[1].Value) != "y" {
		t.Errorf("values %q and %q, want empty and y", st.Records[0].Value, st.Records[1].Value)
	}
}

func TestInvalidRecordsChangeNothing(t *testing.T) {
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir})
	mustCommit(t, s, put("a", "1"))
	size := s.size
	if err := s.Commit([]Record{put("a", "2"), put("", "x")}); !errors.Is(err, ErrInvalid) {
		t.Errorf("empty key: %v, want ErrInvalid", err)
	}
	if err := s.Commit([]Record{{Key: "a", Value: make([]byte, MaxTransaction)}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("too large: %v, want ErrInvalid", err)
	}
	if err := s.Commit(nil); err != nil || s.size != size {
		t.Errorf("nothing to commit: %v, journal grew from %d to %d", err, size, s.size)
	}
	mustClose(t, s)
	if err := s.Commit([]Record{put("a", "3")}); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
	if got, _ := reopen(t, dir, nil); !maps.Equal(got, map[string]string{"a": "1"}) {
		t.Errorf("state %v", got)
	}
}

func TestLargeRecordsSurvive(t *testing.T) {
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir, SnapshotEvery: 3})
	want := map[string][]byte{}
	for size := 64 << 10; size <= 8<<20; size *= 2 {
		k := fmt.Sprint(size)
		v := bytes.Repeat([]byte{byte(size >> 16), 1, 2, 3}, size/4)
		mustCommit(t, s, Record{Key: k, Value: v})
		want[k] = bytes.Clone(v)
		clear(v) // the caller may reuse its memory
	}
	mustClose(t, s)
	_, st, err := Open(Options{Dir: dir, Logger: quiet()})
	if err != nil || len(st.Records) != len(want) {
		t.Fatalf("%d records, %v; want %d", len(st.Records), err, len(want))
	}
	for _, r := range st.Records {
		if !bytes.Equal(r.Value, want[r.Key]) {
			t.Errorf("value of %s bytes differs", r.Key)
		}
	}
}

func TestConcurrentCommitsAreAllKept(t *testing.T) {
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir, SnapshotEvery: 25})
	const workers, each = 8, 20
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				// Two keys with one value: a transaction torn apart would show.
				v := fmt.Sprint(i)
				if err := s.Commit([]Record{put(fmt.Sprintf("a%d", w), v), put(fmt.Sprintf("b%d", w), v)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, s)
	got, err := reopen(t, dir, nil)
	if err != nil || len(got) != 2*workers {
		t.Fatalf("%d keys, %v; want %d", len(got), err, 2*workers)
	}
	for k, v := range got {
		if v != fmt.Sprint(each-1) {
			t.Errorf("%s is %s, want %d", k, v, each-1)
		}
	}
}

func TestOnlyTheGenerationsToKeepStay(t *testing.T) {
	for _, keep := range []int{2, 4} {
		dir := newDir(t)
		s, _ := mustOpen(t, Options{Dir: dir, SnapshotEvery: 1, KeepGenerations: keep})
		for i := range 10 {
			mustCommit(t, s, put("k", fmt.Sprint(i)))
		}
		gens := listGenerations(t, dir)
		if len(gens) != keep {
			t.Errorf("%d generations, want %d", len(gens), keep)
		}
		for _, g := range gens {
			if !g.snapshot || !g.journal {
				t.Errorf("generation %d is not whole: %+v", g.gen, g)
			}
		}
	}
}

// TestASnapshotComesAfterAsManyRecordsAsItHas: to write a large state again and again would cost more than the changes.
func TestASnapshotComesAfterAsManyRecordsAsItHas(t *testing.T) {
	const most = 100
	s, _ := mustOpen(t, Options{Dir: newDir(t), SnapshotEvery: 4})
	snapshots := s.counted.snapshots
	for i := range most {
		mustCommit(t, s, put(fmt.Sprint("k", i), "v"))
	}
	if n := s.counted.snapshots - snapshots; n != 1 { // with the first 4: the journal has fewer than all from then on
		t.Errorf("%d snapshots of up to %d records", n, most)
	}
	before := s.counted.snapshots
	for i := range 10 * most {
		mustCommit(t, s, put(fmt.Sprint("k", i%most), "w"))
	}
	if n := s.counted.snapshots - before; n != 10 {
		t.Errorf("%d snapshots after %d records were replaced ten times", n, most)
	}
	mustClose(t, s)
}

// TestJournalOfLargeRecordsIsReplacedBeforeItsCount: one key written again and again must not fill the disk, and a
// refused snapshot is tried again only after as much again.
func TestJournalOfLargeRecordsIsReplacedBeforeItsCount(t *testing.T) {
	refuse, tries := true, 0
	s, _, err := open(Options{Dir: newDir(t), Logger: quiet()}, func(op, name string) error {
		if op == "create" && name == journalName(2) || op == "create" && name == journalName(3) {
			tries++
			if refuse {
				return unix.ENOSPC
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, s)
	value := bytes.Repeat([]byte("v"), 8<<20)
	for n := 1; s.gen == 1 && n < 30; n++ {
		refuse = tries == 0
		mustCommit(t, s, Record{Key: "k", Value: value})
		want := 0
		if n >= 8 {
			want = 1
		}
		if n >= 16 {
			want = 2
		}
		if tries != want {
			t.Fatalf("after %d records of 8 MB: %d tries, want %d", n, tries, want)
		}
	}
	if s.gen != 3 || s.size != journalHeaderLen {
		t.Errorf("generation %d with a journal of %d bytes, want 3 and an empty one", s.gen, s.size)
	}
}

func TestOneProcessOwnsTheStore(t *testing.T) {
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir})
	_, _, err := Open(Options{Dir: dir, Logger: quiet()})
	var locked *LockedError
	if !errors.As(err, &locked) || !errors.Is(err, ErrLocked) || locked.PID != os.Getpid() {
		t.Fatalf("second open: %v, want a LockedError with process %d", err, os.Getpid())
	}
	// A process that is being started has a copy of each descriptor until it runs its program.
	copied, err := unix.Dup(int(s.lock.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(copied) }()
	mustClose(t, s)
	if _, err := reopen(t, dir, nil); err != nil {
		t.Errorf("after Close: %v", err)
	}
}

// TestKilledOwnerLosesNothing runs this test binary as a child that commits until it is killed, and counts on what it
// said it had committed.
func TestKilledOwnerLosesNothing(t *testing.T) {
	if dir := os.Getenv("PCN_STORE_CHILD"); dir != "" {
		s, _ := mustOpen(t, Options{Dir: dir, SnapshotEvery: 7})
		for i := 0; ; i++ {
			mustCommit(t, s, put("n", fmt.Sprint(i)))
			fmt.Printf("committed %d\n", i)
		}
	}
	dir := newDir(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledOwnerLosesNothing$")
	cmd.Env = append(os.Environ(), "PCN_STORE_CHILD="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := -1
	for last < 50 {
		if _, err := fmt.Fscanf(out, "committed %d\n", &last); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := reopen(t, dir, nil); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), fmt.Sprint(cmd.Process.Pid)) {
		t.Errorf("while the child runs: %v, want ErrLocked naming %d", err, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := fmt.Fscanf(out, "committed %d\n", &last); err != nil {
			break
		}
	}
	_ = cmd.Wait() // killed by us
	got, err := reopen(t, dir, nil)
	var n int
	if _, scanErr := fmt.Sscan(got["n"], &n); err != nil || scanErr != nil || n < last || n > last+1 {
		t.Errorf("n is %q (%v), the child said %d", got["n"], err, last)
	}
}

func TestDirectoryIsPrivateAndNeverALink(t *testing.T) {
	tmp := t.TempDir()
	outer := filepath.Join(tmp, "real")
	if err := os.Mkdir(outer, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, link := range []struct{ from, to string }{{"link", outer}, {"dangling", filepath.Join(tmp, "nowhere")}} {
		if err := os.Symlink(link.to, filepath.Join(tmp, link.from)); err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{filepath.Join(tmp, link.from), filepath.Join(tmp, link.from, "below")} {
			if _, err := reopen(t, dir, nil); !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP) {
				t.Errorf("%s: %v, want a refusal of the link", dir, err)
			}
		}
	}
	if names, _ := os.ReadDir(outer); len(names) != 0 {
		t.Errorf("files were made behind the link: %v", names)
	}
	if _, err := reopen(t, filepath.Join(outer, "a/b"), nil); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(filepath.Join(outer, "a/b"))
	if err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v; want 0700", st.Mode(), err)
	}
	files, _ := os.ReadDir(filepath.Join(outer, "a/b"))
	for _, f := range files {
		if info, err := f.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v, %v; want 0600", f.Name(), info.Mode(), err)
		}
	}
	if len(files) != 3 {
		t.Errorf("%d files, want lock, journal and snapshot", len(files))
	}
}

func TestFilesThatAreLinksOrForeignAreRefused(t *testing.T) {
	for _, name := range []string{lockName, journalName(1), snapshotName(1)} {
		t.Run(name, func(t *testing.T) {
			dir := newDir(t)
			s, _ := mustOpen(t, Options{Dir: dir})
			mustCommit(t, s, put("a", "1"))
			mustClose(t, s)
			victim := filepath.Join(t.TempDir(), "victim")
			writeFile(t, victim, readFile(t, filepath.Join(dir, name)))
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(victim, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if _, err := reopen(t, dir, nil); !errors.Is(err, unix.ELOOP) {
				t.Errorf("a link: %v, want ELOOP", err)
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := reopen(t, dir, nil); err == nil || !strings.Contains(err.Error(), "not a regular file") {
				t.Errorf("a FIFO: %v, want a refusal", err)
			}
		})
	}
}

func TestDirectoryOfSomethingElseIsNotTouched(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "passwd"), []byte("x"))
	if _, err := reopen(t, dir, nil); err == nil || !strings.Contains(err.Error(), "passwd") {
		t.Errorf("error %v, want one that names the file", err)
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o755 {
		t.Errorf("mode became %v", st.Mode())
	}
}

func BenchmarkCommit(b *testing.B) {
	for _, size := range []int{100, 10_000, 1 << 20} {
		b.Run(fmt.Sprintf("%dB", size), func(b *testing.B) {
			s, _ := mustOpen(b, Options{Dir: newDir(b)})
			rec := Record{Key: "k", Value: bytes.Repeat([]byte("v"), size)}
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := s.Commit([]Record{rec}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("100B-parallel", func(b *testing.B) {
		s, _ := mustOpen(b, Options{Dir: newDir(b)})
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			rec := put("k", strings.Repeat("v", 100))
			for pb.Next() {
				if err := s.Commit([]Record{rec}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
