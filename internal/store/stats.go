// SPDX-License-Identifier: Apache-2.0

package store

// Statistics of the store: the duration of commits, and what is on disk.

import (
	"time"

	"github.com/polycube/polycube/internal/tally"
)

// Stats are the counters of the store since it was opened, and its content.
type Stats struct {
	// Commits are the seconds until transactions were durable, including the wait for others; Failures were refused.
	Commits  tally.Snapshot
	Failures uint64
	// Generation is the current one, JournalBytes and JournalRecords the content of its journal.
	Generation     uint64
	JournalBytes   int64
	JournalRecords int
	// StateBytes is the size of all keys and values.
	StateBytes int64
	// Snapshots were written, the last one at SnapshotAt (zero: none since the start); SnapshotFailures failed.
	Snapshots, SnapshotFailures uint64
	SnapshotAt                  time.Time
	// Broken is set while the disk state is unknown after a write error.
	Broken bool
	// Missing says what was removed or replaced of the directory, "" if nothing; Refusal why the last change could not
	// be written, "" if it could.
	Missing, Refusal string
	// Full is set when the disk has no space for another snapshot and some changes.
	Full bool
	// Repaired describes the damage that the start found and skipped.
	Repaired []string
}

// Healthy reports whether changes can be written, as far as the store knows, and the next start will find them.
func (s Stats) Healthy() bool { return !s.Broken && s.Missing == "" && s.Refusal == "" }

// minFreeBytes is the minimum free space for changes, in bytes, in addition to that for a snapshot.
const minFreeBytes = 1 << 20

// counted are the counters of the store.
type counted struct {
	commits          *tally.Histogram
	failures         uint64
	refusal          string
	snapshots        uint64
	snapshotFailures uint64
	snapshotAt       time.Time
	repaired         []string
}

// Stats returns the counters and content of the store. It waits for a commit that is being written.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.counted
	missing, full := "", false
	if !s.closed {
		missing = s.missing()
		free, known := s.dir.free()
		full = known && free < s.bytes+minFreeBytes
	}
	return Stats{Missing: missing, Refusal: h.refusal, Full: full, Commits: h.commits.Snapshot(), Failures: h.failures, Generation: s.gen, JournalBytes: s.size,
		JournalRecords: s.records, StateBytes: s.bytes, Snapshots: h.snapshots, SnapshotFailures: h.snapshotFailures,
		SnapshotAt: h.snapshotAt, Broken: s.broken, Repaired: h.repaired}
}
