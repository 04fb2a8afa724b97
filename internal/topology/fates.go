// SPDX-License-Identifier: Apache-2.0

package topology

// What whoever watches all packets needs: names in order, and what belongs to no cube.

import (
	"fmt"
	"slices"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
)

// CubeNames lists the cubes that packets go through, in order of creation: those that run, and those that could not be
// restored and go on as they were.
func (m *Manager) CubeNames() []string {
	recs := m.view.Load().AllRunning()
	slices.SortFunc(recs, func(a, b *world.Cube) int { return int(int64(a.Seq) - int64(b.Seq)) })
	names := make([]string, 0, len(recs))
	for _, rec := range recs {
		names = append(names, rec.Name)
	}
	return names
}

// FrameworkFates reads how packets ended that belong to no cube.
func (m *Manager) FrameworkFates() ([]datapath.Fate, error) {
	fates, err := m.dp.Fates(0)
	if err != nil {
		return nil, fmt.Errorf("fates of the framework: %w", err)
	}
	return fates, nil
}
