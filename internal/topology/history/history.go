// SPDX-License-Identifier: Apache-2.0

// Package history reads earlier revisions of the configuration from the store, and creates the record of a new one.
package history

// The history of the configuration. Each transaction is a revision; the store keeps what it wrote and a record of who
// requested it. Its effect is found by comparing the stored configuration before and after it, so nothing else has to
// be stored.

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/document"
)

// ChangeKey is the record of who requested the last transaction; the journal has this record for each transaction.
const ChangeKey = "change"

// Store is the part of a store that keeps earlier transactions; *store.Store.
type Store interface {
	At(seq uint64) (*store.State, error)
	Transactions(before uint64, n int, want func(key string) bool) ([]store.Transaction, error)
	Oldest() (uint64, error)
	Stats() store.Stats
}

// Past answers requests about earlier revisions. Its methods may be called from any goroutine.
type Past struct {
	// store is nil in a daemon without a store.
	store    Store
	models   document.Models
	revision func() uint64
}

// New returns the history in a store, an empty one if the store is nil. revision returns the current revision.
func New(store Store, models document.Models, revision func() uint64) *Past {
	return &Past{store: store, models: models, revision: revision}
}

// Revision is one earlier transaction.
type Revision struct {
	Number uint64    `json:"revision"`
	Time   time.Time `json:"time"`
	// By are the requesters whose requests were combined in it; none means the daemon itself.
	By []Requester `json:"by,omitempty"`
	// Note says what kind of change it was, if the request does not make that clear.
	Note string `json:"note,omitempty"`
	// Added, Changed and Deleted are cubes, Netdevs those whose transparent cubes changed; only the first ones if
	// there are many.
	Added   []string `json:"added,omitempty"`
	Changed []string `json:"changed,omitempty"`
	Deleted []string `json:"deleted,omitempty"`
	Netdevs []string `json:"netdevs,omitempty"`
	// More is the number of names left out.
	More int `json:"more,omitempty"`
}

// Requester says who requested a change, from where and with which request.
type Requester struct {
	Who  string `json:"who"`
	From string `json:"from,omitempty"`
	What string `json:"what,omitempty"`
}

// History is a part of the history, newest first.
type History struct {
	// Revision is the current one, Oldest the oldest one that can be restored.
	Revision uint64 `json:"revision"`
	Oldest   uint64 `json:"oldest"`
	// Notes say what was damaged when the daemon started.
	Notes     []string   `json:"notes,omitempty"`
	Revisions []Revision `json:"revisions"`
}

// Detail is a revision with its effect.
type Detail struct {
	Revision
	Difference document.Difference `json:"difference"`
}

// MaxNames limits how many names are stored for one change.
const MaxNames = 64

// NewRevision starts the record that the history keeps of a change.
func NewRevision(number uint64, note string, origins ...Origin) Revision {
	r := Revision{Number: number, Time: time.Now().UTC().Truncate(time.Millisecond), Note: note}
	for _, o := range origins {
		if by := Requester(o); by != (Requester{}) && !slices.Contains(r.By, by) && len(r.By) < MaxNames {
			r.By = append(r.By, by)
		}
	}
	return r
}

// Record is the revision as it is stored.
func (r Revision) Record() store.Record {
	blob, _ := json.Marshal(r) // strings and numbers always marshal
	return store.Record{Key: ChangeKey, Value: blob}
}

// RecordOf is the record of a change that concerns no cube.
func RecordOf(number uint64, note string, by Origin) store.Record {
	return NewRevision(number, note, by).Record()
}

// errNoPast is the answer of a daemon without a store.
var errNoPast = fmt.Errorf("this daemon keeps its configuration only in memory, without a history: %w", cube.ErrUnsupported)

// History lists up to n revisions, newest first, starting with one; 0 is the newest.
func (p *Past) History(from uint64, n int) (*History, error) {
	if p.store == nil {
		return nil, errNoPast
	}
	txs, err := p.store.Transactions(from, n, func(key string) bool { return key == ChangeKey })
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	h := &History{Revision: p.revision(), Notes: p.store.Stats().Repaired, Revisions: []Revision{}}
	if h.Oldest, err = p.store.Oldest(); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	for _, tx := range txs {
		h.Revisions = append(h.Revisions, revisionOf(tx))
	}
	return h, nil
}

// revisionOf reads the record of a transaction; if a daemon without history made it, only its number is known.
func revisionOf(tx store.Transaction) Revision {
	var r Revision
	for _, rec := range tx.Records {
		if rec.Key == ChangeKey {
			_ = json.Unmarshal(rec.Value, &r) // what cannot be read stays empty
		}
	}
	r.Number = tx.Sequence
	return r
}

// RevisionAt returns a revision with its effect.
func (p *Past) RevisionAt(revision uint64) (*Detail, error) {
	if p.store == nil {
		return nil, errNoPast
	}
	txs, err := p.store.Transactions(revision, 1, func(key string) bool { return key == ChangeKey })
	if err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	if len(txs) == 0 || txs[0].Sequence != revision {
		return nil, p.gone(revision, nil)
	}
	out := &Detail{Revision: revisionOf(txs[0])}
	after, err := p.store.At(revision)
	if err != nil {
		return nil, p.gone(revision, err)
	}
	before, err := p.store.At(revision - 1)
	if err != nil {
		return nil, p.gone(revision-1, err)
	}
	out.Difference, err = document.CompareStates(p.models, before, after)
	return out, err
}

// gone is the error for a revision that is not stored.
func (p *Past) gone(revision uint64, err error) error {
	if err != nil && !errors.Is(err, store.ErrGone) {
		return fmt.Errorf("read the history: %w", err)
	}
	if now := p.revision(); revision > now {
		return fmt.Errorf("revision %d: the configuration is at revision %d: %w", revision, now, cube.ErrNotFound)
	}
	oldest, err := p.store.Oldest()
	if err == nil && revision >= oldest {
		return fmt.Errorf("revision %d was lost to damage on the disk: %w", revision, cube.ErrNotFound)
	}
	return fmt.Errorf("revision %d is no longer kept, the oldest is %d: %w", revision, oldest, cube.ErrNotFound)
}

// ConfigurationAt returns the configuration of a revision.
func (p *Past) ConfigurationAt(revision uint64) (*document.Configuration, error) {
	if p.store == nil {
		return nil, errNoPast
	}
	state, err := p.store.At(revision)
	if err != nil {
		return nil, p.gone(revision, err)
	}
	was := document.ReadPast(state)
	return &document.Configuration{At: revision, Names: was.Names, Chains: was.Chains,
		ImageOf: func(name string) (*document.Image, error) { return was.Image(p.models, name) }}, nil
}

// Origin says where a change comes from. The zero Origin is the daemon itself.
type Origin struct {
	// Who is the user, the subject of the certificate or the role of the token.
	Who string
	// From is where the request came from: an address, or a process at the socket.
	From string
	// What is the request: method and path.
	What string
}
