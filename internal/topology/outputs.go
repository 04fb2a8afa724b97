// SPDX-License-Identifier: Apache-2.0

package topology

// The outputs of transparent cubes: each is checked when it is configured. Later its destination may go and come back.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/world"
)

// checkOutputs checks the outputs that this transaction set.
func (t *settling) checkOutputs() error {
	var errs []error
	for _, name := range t.touched {
		rec, was := t.next.Cubes[name], t.before(name)
		if rec == nil {
			continue
		}
		for _, o := range rec.Outputs {
			if was != nil && slices.Contains(was.Outputs, o) {
				continue
			}
			if err := t.checkOutput(rec, o); err != nil {
				errs = append(errs, blame(name, fmt.Errorf("output %d of %s: to %.140s: %w", o.Number, name, o.To, err)))
			}
		}
	}
	return errors.Join(errs...)
}

func (t *settling) checkOutput(rec *world.Cube, o cube.Output) error {
	at, err := world.ParsePlace(o.To)
	if err != nil {
		return err
	}
	if at.Netdev == "" {
		far, _, err := t.next.PortAt(at)
		if err == nil && far.Type.Hook() != rec.Type.Hook() {
			err = fmt.Errorf("%s runs at %s and %s at %s: packets cannot cross between TC and XDP: %w", rec.Name, rec.Type, far.Name, far.Type,
				cube.ErrInvalid)
		}
		return err
	}
	if o.Received && rec.Type != cube.TypeTC {
		return fmt.Errorf("only a cube of type TC can make a netdev receive packets, %s is of type %s: remove received=true: %w", rec.Name, rec.Type,
			cube.ErrInvalid)
	}
	if err := t.checkNetdev(at.Netdev); err != nil || rec.Type != cube.TypeXDPDRV {
		return err
	}
	ready, err := t.netdevs.TakesRedirects(at.Netdev)
	if err == nil && !ready.OK && (!ready.WithProgram || !t.hasNativeCube(at.Netdev)) {
		err = fmt.Errorf("%s: %w", ready.Reason, cube.ErrInvalid)
	}
	return err
}

// hasNativeCube reports whether a transparent cube of type XDP_DRV is attached to a netdev after the transaction.
func (t *settling) hasNativeCube(netdev string) bool {
	for _, rec := range t.next.Cubes {
		if rec.Type == cube.TypeXDPDRV && rec.Parent == netdev {
			return true
		}
	}
	return false
}
