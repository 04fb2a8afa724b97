// SPDX-License-Identifier: Apache-2.0

// A journal cut or flipped at any byte gives back the state before the damage; a damaged snapshot falls back.

package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// journalOf commits a small history without a rotation and returns the directory, the journal and where each
// transaction ends in it.
func journalOf(t *testing.T, n int) (dir string, journal []byte, ends []int, states []map[string]string) {
	t.Helper()
	dir = newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir})
	txs, states := history(n)
	ends = []int{journalHeaderLen}
	for _, tx := range txs {
		mustCommit(t, s, tx...)
		ends = append(ends, int(s.size))
	}
	mustClose(t, s)
	return dir, readFile(t, filepath.Join(dir, journalName(1))), ends, states
}

// wholeBefore is how many transactions end at or before byte n.
func wholeBefore(ends []int, n int) int {
	k := 0
	for k+1 < len(ends) && ends[k+1] <= n {
		k++
	}
	return k
}

func TestJournalCutAtAnyByteGivesTheLastWholeState(t *testing.T) {
	dir, journal, ends, states := journalOf(t, 6)
	for n := range len(journal) {
		c := copyDir(t, dir)
		writeFile(t, filepath.Join(c, journalName(1)), journal[:n])
		checkDamaged(t, c, fmt.Sprintf("cut at %d", n), states[wholeBefore(ends, n)], wholeOffset(ends, n), n)
	}
}

func TestJournalFlippedAtAnyByteGivesTheStateBeforeIt(t *testing.T) {
	dir, journal, ends, states := journalOf(t, 6)
	for n := range len(journal) {
		for _, mask := range []byte{0x01, 0xff} {
			c := copyDir(t, dir)
			b := append([]byte{}, journal...)
			b[n] ^= mask
			writeFile(t, filepath.Join(c, journalName(1)), b)
			k := wholeBefore(ends, n)
			at := ends[k]
			if n < journalHeaderLen {
				at = 0
			}
			checkDamaged(t, c, fmt.Sprintf("byte %d ^ %#x", n, mask), states[k], at, -1)
		}
	}
}

// wholeOffset is the byte at which a journal cut at n is reported to be damaged.
func wholeOffset(ends []int, n int) int {
	if n < journalHeaderLen {
		return 0
	}
	return ends[wholeBefore(ends, n)]
}

// checkDamaged opens dir twice: the first time the state is right and the damage is said once (unless the cut, at byte
// cut, is between transactions), the second time the state is the same and nothing is said.
func checkDamaged(t *testing.T, dir, what string, want map[string]string, at, cut int) {
	t.Helper()
	for round := range 2 {
		var log logBuffer
		got, err := reopen(t, dir, log.logger())
		if err != nil {
			t.Fatalf("%s, open %d: %v", what, round+1, err)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%s, open %d: state %v, want %v", what, round+1, got, want)
		}
		lines := strings.Count(log.String(), "journal damaged at byte "+fmt.Sprint(at)+",")
		expected := 1
		if round > 0 || cut == at && at > 0 {
			expected = 0
		}
		if lines != expected || strings.Count(log.String(), "\n") != expected {
			t.Fatalf("%s, open %d: %d lines name byte %d, want %d:\n%s", what, round+1, lines, at, expected, log.String())
		}
	}
}

func TestCommitAfterDamageContinuesFromTheStateBeforeIt(t *testing.T) {
	dir, journal, ends, states := journalOf(t, 6)
	journal[ends[3]+5] ^= 0x10
	writeFile(t, filepath.Join(dir, journalName(1)), journal)
	s, _ := mustOpen(t, Options{Dir: dir})
	mustCommit(t, s, put("new", "1"))
	mustClose(t, s)
	want := maps.Clone(states[3])
	want["new"] = "1"
	// With the new generation's snapshot lost, the damaged journal and the new one still give the same state.
	for _, lost := range []string{"", snapshotName(2)} {
		if lost != "" {
			if err := os.Remove(filepath.Join(dir, lost)); err != nil {
				t.Fatal(err)
			}
		}
		got, err := reopen(t, dir, nil)
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("without %q: %v, %v; want %v", lost, got, err, want)
		}
	}
}

// generationsOf commits a history over several generations.
func generationsOf(t *testing.T, n int) (string, []map[string]string) {
	t.Helper()
	dir := newDir(t)
	s, _ := mustOpen(t, Options{Dir: dir, SnapshotEvery: 4, KeepGenerations: 3})
	txs, states := history(n)
	for _, tx := range txs {
		mustCommit(t, s, tx...)
	}
	mustClose(t, s)
	return dir, states
}

func TestSnapshotDamagedAtAnyByteFallsBackToTheGenerationBefore(t *testing.T) {
	dir, states := generationsOf(t, 14)
	gens := listGenerations(t, dir)
	if len(gens) != 3 {
		t.Fatalf("%d generations kept, want 3", len(gens))
	}
	name := snapshotName(gens[2].gen)
	whole := readFile(t, filepath.Join(dir, name))
	for n := range len(whole) {
		for what, b := range map[string][]byte{"cut": whole[:n], "flipped": flipped(whole, n)} {
			c := copyDir(t, dir)
			writeFile(t, filepath.Join(c, name), b)
			got, err := reopen(t, c, nil)
			if err != nil || !maps.Equal(got, states[14]) {
				t.Fatalf("%s at %d: %v, %v; want %v", what, n, got, err, states[14])
			}
		}
	}
}

func flipped(b []byte, n int) []byte {
	c := append([]byte{}, b...)
	c[n] ^= 0x40
	return c
}

func listGenerations(t *testing.T, path string) []generation {
	t.Helper()
	d, err := openDir(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.f.Close()
	gens, err := d.generations()
	if err != nil {
		t.Fatal(err)
	}
	return gens
}

func TestDamageInSeveralFiles(t *testing.T) {
	base, states := generationsOf(t, 14)
	gens := listGenerations(t, base)
	snap := func(i int) string { return snapshotName(gens[i].gen) }
	jour := func(i int) string { return journalName(gens[i].gen) }
	for _, c := range []struct {
		name   string
		remove []string
		want   map[string]string
		err    error
	}{
		{"two snapshots lost: the oldest and three journals give all", []string{snap(2), snap(1)}, states[14], nil},
		{"the newest journal lost: its snapshot stays", []string{jour(2)}, nil, nil},
		{"every snapshot lost: refused, not empty", []string{snap(0), snap(1), snap(2)}, nil, ErrNoWholeState},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := copyDir(t, base)
			for _, name := range c.remove {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			want := c.want
			if want == nil && c.err == nil {
				_, recs, err := decodeSnapshot(readFile(t, filepath.Join(dir, snap(2))), gens[2].gen)
				if err != nil {
					t.Fatal(err)
				}
				want = asMap(&State{Records: recs})
			}
			got, err := reopen(t, dir, nil)
			if !errors.Is(err, c.err) || !maps.Equal(got, want) {
				t.Errorf("%v, %v; want %v, %v", got, err, want, c.err)
			}
		})
	}
}

func TestJournalThatDoesNotContinueTheStateIsLeftOut(t *testing.T) {
	base, states := generationsOf(t, 14)
	gens := listGenerations(t, base)
	t.Run("the one before it was cut between transactions", func(t *testing.T) {
		dir := copyDir(t, base)
		name := filepath.Join(dir, journalName(gens[1].gen))
		b := readFile(t, name)
		first, _, n, err := decodeFrame(b[journalHeaderLen:])
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, name, b[:journalHeaderLen+n])
		writeFile(t, filepath.Join(dir, snapshotName(gens[2].gen)), nil)
		checkLeftOut(t, dir, states[first])
	})
	t.Run("the snapshot is of a later time", func(t *testing.T) {
		dir := copyDir(t, base)
		last := gens[2].gen
		later := []Record{put("from", "a backup")}
		writeFile(t, filepath.Join(dir, snapshotName(last)), encodeSnapshot(last, 99, later))
		checkLeftOut(t, dir, asMap(&State{Records: later}))
	})
}

func checkLeftOut(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	var log logBuffer
	got, err := reopen(t, dir, log.logger())
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if strings.Count(log.String(), "does not match the state") != 1 {
		t.Errorf("said: %s", log.String())
	}
}

func TestDamagedGenerationsAreNotCountedAsKept(t *testing.T) {
	dir := newDir(t)
	for round := range 3 {
		s, _ := mustOpen(t, Options{Dir: dir, KeepGenerations: 2})
		mustCommit(t, s, put(fmt.Sprint(round), "x"))
		mustClose(t, s)
		gens := listGenerations(t, dir)
		writeFile(t, filepath.Join(dir, snapshotName(gens[len(gens)-1].gen)), []byte("damaged"))
	}
	want := map[string]string{"0": "x", "1": "x", "2": "x"}
	if got, err := reopen(t, dir, nil); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
}

func TestRefusedOpenLeavesTheFilesAlone(t *testing.T) {
	dir, _ := generationsOf(t, 14)
	for _, g := range listGenerations(t, dir) {
		writeFile(t, filepath.Join(dir, snapshotName(g.gen)), []byte("gone"))
	}
	before := listGenerations(t, dir)
	if _, err := reopen(t, dir, nil); !errors.Is(err, ErrNoWholeState) {
		t.Fatalf("error %v, want ErrNoWholeState", err)
	}
	if after := listGenerations(t, dir); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("files changed: %v, were %v", after, before)
	}
}

func FuzzDecodeNeverPanics(f *testing.F) {
	txs, _ := history(3)
	f.Add(appendFrame(nil, 1, txs[2]))
	f.Add(encodeSnapshot(1, 2, txs[0]))
	f.Fuzz(func(t *testing.T, b []byte) {
		if seq, recs, n, err := decodeFrame(b); err == nil {
			if again := appendFrame(nil, seq, recs); string(again) != string(b[:n]) {
				t.Errorf("frame of %d bytes decodes to something else", n)
			}
		}
		_, _, _ = decodeSnapshot(b, 1)
		_, _ = decodePayload(b)
	})
}
