// SPDX-License-Identifier: Apache-2.0

// Package store keeps the configuration on disk: an append-only journal of transactions and periodic snapshots of the
// whole state. A power cut, a full disk or a flipped bit costs at most the transaction that was being written, and the
// cost of a change depends on the size of the change, not of the configuration.
//
// A directory contains generations. Generation g is snapshot-g, the state at its start, and journal-g, the
// transactions after that. The newest is in use; older ones are kept for recovery.
package store

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/tally"
)

const (
	defaultKeepGenerations = 3
	defaultSnapshotEvery   = 1000
	// A journal of this size, and twice the size of the state, is replaced by a snapshot whatever its record count.
	journalSoftLimit = 64 << 20
)

var (
	// ErrClosed is returned by Commit after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrBroken is returned by Commit when the disk state is unknown after a write error. The transaction is not in
	// the store, but would be found by an Open before the next Commit that succeeds; each Commit tries again with new
	// files.
	ErrBroken = errors.New("the disk state is unknown after a write error")
	// ErrNoWholeState is returned by Open when nothing in the directory is usable. The files are left unchanged.
	ErrNoWholeState = errors.New("no generation is intact: restore a backup, or move the directory away to start empty")
	// ErrMissing is returned by Commit when the path of the store no longer leads to the open directory, and the store
	// cannot move there. Nothing is changed; each Commit tries again.
	ErrMissing = errors.New("data written there would be lost")
	// ErrInvalid is returned by Commit for records that cannot be stored. Nothing is changed.
	ErrInvalid = errors.New("invalid record")
)

// Options of Open. Only Dir is required.
type Options struct {
	// Dir is created with mode 0700 if missing. No part of it may be a symbolic link.
	Dir string
	// KeepGenerations is how many complete generations stay on disk, at least 2; 0 means 3.
	KeepGenerations int
	// KeepTransactions is how many transactions the history should have, as long as all files together take no more
	// than KeepBytes; older generations are removed. 0 keeps what KeepGenerations keeps.
	KeepTransactions uint64
	KeepBytes        int64
	// SnapshotEvery is how many records a journal has before a snapshot replaces it, at least as many as the store has; 0 means
	// 1000.
	SnapshotEvery int
	// Logger logs repairs; nil means slog.Default.
	Logger *slog.Logger
}

// Record is the last value of a key. A nil Value means that the key is deleted; an empty one is a value.
type Record struct {
	Key   string
	Value []byte
}

// State is the content of a store when it was opened: one record for every key, sorted by key, none deleted.
type State struct {
	Records []Record
	// Sequence is the number of the last transaction since the store was created.
	Sequence uint64
}

// Store is an open store. Its methods may be called concurrently.
type Store struct {
	opts Options
	log  *slog.Logger
	dir  *dir
	lock *os.File

	counted counted // under mu, except the histogram

	queueMu sync.Mutex
	queue   []*request

	mu      sync.Mutex // held while the disk is written; guards the fields below
	state   map[string][]byte
	bytes   int64 // of keys and values in state
	seq     uint64
	gen     uint64
	next    uint64 // generation number never tried so far
	journal *os.File
	size    int64 // of the journal
	records int   // in the journal
	nextTry int   // records at which the next snapshot is tried
	tryAt   int64 // journal bytes at which it is tried before that
	suspect map[uint64]bool
	pinned  uint64 // a transaction whose state stays, 0 for none
	broken  bool   // the end of the journal or the newest rename may or may not be on disk
	closed  bool
}

// request is one Commit waiting for the goroutine that holds the store to write it with its own.
type request struct {
	recs []Record
	done bool
	err  error
}

// Open locks the directory, recovers the newest intact state and makes the store ready for Commit. Damage is logged,
// not returned, unless nothing intact is left (ErrNoWholeState). For a directory in use it returns a *LockedError.
func Open(o Options) (*Store, *State, error) { return open(o, nil) }

func open(o Options, fault func(op, name string) error) (*Store, *State, error) {
	if o.Dir == "" {
		return nil, nil, errors.New("store: no directory given")
	}
	if o.KeepGenerations < 0 || o.SnapshotEvery < 0 {
		return nil, nil, errors.New("store: negative KeepGenerations or SnapshotEvery")
	}
	if o.KeepGenerations == 0 {
		o.KeepGenerations = defaultKeepGenerations
	}
	o.KeepGenerations = max(o.KeepGenerations, 2)
	if o.SnapshotEvery == 0 {
		o.SnapshotEvery = defaultSnapshotEvery
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	d, err := openDir(o.Dir)
	if err != nil {
		return nil, nil, err
	}
	d.fault = fault
	s := &Store{opts: o, log: o.Logger.With("store", d.path), dir: d, counted: counted{commits: tally.NewHistogram()}}
	if s.lock, err = d.lock(); err != nil {
		d.f.Close()
		return nil, nil, err
	}
	if err := s.start(); err != nil {
		return nil, nil, fmt.Errorf("store %s: %w", d.path, errors.Join(err, s.closeFiles()))
	}
	return s, &State{Records: s.sorted(), Sequence: s.seq}, nil
}

// start recovers and leaves the store with a journal to append to.
func (s *Store) start() error {
	r, err := recoverState(s.dir, s.log)
	if err != nil {
		return err
	}
	s.state, s.seq, s.gen, s.next, s.suspect = r.state, r.seq, r.newest, r.newest+1, r.suspect
	s.counted.repaired = r.repaired
	for k, v := range s.state {
		s.bytes += int64(len(k) + len(v))
	}
	if r.resumable {
		return s.resume(r)
	}
	err = s.rotate()
	if err != nil && r.cuttable {
		// No space for a new generation: truncating the damaged tail needs none.
		s.log.Warn("the damaged tail is truncated in place", "reason", err)
		if err = s.resume(r); err != nil {
			return err
		}
		return s.cut()
	}
	return err
}

// resume continues the newest journal after its last complete transaction.
func (s *Store) resume(r *recovered) error {
	f, err := s.dir.open(journalName(r.newest), os.O_RDWR)
	if err != nil {
		return err
	}
	s.journal, s.size, s.records = f, r.size, r.records
	s.nextTry, s.tryAt = s.opts.SnapshotEvery, journalSoftLimit
	return nil
}

// Commit makes recs durable as one transaction: when it returns nil they survive a crash, and when it returns an error
// none of them is in the store (see ErrBroken for the exception). Of several records with one key, the last counts.
// Concurrent commits share one fsync. The caller may reuse the values' memory.
func (s *Store) Commit(recs []Record) error {
	if err := validate(recs); err != nil {
		return err
	}
	if len(recs) == 0 {
		return nil
	}
	defer s.counted.commits.Since(time.Now())
	req := &request{recs: recs}
	s.queueMu.Lock()
	s.queue = append(s.queue, req)
	s.queueMu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if req.done {
		return s.answer(req)
	}
	s.queueMu.Lock()
	batch := s.queue
	s.queue = nil
	s.queueMu.Unlock()
	s.commitBatch(batch)
	return s.answer(req)
}

// answer is the result of a request. s.mu is held.
func (s *Store) answer(req *request) error {
	if req.err != nil {
		s.counted.failures++
	}
	return req.err
}

func validate(recs []Record) error {
	for i, r := range recs {
		if r.Key == "" {
			return fmt.Errorf("store: record %d: empty key: %w", i, ErrInvalid)
		}
	}
	if n := payloadLen(recs); n > MaxTransaction {
		return fmt.Errorf("store: transaction of %d bytes, the limit is %d: %w", n, MaxTransaction, ErrInvalid)
	}
	return nil
}

// commitBatch writes the requests with one fsync and, if that fails, each separately: a small change must not fail
// because a large concurrent one does not fit on the disk.
func (s *Store) commitBatch(batch []*request) {
	err := s.write(batch)
	if err != nil && len(batch) > 1 {
		for _, req := range batch {
			req.done, req.err = true, s.write([]*request{req})
		}
		return
	}
	for _, req := range batch {
		req.done, req.err = true, err
	}
}

// write appends the requests to the journal, and to the state once they are durable.
func (s *Store) write(batch []*request) error {
	if s.closed {
		return fmt.Errorf("store %s: %w", s.dir.path, ErrClosed)
	}
	err := s.append(batch)
	if err != nil {
		s.counted.refusal = err.Error()
		return err
	}
	s.counted.refusal = ""
	s.seq += uint64(len(batch))
	for _, req := range batch {
		s.records += len(req.recs)
		s.apply(req.recs)
	}
	s.maybeRotate()
	return nil
}

// append makes the requests durable, or leaves the journal unchanged.
func (s *Store) append(batch []*request) error {
	if s.missing() != "" {
		if err := s.move(); err != nil {
			return err
		}
	}
	if s.broken {
		if err := s.rotate(); err != nil {
			return fmt.Errorf("store %s: %w", s.dir.path, errors.Join(err, ErrBroken))
		}
	}
	n := 0
	for _, req := range batch {
		n += frameLen(req.recs)
	}
	b := make([]byte, 0, n)
	for i, req := range batch {
		b = appendFrame(b, s.seq+uint64(i)+1, req.recs)
	}
	name := journalName(s.gen)
	err := s.dir.check("write", name)
	if err == nil {
		_, err = s.journal.WriteAt(b, s.size)
	}
	if err != nil {
		return fmt.Errorf("store %s: journal: %w", s.dir.path, errors.Join(err, s.cut()))
	}
	if err := s.dir.sync(s.journal, name); err != nil {
		return fmt.Errorf("store %s: journal: %w", s.dir.path, errors.Join(err, s.abandon()))
	}
	if what := s.missing(); what != "" {
		return fmt.Errorf("%s: %w", what, errors.Join(ErrMissing, s.cut()))
	}
	s.size += int64(len(b))
	return nil
}

func (s *Store) apply(recs []Record) {
	for _, r := range recs {
		if old, ok := s.state[r.Key]; ok {
			s.bytes -= int64(len(r.Key) + len(old))
			delete(s.state, r.Key)
		}
		if r.Value != nil {
			s.state[r.Key] = append([]byte{}, r.Value...)
			s.bytes += int64(len(r.Key) + len(r.Value))
		}
	}
}

// Records are the current content of the store: one for every key, sorted by key.
func (s *Store) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sorted()
}

// sorted is the state as records that share their values with it; values are never modified.
func (s *Store) sorted() []Record {
	recs := make([]Record, 0, len(s.state))
	for _, k := range slices.Sorted(maps.Keys(s.state)) {
		recs = append(recs, Record{Key: k, Value: s.state[k]})
	}
	return recs
}

// Close releases the directory. All commits are already on disk.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	return s.closeFiles()
}

// closeFiles closes in reverse of Open; the lock is released after the journal, so that no other process writes while
// it is open.
func (s *Store) closeFiles() error {
	var errs []error
	if s.journal != nil {
		errs = append(errs, s.journal.Close())
	}
	if s.lock != nil {
		errs = append(errs, unlock(s.lock))
	}
	return errors.Join(append(errs, s.dir.f.Close())...)
}
