// SPDX-License-Identifier: Apache-2.0

// Package store keeps the state of the N4 interface in a file, so that sessions outlive the program. A transaction is on
// the disk when Write returns.
package store

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/bbolt"
)

// Bucket is a kind of records.
type Bucket string

// The buckets.
const (
	Self     Bucket = "self"     // of this end: the recovery time stamp
	Peers    Bucket = "peers"    // associations, by node ID
	Sessions Bucket = "sessions" // by their number, which only grows, so that new ones are next to each other
	Answers  Bucket = "answers"  // responses with usage reports, which are repeated after a restart
)

// Write is a record to be written, or to be deleted if Value is nil.
type Write struct {
	Bucket     Bucket
	Key, Value []byte
}

// Store is an open file.
type Store struct{ db *bbolt.DB }

// Open opens a file, which is created if it is not there. Another process must not have it open.
func Open(path string) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// A file that grows in large steps is synchronised with less work of the file system.
	db.AllocSize = 64 << 20
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range []Bucket{Self, Peers, Sessions, Answers} {
			if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
				return fmt.Errorf("create bucket %s: %w", name, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("prepare %s: %w", path, errorsWith(err, db.Close()))
	}
	return &Store{db}, nil
}

// errorsWith keeps the first error, the cause of the second.
func errorsWith(err, closing error) error {
	if closing != nil {
		return fmt.Errorf("%w (and %w)", err, closing)
	}
	return err
}

// Write writes all records, or none.
func (s *Store) Write(list []Write) error {
	slices.SortStableFunc(list, func(a, b Write) int {
		if a.Bucket != b.Bucket {
			return bytes.Compare([]byte(a.Bucket), []byte(b.Bucket))
		}
		return bytes.Compare(a.Key, b.Key)
	})
	err := s.db.Update(func(tx *bbolt.Tx) error {
		for _, w := range list {
			in := tx.Bucket([]byte(w.Bucket))
			in.FillPercent = 0.9 // new sessions come last, so pages stay as they were filled
			var err error
			if w.Value == nil {
				err = in.Delete(w.Key)
			} else {
				err = in.Put(w.Key, w.Value)
			}
			if err != nil {
				return fmt.Errorf("bucket %s: %w", w.Bucket, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("write %d records: %w", len(list), err)
	}
	return nil
}

// Each yields the records of a bucket by their keys, until an error. Key and value are valid during the call.
func (s *Store) Each(of Bucket, yield func(key, value []byte) error) error {
	err := s.db.View(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(of)).ForEach(yield) })
	if err != nil {
		return fmt.Errorf("read %s: %w", of, err)
	}
	return nil
}

// Close closes the file.
func (s *Store) Close() error { return s.db.Close() }
