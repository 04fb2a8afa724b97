// SPDX-License-Identifier: Apache-2.0

// A rotation replaces the journal by a snapshot. Its steps are ordered so that a crash between any two leaves a
// directory from which the same state is read: the new generation counts from the snapshot's rename on, and until the
// directory is synced after it, the old generation has the same state.

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// maybeRotate starts a new generation when the journal has grown enough: a snapshot has the whole state, so it is due after
// as many changes as there are records. Commits are already durable, so a failure (a full disk) is only logged, and
// retried later.
func (s *Store) maybeRotate() {
	large := s.size > s.tryAt && s.size > 2*s.bytes
	if s.records < max(s.nextTry, len(s.state)) && !large {
		return
	}
	if err := s.rotate(); err != nil {
		s.counted.snapshotFailures++
		s.nextTry, s.tryAt = s.records+s.opts.SnapshotEvery, s.size+journalSoftLimit
		s.log.Warn("snapshot failed, the journal continues", "records", s.records, "reason", err)
	}
}

// rotate writes a new generation and makes it current. On an error the old one stays current, except that nothing may
// be appended to it if it is unknown whether the rename is durable.
func (s *Store) rotate() error {
	gen := s.next
	s.next++
	journal, snapshot := journalName(gen), snapshotName(gen)
	f, err := s.dir.create(journal, encodeJournalHeader(gen, s.seq))
	if err != nil {
		return fmt.Errorf("generation %d: %w", gen, err)
	}
	// A crash may have left a file with this name.
	err = s.dir.remove(snapshot + tmpSuffix)
	if err == nil {
		var tmp *os.File
		if tmp, err = s.dir.create(snapshot+tmpSuffix, encodeSnapshot(gen, s.seq, s.sorted())); err == nil {
			err = tmp.Close()
		}
	}
	if err == nil {
		err = s.dir.syncDir()
	}
	if err == nil {
		err = s.dir.rename(snapshot+tmpSuffix, snapshot)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("generation %d: %w", gen, errors.Join(err, s.dir.remove(snapshot+tmpSuffix), s.dir.remove(journal)))
	}
	if err := s.dir.syncDir(); err != nil {
		f.Close()
		s.broken = true
		return fmt.Errorf("generation %d: %w", gen, err)
	}
	if s.journal != nil {
		s.journal.Close()
	}
	s.journal, s.gen, s.size, s.records = f, gen, journalHeaderLen, 0
	s.broken = false
	s.counted.snapshots, s.counted.snapshotAt = s.counted.snapshots+1, time.Now()
	s.nextTry, s.tryAt = s.opts.SnapshotEvery, journalSoftLimit
	if err := s.prune(); err != nil {
		s.log.Warn("old generations were not removed from disk", "reason", err)
	}
	return nil
}

// cut removes what follows the last complete transaction of the journal.
func (s *Store) cut() error {
	err := s.dir.check("truncate", journalName(s.gen))
	if err == nil {
		err = s.journal.Truncate(s.size)
	}
	if err != nil {
		return errors.Join(err, s.abandon())
	}
	return nil
}

// abandon leaves a journal whose end is unknown, after a failed fsync or truncate: what the kernel then reports about
// the same pages is unreliable, so the state is written to files of a new generation.
func (s *Store) abandon() error {
	if err := s.rotate(); err != nil {
		s.broken = true
		return errors.Join(err, ErrBroken)
	}
	return nil
}

// prune removes what is older than the generations to keep. Those found damaged do not count as kept.
func (s *Store) prune() error {
	gens, err := s.dir.generations()
	if err != nil {
		return err
	}
	k := retention{s: s, oldest: s.seq}
	for i := len(gens) - 1; i >= 0; i-- {
		g := gens[i]
		if k.keeps(g) {
			continue
		}
		delete(s.suspect, g.gen)
		// The snapshot goes first: a journal alone never counts as a complete generation.
		if err := errors.Join(s.dir.remove(snapshotName(g.gen)), s.dir.remove(journalName(g.gen))); err != nil {
			return err
		}
	}
	names, err := s.dir.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasSuffix(name, tmpSuffix) {
			if err := s.dir.remove(name); err != nil {
				return err
			}
		}
	}
	return nil
}
