// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"reflect"

	"github.com/polycube/polycube/internal/datapath/graph"
)

// wantWhole compares the state after a change with the state derived from the whole graph. Every test that commits a
// graph calls it.
func (b *bench) wantWhole() {
	b.t.Helper()
	p := b.plane
	p.mu.Lock()
	defer p.mu.Unlock()
	w := graph.NewWiring(p.graph)
	w.SetApart(p.partitioner.kindOf)
	rows, fresh := p.tables.InUse(), p.tables.Derive(w, nil)
	for name, pair := range map[string][2]any{
		"entries": {rows.Entries, fresh.Entries}, "outEntries": {rows.OutEntries, fresh.OutEntries},
		"exits": {rows.Exits, fresh.Exits}, "devices": {rows.Devices, fresh.Devices}, "shadows": {rows.Shadows, fresh.Shadows},
		"floods": {rows.Floods, fresh.Floods}, "ways": {rows.Ways, fresh.Ways},
		"stacks": {rows.Stacks, fresh.Stacks}, "parents": {rows.Parents, fresh.Parents},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			b.t.Errorf("rows of %s in use are\n%v, of the whole graph\n%v", name, pair[0], pair[1])
		}
	}
	for _, c := range p.parts {
		again, err := p.maker.Describe(p.wiring, c.IDs)
		if err != nil {
			b.t.Errorf("describing %v anew: %v", c.IDs, err)
		} else if again.Print != c.Print {
			b.t.Errorf("segment of %v in use is\n%s, of the whole graph\n%s", c.IDs, c.Print, again.Print)
		}
	}
}
