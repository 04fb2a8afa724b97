// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// opened is a store with two transactions, in a directory of its own.
func opened(t *testing.T) (*Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	s, _, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, r := range []Record{put("a", "1"), put("b", "2")} {
		if err := s.Commit([]Record{r}); err != nil {
			t.Fatal(err)
		}
	}
	return s, dir
}

// wantKept closes a store and reads what the next daemon would find at its path.
func wantKept(t *testing.T, s *Store, dir string, want map[string]string) {
	t.Helper()
	if st := s.Stats(); st.Missing != "" || st.Refusal != "" {
		t.Errorf("missing %q, refusal %q", st.Missing, st.Refusal)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	next, st, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = next.Close() }()
	if got := asMap(st); !maps.Equal(got, want) {
		t.Errorf("kept is %v, want %v", got, want)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func TestTheNextChangeWritesEverythingWhereTheDirectoryWasRemoved(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(dir string)
		says string
	}{
		"removed": {func(dir string) { remove(t, dir) }, "was removed"},
		"replaced by an empty one": {func(dir string) {
			remove(t, dir)
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
		}, "was replaced"},
		"the journal removed": {func(dir string) {
			journals, err := filepath.Glob(filepath.Join(dir, "journal-*"))
			if err != nil || len(journals) == 0 {
				t.Fatal(journals, err)
			}
			for _, j := range journals {
				remove(t, j)
			}
		}, "removed or replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := opened(t)
			c.harm(dir)
			if st := s.Stats(); !strings.Contains(st.Missing, c.says) {
				t.Errorf("missing is %q, want %q", st.Missing, c.says)
			}
			if err := s.Commit([]Record{put("c", "3")}); err != nil {
				t.Fatal(err)
			}
			if _, _, err := Open(Options{Dir: dir}); !errors.Is(err, ErrLocked) {
				t.Errorf("another daemon opens the store: %v", err)
			}
			if err := s.Commit([]Record{put("d", "4"), del("a")}); err != nil {
				t.Fatal(err)
			}
			wantKept(t, s, dir, map[string]string{"b": "2", "c": "3", "d": "4"})
		})
	}
}

func TestAnotherStoreInItsPlaceIsNotTouched(t *testing.T) {
	s, dir := opened(t)
	away := dir + ".away"
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	other, _, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(other.Commit([]Record{put("other", "1")}), other.Close()); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]Record{put("c", "3")}); !errors.Is(err, ErrMissing) || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("a change: %v, want %v", err, ErrMissing)
	}
	if st := s.Stats(); st.Missing == "" || st.Refusal == "" || st.Failures != 1 {
		t.Errorf("%+v", st)
	}
	// Once the directory is back in place, changes are stored again.
	if err := errors.Join(os.Rename(dir, dir+".other"), os.Rename(away, dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]Record{put("d", "4")}); err != nil {
		t.Fatal(err)
	}
	wantKept(t, s, dir, map[string]string{"a": "1", "b": "2", "d": "4"})
	wantKept(t, &Store{closed: true}, dir+".other", map[string]string{"other": "1"})
}

// TestAChangeIsNotAnsweredWhenItsDirectoryGoesMeanwhile: it is removed after the journal was synced.
func TestAChangeIsNotAnsweredWhenItsDirectoryGoesMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	harm := false
	s, _, err := open(Options{Dir: dir}, func(op, name string) error {
		if harm && op == "sync" && strings.HasPrefix(name, "journal-") {
			harm = false
			return os.Rename(dir, dir+".away")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if err := s.Commit([]Record{put("a", "1")}); err != nil {
		t.Fatal(err)
	}
	harm = true
	if err := s.Commit([]Record{put("b", "2")}); !errors.Is(err, ErrMissing) {
		t.Errorf("a change: %v, want %v", err, ErrMissing)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit([]Record{put("c", "3")}); err != nil {
		t.Fatal(err)
	}
	wantKept(t, s, dir, map[string]string{"a": "1", "c": "3"})
}
