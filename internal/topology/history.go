// SPDX-License-Identifier: Apache-2.0

package topology

// The history of the configuration. Each transaction is a revision; the store keeps what it wrote and a record of who
// requested it. Its effect is found by comparing the stored configuration before and after it, so nothing else has to
// be stored, and a rollback to a revision applies it like a document (package history reads revisions).

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/history"
)

// changeRecord is the history's record of the transaction.
func (x *execution) changeRecord() store.Record {
	r := history.NewRevision(x.next.Revision, x.note, x.origins...)
	note := func(list *[]string, name string) {
		if len(*list) == history.MaxNames {
			r.More++
			return
		}
		*list = append(*list, name)
	}
	for _, name := range x.touched {
		switch rec := x.next.Cubes[name]; {
		case rec == nil || rec.Revision != x.next.Revision:
		case x.before(name) == nil:
			note(&r.Added, name)
		default:
			note(&r.Changed, name)
		}
	}
	for _, u := range x.removed {
		note(&r.Deleted, u.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(x.old.Broken)) {
		if x.next.Broken[name] == nil && x.next.Cubes[name] == nil {
			note(&r.Deleted, name)
		}
	}
	for _, name := range x.next.ChainsChanged(&x.old.World) {
		note(&r.Netdevs, name)
	}
	return r.Record()
}

// Rollback restores the configuration of a revision, as a new revision. It is refused if that is no longer possible,
// because a netdev or a service does not exist any more. It ends a trial.
func (m *Manager) Rollback(ctx context.Context, revision uint64, o ApplyOptions) (*Applied, error) {
	running := m.trials.Running()
	applied, err := m.rollback(endsTrial(ctx, running), revision, o)
	if err == nil && running != nil && !applied.Changed && !o.DryRun {
		err = m.forgetTrial(ctx, running, "the end of a trial")
	}
	return applied, err
}

// rollback is Rollback, by a context that says whether it ends a trial.
func (m *Manager) rollback(ctx context.Context, revision uint64, o ApplyOptions) (*Applied, error) {
	c, err := m.ConfigurationAt(revision)
	if err != nil {
		return nil, err
	}
	doc := &document.Document{ByName: map[string]*document.Cube{}}
	for _, name := range c.Names {
		i, err := c.ImageOf(name)
		if err != nil {
			return nil, err
		}
		if i != nil {
			doc.Add(&document.Cube{Where: name, Name: name, Service: i.Service, Body: i.Members()})
		}
	}
	for _, dev := range slices.Sorted(maps.Keys(c.Chains)) {
		doc.Netdevs = append(doc.Netdevs, &document.Netdev{Where: dev, Name: dev, Tcubes: c.Chains[dev]})
	}
	o.Whole = true
	applied, err := m.apply(ctx, doc, o, fmt.Sprintf("rollback to revision %d", revision))
	if err != nil {
		return nil, fmt.Errorf("rollback to revision %d: %w", revision, err)
	}
	return applied, nil
}
