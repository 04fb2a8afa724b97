// SPDX-License-Identifier: Apache-2.0

package topology

// Configuration that exists only as long as other configuration does: a cube says which, and it goes in the same
// transaction, so that it is persisted, told and undone like the rest.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// dropDependents asks a cube what its change takes along, and makes these edits.
func (t *settling) dropDependents(name string, u *unit.Unit, was, rec *world.Cube) error {
	dependents := u.Instance().Dependents
	if dependents == nil || string(was.Config.Raw) == string(rec.Config.Raw) {
		return nil
	}
	var edits []cube.Edit
	err := t.call(t.ctx, u, func() (err error) {
		edits, err = dependents(t.ctx, was.Config.Raw, rec.Config.Raw)
		return err
	})
	if err != nil {
		return fmt.Errorf("dependents of the change: %w", err)
	}
	for _, e := range edits {
		err := t.applyEdit(u, e)
		var missing *yang.Error
		if e.Delete && errors.As(err, &missing) && missing.Tag == yang.DataMissing {
			continue // the request deletes it, too
		}
		if err != nil {
			return fmt.Errorf("%s, which depends on the change: %w", strings.Join(e.Path, " "), err)
		}
	}
	if len(edits) == 0 {
		return nil
	}
	return t.derive(name)
}
