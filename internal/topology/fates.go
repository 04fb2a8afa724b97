// SPDX-License-Identifier: Apache-2.0

package topology

// What whoever watches all packets needs: names in order, and what belongs to no cube.

import (
	"fmt"

	"github.com/polycube/polycube/internal/datapath"
)

// CubeNames lists what runs, in order of creation.
func (m *Manager) CubeNames() []string {
	recs := m.view.Load().inOrder()
	names := make([]string, 0, len(recs))
	for _, rec := range recs {
		names = append(names, rec.name)
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
