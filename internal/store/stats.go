// SPDX-License-Identifier: Apache-2.0

package store

// What the store tells of itself: how long commits take, and what is on disk.

import (
	"time"

	"github.com/polycube/polycube/internal/tally"
)

// Stats are what the store has done since it was opened, and what it holds.
type Stats struct {
	// Commits are the seconds that transactions took to be durable, with the wait for others; Failures were refused.
	Commits  tally.Snapshot
	Failures uint64
	// Generation is the one in use, JournalBytes and JournalRecords what its journal holds.
	Generation     uint64
	JournalBytes   int64
	JournalRecords int
	// StateBytes are those of all keys and values.
	StateBytes int64
	// Snapshots were made, the last one at SnapshotAt (zero: none since the start); SnapshotFailures were not.
	Snapshots, SnapshotFailures uint64
	SnapshotAt                  time.Time
	// Broken is set while the disk state is unknown after a write error.
	Broken bool
	// Missing says what was removed or replaced of the directory, "" while all is there; Refusal why the last change could
	// not be written, "" if it could.
	Missing, Refusal string
	// Full is set when the disk has no room for another snapshot and some changes.
	Full bool
	// Repaired says in sentences what damage the start found and left out.
	Repaired []string
}

// Healthy reports whether changes can be written, as far as the store knows, and the next start finds them.
func (s Stats) Healthy() bool { return !s.Broken && s.Missing == "" && s.Refusal == "" }

// roomToSpare is the room for changes, in bytes, that a disk which is not full has beside that for a snapshot.
const roomToSpare = 1 << 20

// counted is what the store counts.
type counted struct {
	commits          *tally.Histogram
	failures         uint64
	refusal          string
	snapshots        uint64
	snapshotFailures uint64
	snapshotAt       time.Time
	repaired         []string
}

// Stats returns what the store has done and holds. It waits for a commit that is being written.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &s.counted
	missing, full := "", false
	if !s.closed {
		missing = s.missing()
		free, known := s.dir.free()
		full = known && free < s.bytes+roomToSpare
	}
	return Stats{Missing: missing, Refusal: h.refusal, Full: full, Commits: h.commits.Snapshot(), Failures: h.failures, Generation: s.gen, JournalBytes: s.size,
		JournalRecords: s.records, StateBytes: s.bytes, Snapshots: h.snapshots, SnapshotFailures: h.snapshotFailures,
		SnapshotAt: h.snapshotAt, Broken: s.broken, Repaired: h.repaired}
}
