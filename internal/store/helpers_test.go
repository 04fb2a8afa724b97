// SPDX-License-Identifier: Apache-2.0

// What the tests share: states as maps, copies of directories, a logger that remembers.

package store

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// logBuffer collects log lines.
type logBuffer struct{ bytes.Buffer }

func (b *logBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func mustOpen(t testing.TB, o Options) (*Store, map[string]string) {
	t.Helper()
	if o.Logger == nil {
		o.Logger = quiet()
	}
	s, st, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	return s, asMap(st)
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func mustCommit(t testing.TB, s *Store, recs ...Record) {
	t.Helper()
	if err := s.Commit(recs); err != nil {
		t.Fatal(err)
	}
}

// reopen opens dir, returns what it holds, and closes it.
func reopen(t testing.TB, dir string, log *slog.Logger) (map[string]string, error) {
	t.Helper()
	if log == nil {
		log = quiet()
	}
	s, st, err := Open(Options{Dir: dir, Logger: log})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return asMap(st), nil
}

func asMap(st *State) map[string]string {
	m := map[string]string{}
	for _, r := range st.Records {
		m[r.Key] = string(r.Value)
	}
	return m
}

func put(k, v string) Record { return Record{Key: k, Value: []byte(v)} }
func del(k string) Record    { return Record{Key: k} }

// history is a workload with its states: states[i] is what holds after i transactions.
func history(n int) (txs [][]Record, states []map[string]string) {
	state := map[string]string{}
	states = append(states, maps.Clone(state))
	for i := range n {
		tx := []Record{put(fmt.Sprintf("k%d", i%4), fmt.Sprintf("v%d", i))}
		if i%3 == 2 {
			tx = append(tx, del(fmt.Sprintf("k%d", (i+1)%4)), put("both", strings.Repeat("x", i)))
		}
		for _, r := range tx {
			if r.Value == nil {
				delete(state, r.Key)
			} else {
				state[r.Key] = string(r.Value)
			}
		}
		txs, states = append(txs, tx), append(states, maps.Clone(state))
	}
	return txs, states
}

func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "s")
	if err := os.Mkdir(to, 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(to, e.Name()), b)
	}
	return to
}

func writeFile(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func newDir(t testing.TB) string { return filepath.Join(t.TempDir(), "state") }
