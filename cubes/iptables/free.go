// SPDX-License-Identifier: Apache-2.0

package iptables

// What rules have in memory, besides the search: rows, and what their conditions count.

import (
	"errors"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// free frees what removed rules had, once no packet sees them; and after a restart what rules had that are gone.
func (n *change) free() (undo func() error, err error) {
	f := n.f
	var errs []error
	indexes := make([]uint32, 0, len(n.gone))
	for _, r := range n.gone {
		indexes = append(indexes, r.counter)
		if r.forms.row != nil {
			errs = append(errs, f.unrow(r))
		}
	}
	if len(indexes) > 0 {
		errs = append(errs, f.chains[key{0, builtIn[0]}].counters.Free(indexes))
	}
	for _, c := range n.empty {
		delete(f.leaving, c)
		_, err := f.names.Delete(c.number)
		errs = append(errs, err, c.counters.Close())
	}
	if n.created {
		errs = append(errs, f.forget())
	}
	return nil, errors.Join(errs...)
}

// keep is the step that makes memory for what a condition counts, unless an earlier daemon has.
func (f *iptables) keep(k counted) cube.Step {
	return cube.Effect(func() (undo func() error, err error) {
		if _, there, err := f.counted.Get(k); there || err != nil {
			return nil, err
		}
		return table.Put(f.counted, k, 0).Do()
	})
}

// unrow frees the row of a rule, and what its conditions have counted.
func (f *iptables) unrow(r *rule) error {
	_, err := f.rows.Delete(r.counter)
	for _, number := range r.sets {
		f.references.Unrefer(number)
	}
	for i, t := range r.forms.row.Test[:r.forms.row.Tests] {
		if t.Kind.counts() {
			_, bad := f.counted.Delete(counted{r.counter, uint32(i)})
			err = errors.Join(err, bad)
		}
	}
	return err
}

// forget frees what the rules of an earlier daemon had that are gone.
func (f *iptables) forget() error {
	used := map[uint32]bool{}
	numbers := map[uint32]bool{}
	var errs []error
	for _, c := range f.chains {
		numbers[c.number] = true
		for _, r := range c.rules {
			used[r.counter] = r.forms.row != nil
		}
		errs = append(errs, c.counters.Abandon())
	}
	var err error
	var rows, names []uint32
	var kept []counted
	for k := range f.counted.All(&err) {
		if !used[k.Counter] {
			kept = append(kept, k)
		}
	}
	errs = append(errs, err)
	for counter := range f.rows.All(&err) {
		if !used[counter] {
			rows = append(rows, counter)
		}
	}
	errs = append(errs, err)
	for number := range f.names.All(&err) {
		if !numbers[number] {
			names = append(names, number)
		}
	}
	_, lost := f.counted.DeleteAll(kept)
	_, bad := f.rows.DeleteAll(rows)
	_, wrong := f.names.DeleteAll(names)
	for _, number := range names {
		c := counter.NewRules(f.env, number)
		if err := c.Open(); err == nil {
			errs = append(errs, c.Abandon(), c.Close())
		}
	}
	return errors.Join(append(errs, err, lost, bad, wrong)...)
}
