// SPDX-License-Identifier: Apache-2.0

package router

// Configured neighbours.

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// fixed is a configured neighbour.
type fixed struct {
	addr netip.Addr // without a zone
	port uint16
	mac  inet.MAC
}

// neighbourChange is a prepared change of configured neighbours.
type neighbourChange struct {
	r *router
	// gone and come are keyed as in the model.
	gone, come map[string]fixed
}

// neighbour checks a configured neighbour; the port must be in the layout.
func (l *layout) neighbour(e *ArpEntry) (fixed, error) {
	addr, err := parseNeighbour(e.Address)
	if err != nil {
		return fixed{}, err
	}
	p := l.byName[e.Interface]
	if p == nil {
		return fixed{}, fmt.Errorf("arp-table %s: interface %s: the router has no such port: %w", e.Address, e.Interface, cube.ErrNotFound)
	}
	if zone := addr.Zone(); zone != "" && zone != e.Interface {
		return fixed{}, fmt.Errorf("arp-table %s: interface is %s: %w", e.Address, e.Interface, cube.ErrInvalid)
	}
	if addr.IsMulticast() || addr.IsUnspecified() {
		return fixed{}, fmt.Errorf("arp-table %s: not a unicast MAC address: %w", e.Address, cube.ErrInvalid)
	}
	m, err := inet.ParseMAC(e.Mac)
	if err != nil {
		return fixed{}, fmt.Errorf("arp-table %s: %w", e.Address, err)
	}
	if m == 0 || m&1 != 0 {
		return fixed{}, fmt.Errorf("arp-table %s: %s is not a unicast MAC address: %w", e.Address, m, cube.ErrInvalid)
	}
	return fixed{addr.WithZone(""), p.index, m}, nil
}

func (r *router) prepareNeighbours(l *layout, changes []cube.EntryChange) (*neighbourChange, error) {
	entries, err := cube.DecodeEntries[ArpEntry](changes)
	if err != nil {
		return nil, err
	}
	n := &neighbourChange{r: r, gone: map[string]fixed{}, come: map[string]fixed{}}
	free, taken := map[addressKey]bool{}, map[addressKey]bool{}
	for _, e := range entries {
		if e.Old == nil {
			continue
		}
		if f, ok := r.fixed[e.Old.Address]; ok {
			n.gone[e.Old.Address] = f
			free[f.key()] = true
		}
	}
	for _, e := range entries {
		if e.New == nil {
			continue
		}
		f, err := l.neighbour(e.New)
		if err != nil {
			return nil, err
		}
		if k := f.key(); taken[k] || r.fixedKeys[k] && !free[k] {
			return nil, fmt.Errorf("arp-table %s: given twice: %w", e.New.Address, cube.ErrExists)
		}
		taken[f.key()] = true
		n.come[e.New.Address] = f
	}
	return n, nil
}

func (f fixed) key() addressKey { return addressKey{Address: inet.AddressOf(f.addr), Port: f.port} }

// commit changes the neighbours, or leaves them unchanged.
func (n *neighbourChange) commit() error {
	if err := n.change(n.gone, n.come); err != nil {
		return errors.Join(err, n.undo())
	}
	return nil
}

// undo undoes a change.
func (n *neighbourChange) undo() error { return n.change(n.come, n.gone) }

func (n *neighbourChange) change(gone, come map[string]fixed) error {
	stays := make(map[addressKey]bool, len(come))
	for _, f := range come {
		stays[f.key()] = true
	}
	for text, f := range gone {
		delete(n.r.fixed, text)
		delete(n.r.fixedKeys, f.key())
		if stays[f.key()] {
			continue
		}
		if err := n.r.setFixed(f, false); err != nil {
			return err
		}
	}
	for text, f := range come {
		if err := n.r.setFixed(f, true); err != nil {
			return fmt.Errorf("arp-table %s: %w", text, err)
		}
		n.r.fixed[text], n.r.fixedKeys[f.key()] = f, true
	}
	return nil
}

// setFixed makes a neighbour permanent, or removes it.
func (r *router) setFixed(f fixed, is bool) error {
	if is {
		err := r.t.neighbours.Set(f.key(), neighbourEntry{Mac: f.mac, State: neighbourPermanent})
		if err == nil {
			r.slow.table.SetStatic(f.key().key(), f.mac.Bytes(), clock())
		}
		return err
	}
	r.slow.table.DeleteStatic(f.key().key(), clock())
	return nil
}
