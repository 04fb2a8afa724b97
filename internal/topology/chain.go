// SPDX-License-Identifier: Apache-2.0

package topology

// Service chains: connecting ports, and attaching transparent cubes to ports and netdevs.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// AttachRequest asks for a transparent cube to be attached. At most one of Position, Before and After is given.
type AttachRequest struct {
	Cube string `json:"cube"`
	// Port is "cube:port", a netdev, or "host".
	Port string `json:"port"`
	// Position is "auto" (also when nothing is given), "first" or "last". On a port, first is next to the cube; on a
	// netdev, first sees a packet first on ingress.
	Position string `json:"position,omitempty"`
	// Before and After name a cube that is attached there, in the sense of Position.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Connect links two ports, or a port and a netdev.
func (m *Manager) Connect(ctx context.Context, a, b string) error {
	return m.together(ctx, cubesOf(a, b), true, func(t *editing) error {
		ends, err := t.ends(a, b)
		if err != nil {
			return fmt.Errorf("connect %.140s %.140s: %w", a, b, err)
		}
		for i, end := range ends {
			if err := t.connectEnd(end, ends[1-i]); err != nil {
				return fmt.Errorf("connect %s %s: %w", a, b, err)
			}
		}
		return nil
	})
}

// cubesOf are the cubes, or netdevs, of two ends.
func cubesOf(ends ...string) []string {
	out := make([]string, len(ends))
	for i, end := range ends {
		out[i], _, _ = strings.Cut(end, ":")
	}
	return out
}

func (t *editing) connectEnd(end, far world.Place) error {
	if end.Netdev != "" {
		return nil
	}
	_, p, err := t.next.PortAt(end)
	if err != nil {
		return err
	}
	if p.Peer == far.String() {
		if t.next.Links[far.Netdev].Refused == "" {
			return nil
		}
		_, err := t.findNetdev(far.Netdev) // tried again: what the data plane did not like may be gone
		return err
	}
	if p.Peer != "" {
		return fmt.Errorf("port %s of %s already has a peer, %s: disconnect them first: %w", p.Name, end.Cube, p.Peer, cube.ErrInUse)
	}
	t.direct[end.Cube] = true
	return t.setPeer(end.Cube, end.Port, far.String())
}

// ends reads the two ends of a link; at least one is a port.
func (t *editing) ends(a, b string) ([2]world.Place, error) {
	var ends [2]world.Place
	for i, s := range []string{a, b} {
		at, err := world.ParsePlace(s)
		if err != nil {
			return ends, err
		}
		ends[i] = at
	}
	if ends[0] == ends[1] {
		return ends, fmt.Errorf("both peers are the same: %w", cube.ErrInvalid)
	}
	if ends[0].Netdev != "" && ends[1].Netdev != "" {
		return ends, fmt.Errorf("both peers are netdevs, one must be a port (cube:port): %w", cube.ErrInvalid)
	}
	return ends, nil
}

// Disconnect undoes Connect.
func (m *Manager) Disconnect(ctx context.Context, a, b string) error {
	return m.together(ctx, cubesOf(a, b), true, func(t *editing) error {
		ends, err := t.ends(a, b)
		if err != nil {
			return fmt.Errorf("disconnect %.140s %.140s: %w", a, b, err)
		}
		cleared := false
		for i, end := range ends {
			if end.Netdev != "" {
				continue
			}
			_, p, err := t.next.PortAt(end)
			if err != nil {
				return fmt.Errorf("disconnect %s %s: %w", a, b, err)
			}
			if p.Peer != ends[1-i].String() {
				continue
			}
			cleared = true
			t.direct[end.Cube] = true
			if err := t.setPeer(end.Cube, end.Port, ""); err != nil {
				return fmt.Errorf("disconnect %s %s: %w", a, b, err)
			}
		}
		if !cleared {
			return fmt.Errorf("disconnect %s %s: not connected to each other: %w", a, b, cube.ErrInvalid)
		}
		return nil
	})
}

// Attach puts a transparent cube on a port or a netdev, or at the host's stack.
func (m *Manager) Attach(ctx context.Context, r AttachRequest) error {
	return m.transact(ctx, func(t *editing) error {
		at, err := world.ParsePlace(r.Port)
		if err == nil {
			err = t.attach(r.Cube, at, r)
		}
		if err != nil {
			return fmt.Errorf("attach %.80s to %.140s: %w", r.Cube, r.Port, err)
		}
		return nil
	})
}

// attach changes the chain at a place in the next world. Hooks are checked when the whole world is.
func (t *editing) attach(name string, at world.Place, r AttachRequest) error {
	if err := t.checkAttach(name, at); err != nil {
		return err
	}
	chain := t.next.ChainAt(at)
	i, err := r.index(chain)
	if err != nil {
		return err
	}
	t.own(name).Parent = at.String()
	return t.setChain(at, slices.Insert(slices.Clone(chain), i, name))
}

// checkAttach checks that a cube can be attached, and that the place is there.
func (t *editing) checkAttach(name string, at world.Place) error {
	rec := t.next.Cubes[name]
	if rec == nil {
		return &world.AbsentError{Kind: "cube", Name: name, Err: t.next.Missing(name)}
	}
	if !rec.Transparent {
		return fmt.Errorf("%s is not a transparent cube, connect its ports instead: %w", name, cube.ErrInvalid)
	}
	if rec.Parent != "" {
		return fmt.Errorf("%s is already attached to %s, detach it first: %w", name, rec.Parent, cube.ErrInUse)
	}
	return t.checkAttachPoint(at)
}

func (t *editing) checkAttachPoint(at world.Place) error {
	if at.Netdev == "" {
		_, _, err := t.next.PortAt(at)
		return err
	}
	if at.IsHost() {
		return nil
	}
	l, err := t.findNetdev(at.Netdev)
	if err == nil && l.Bare {
		err = fmt.Errorf("netdev %s %s: %w", at.Netdev, world.Unfit(l), cube.ErrInvalid)
	}
	return err
}

// index is where in the chain the request wants the cube.
func (r AttachRequest) index(chain []string) (int, error) {
	given := 0
	for _, s := range []string{r.Position, r.Before, r.After} {
		if s != "" {
			given++
		}
	}
	if given > 1 {
		return 0, fmt.Errorf("give only one of position, before and after: %w", cube.ErrInvalid)
	}
	if neighbour := r.Before + r.After; neighbour != "" {
		i := slices.Index(chain, neighbour)
		if i < 0 {
			return 0, fmt.Errorf("%.80s is not attached there: %w", neighbour, cube.ErrInvalid)
		}
		if r.After != "" {
			i++
		}
		return i, nil
	}
	switch r.Position {
	case "first":
		return 0, nil
	case "last":
		return len(chain), nil
	case "", "auto":
		if len(chain) > 0 {
			return 0, fmt.Errorf("cannot determine the position: give position=first or last, before or after one of %v: %w",
				chain, cube.ErrInvalid)
		}
		return 0, nil
	}
	return 0, fmt.Errorf("position %.80q: must be auto, first or last: %w", r.Position, cube.ErrInvalid)
}

// setChain changes the chain at a place. That of a port is part of its cube's configuration.
func (t *editing) setChain(at world.Place, chain []string) error {
	if at.Netdev == "" {
		t.own(at.Cube).Ports[at.Port].Tcubes = chain
		path := yang.Path{{Name: "ports", Keys: []string{at.Port}}, {Name: "tcubes"}}
		body, _ := json.Marshal(append([]string{}, chain...)) // strings always marshal
		return t.amend(t.next.Units[at.Cube], path, body)
	}
	if len(chain) == 0 {
		delete(t.next.Chains, at.Netdev)
	} else {
		t.next.Chains[at.Netdev] = chain
	}
	return nil
}

// Detach takes a transparent cube off a port or a netdev.
func (m *Manager) Detach(ctx context.Context, name, from string) error {
	return m.transact(ctx, func(t *editing) error {
		rec := t.next.Cubes[name]
		if rec == nil {
			return fmt.Errorf("detach: cube %.80s: %w", name, t.next.Missing(name))
		}
		if rec.Parent == "" || rec.Parent != from {
			where := "is not attached"
			if rec.Parent != "" {
				where = "is attached to " + rec.Parent
			}
			return fmt.Errorf("detach %s from %.140s: %s %s: %w", name, from, name, where, cube.ErrInvalid)
		}
		return t.detach(rec)
	})
}

// detach takes a cube out of the chain it is in, if any.
func (t *editing) detach(rec *world.Cube) error {
	if rec.Parent == "" {
		return nil
	}
	at, err := world.ParsePlace(rec.Parent)
	if err != nil {
		return err
	}
	t.own(rec.Name).Parent = ""
	return t.detachName(at, rec.Name)
}

// detachName takes a cube, which need not be among the living, out of the chain at a place.
func (t *editing) detachName(at world.Place, name string) error {
	chain := t.next.ChainAt(at)
	if !slices.Contains(chain, name) {
		return nil
	}
	return t.setChain(at, slices.DeleteFunc(slices.Clone(chain), func(s string) bool { return s == name }))
}

// findNetdev looks a device up in the kernel: an event about it may still be on its way.
func (t *editing) findNetdev(name string) (world.Link, error) {
	info, err := t.GetNetdev(name)
	if err != nil {
		return world.Link{}, err
	}
	if t.shadows != nil && t.shadows.Owner(info.Index) != "" {
		return world.Link{}, fmt.Errorf("netdev %s leads into the namespace of a cube: %w", info.Name, cube.ErrInUse)
	}
	l := world.LinkOf(info)
	l.Flaps = t.next.Links[name].Flaps
	t.next.SetLink(name, l)
	return l, nil
}

// release detaches transparent cubes from a place that goes.
func (t *editing) release(chain []string) {
	for _, name := range chain {
		if rec := t.own(name); rec != nil {
			rec.Parent = ""
		}
	}
}
