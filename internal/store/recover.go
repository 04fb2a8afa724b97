// SPDX-License-Identifier: Apache-2.0

// Recovery reads; it never writes. It takes the newest intact snapshot and replays the journals after it, as long as
// each transaction has the number that follows the state. After any damage the caller starts a new generation, so the
// damaged files stay as evidence until they are pruned.

package store

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	snapshotPrefix = "snapshot-"
	journalPrefix  = "journal-"
	tmpSuffix      = ".tmp"
)

func snapshotName(gen uint64) string { return fmt.Sprintf("%s%020d", snapshotPrefix, gen) }
func journalName(gen uint64) string  { return fmt.Sprintf("%s%020d", journalPrefix, gen) }

// parseName returns the generation of a file name.
func parseName(name string) (gen uint64, snapshot, ok bool) {
	digits, snapshot := strings.CutPrefix(name, snapshotPrefix)
	if !snapshot {
		if digits, ok = strings.CutPrefix(name, journalPrefix); !ok {
			return 0, false, false
		}
	}
	gen, err := strconv.ParseUint(digits, 10, 64)
	return gen, snapshot, err == nil && len(digits) == 20 && gen > 0
}

// generation says which files of a generation exist.
type generation struct {
	gen               uint64
	snapshot, journal bool
}

// generations lists the generations in the directory, oldest first.
func (d *dir) generations() ([]generation, error) {
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	byGen := map[uint64]generation{}
	for _, name := range names {
		if gen, snapshot, ok := parseName(name); ok {
			g := byGen[gen]
			g.gen = gen
			g.snapshot = g.snapshot || snapshot
			g.journal = g.journal || !snapshot
			byGen[gen] = g
		}
	}
	gens := make([]generation, 0, len(byGen))
	for _, g := range byGen {
		gens = append(gens, g)
	}
	slices.SortFunc(gens, func(a, b generation) int { return cmp.Compare(a.gen, b.gen) })
	return gens, nil
}

// recovered is the state with which Open continues.
type recovered struct {
	state   map[string][]byte
	seq     uint64
	newest  uint64 // the highest generation number in the directory
	suspect map[uint64]bool

	resumable bool  // the newest journal is intact and can be continued
	cuttable  bool  // it can be continued once it is truncated to size
	size      int64 // of its valid part
	records   int   // in its valid part
	// repaired describes the damage that was found.
	repaired []string
}

func recoverState(d *dir, log *slog.Logger) (*recovered, error) {
	gens, err := d.generations()
	if err != nil {
		return nil, err
	}
	r := &recovered{state: map[string][]byte{}, suspect: map[uint64]bool{}}
	if len(gens) == 0 {
		return r, nil
	}
	r.newest = gens[len(gens)-1].gen
	base, err := r.loadSnapshot(d, gens, log)
	if err != nil {
		return nil, err
	}
	return r, r.replay(d, gens[base:], log)
}

// loadSnapshot loads the newest intact snapshot and returns its position in gens, where the replay starts. Without
// any, the state before the first transaction is empty, if the journal of that time still exists.
func (r *recovered) loadSnapshot(d *dir, gens []generation, log *slog.Logger) (int, error) {
	for i := len(gens) - 1; i >= 0; i-- {
		g := gens[i]
		if !g.snapshot {
			continue
		}
		b, err := d.read(snapshotName(g.gen))
		if err == nil {
			var recs []Record
			if r.seq, recs, err = decodeSnapshot(b, g.gen); err == nil {
				r.apply(recs)
				return i, nil
			}
		}
		if !isDamage(err) {
			return 0, err
		}
		r.suspect[g.gen] = true
		log.Warn("snapshot damaged, the previous generation is used", "generation", g.gen, "reason", err)
		r.repaired = append(r.repaired, fmt.Sprintf("snapshot %d damaged, the previous generation is used", g.gen))
	}
	r.seq = 0
	used := len(r.suspect) > 0
	for i, g := range gens {
		j, err := readJournal(d, g)
		if err != nil {
			return 0, err
		}
		if j.size > 0 && j.base == 0 {
			return i, nil
		}
		used = used || j.length > journalHeaderLen
	}
	if used {
		return 0, ErrNoWholeState
	}
	// The very first generation has no snapshot yet, so nothing was ever committed.
	return len(gens), nil
}

// isDamage distinguishes missing or damaged data from a failed read, which must not be taken for an empty state.
func isDamage(err error) bool {
	return errors.Is(err, errDamaged) || errors.Is(err, unix.EIO)
}

// journal is the valid part of a journal.
type journal struct {
	base    uint64
	txs     []transaction
	size    int64 // of the valid part
	length  int64 // of the file
	damaged error // why it ends before the end of the file, if it does
}

type transaction struct {
	seq  uint64
	recs []Record
}

// readJournal returns an error only if the journal cannot be read; damage is in the result.
func readJournal(d *dir, g generation) (*journal, error) { return readJournalTo(d, g, math.MaxInt64) }

// readJournalTo reads only the first bytes: the rest is being written.
func readJournalTo(d *dir, g generation, limit int64) (*journal, error) {
	j := &journal{}
	if !g.journal {
		j.damaged = fmt.Errorf("missing: %w", errDamaged)
		return j, nil
	}
	b, err := d.read(journalName(g.gen))
	b = b[:min(int64(len(b)), limit)]
	j.length = int64(len(b))
	if err == nil {
		j.base, err = decodeJournalHeader(b, g.gen)
	}
	if err != nil {
		j.damaged = err
		if isDamage(err) {
			err = nil
		}
		return j, err
	}
	j.size = journalHeaderLen
	for next := j.base + 1; j.size < j.length; next++ {
		seq, recs, n, err := decodeFrame(b[j.size:])
		if err == nil && seq != next {
			err = fmt.Errorf("transaction %d instead of %d: %w", seq, next, errDamaged)
		}
		if err != nil {
			j.damaged = err
			return j, nil //nolint:nilerr // what is whole counts; the caller cuts the rest
		}
		j.size += int64(n)
		j.txs = append(j.txs, transaction{seq: seq, recs: recs})
	}
	return j, nil
}

// replay applies the journals of gens, whose first one belongs to the base state.
func (r *recovered) replay(d *dir, gens []generation, log *slog.Logger) error {
	js := make([]*journal, len(gens))
	for i, g := range gens {
		var err error
		if js[i], err = readJournal(d, g); err != nil {
			return err
		}
	}
	for i, j := range js {
		if j.damaged != nil && j.size == 0 && i > 0 && !gens[i].snapshot {
			// A journal whose header never reached the disk, from a rotation that did not write its snapshot.
			continue
		}
		if j.base > r.seq || (j.base < r.seq && len(j.txs) > 0) {
			log.Warn("journal does not match the state, it is ignored", "generation", gens[i].gen,
				"after", j.base, "state", r.seq)
			r.repaired = append(r.repaired, fmt.Sprintf("journal %d does not match the state, it is ignored", gens[i].gen))
			return nil
		}
		limit := bound(js[i+1:], gens[i+1:])
		kept := r.applyJournal(j, limit)
		if j.damaged != nil {
			what := fmt.Sprintf("journal damaged at byte %d, %d records kept", j.size, kept)
			log.Warn(what, "generation", gens[i].gen, "reason", j.damaged)
			r.repaired = append(r.repaired, fmt.Sprintf("generation %d: %s", gens[i].gen, what))
		}
		if i == len(js)-1 {
			r.size, r.records = j.size, kept
			sound := i == 0 && gens[i].snapshot && !r.suspect[gens[i].gen] && j.size > 0
			r.resumable = sound && j.damaged == nil
			r.cuttable = sound && j.damaged != nil
		}
		if j.damaged != nil && r.seq != limit {
			return nil
		}
	}
	return nil
}

// bound is the last valid transaction of a journal: where the next generation starts. A journal without a snapshot and
// without transactions does not count: its rotation was not completed.
func bound(js []*journal, gens []generation) uint64 {
	for i, j := range js {
		if j.size > 0 && (gens[i].snapshot || len(j.txs) > 0) {
			return j.base
		}
	}
	return ^uint64(0)
}

func (r *recovered) applyJournal(j *journal, limit uint64) (kept int) {
	for _, tx := range j.txs {
		if tx.seq > limit {
			break
		}
		r.apply(tx.recs)
		r.seq = tx.seq
		kept += len(tx.recs)
	}
	return kept
}

func (r *recovered) apply(recs []Record) {
	for _, rec := range recs {
		if rec.Value == nil {
			delete(r.state, rec.Key)
		} else {
			r.state[rec.Key] = rec.Value
		}
	}
}
