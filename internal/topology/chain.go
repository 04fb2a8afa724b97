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
	"github.com/polycube/polycube/internal/yang"
)

// AttachRequest asks for a transparent cube to be attached. At most one of Position, Before and After is given.
type AttachRequest struct {
	Cube string `json:"cube"`
	// Port is "cube:port" or a netdev.
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
	return m.together(ctx, cubesOf(a, b), true, func(t *txn) error {
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

func (t *txn) connectEnd(end, far place) error {
	if end.netdev != "" {
		return nil
	}
	_, p, err := t.next.portAt(end)
	if err != nil {
		return err
	}
	if p.peer == far.String() {
		if t.next.links[far.netdev].refused == "" {
			return nil
		}
		_, err := t.findNetdev(far.netdev) // tried again: what the data plane did not like may be gone
		return err
	}
	if p.peer != "" {
		return fmt.Errorf("port %s of %s already has a peer, %s: disconnect them first: %w", p.name, end.cube, p.peer, cube.ErrInUse)
	}
	t.direct[end.cube] = true
	return t.setPeer(end.cube, end.port, far.String())
}

// ends reads the two ends of a link; at least one is a port.
func (t *txn) ends(a, b string) ([2]place, error) {
	var ends [2]place
	for i, s := range []string{a, b} {
		at, err := parsePlace(s)
		if err != nil {
			return ends, err
		}
		ends[i] = at
	}
	if ends[0] == ends[1] {
		return ends, fmt.Errorf("both are the same: %w", cube.ErrInvalid)
	}
	if ends[0].netdev != "" && ends[1].netdev != "" {
		return ends, fmt.Errorf("both are netdevs, one must be a port (cube:port): %w", cube.ErrInvalid)
	}
	return ends, nil
}

// Disconnect undoes Connect.
func (m *Manager) Disconnect(ctx context.Context, a, b string) error {
	return m.together(ctx, cubesOf(a, b), true, func(t *txn) error {
		ends, err := t.ends(a, b)
		if err != nil {
			return fmt.Errorf("disconnect %.140s %.140s: %w", a, b, err)
		}
		cleared := false
		for i, end := range ends {
			if end.netdev != "" {
				continue
			}
			_, p, err := t.next.portAt(end)
			if err != nil {
				return fmt.Errorf("disconnect %s %s: %w", a, b, err)
			}
			if p.peer != ends[1-i].String() {
				continue
			}
			cleared = true
			t.direct[end.cube] = true
			if err := t.setPeer(end.cube, end.port, ""); err != nil {
				return fmt.Errorf("disconnect %s %s: %w", a, b, err)
			}
		}
		if !cleared {
			return fmt.Errorf("disconnect %s %s: they are not connected: %w", a, b, cube.ErrInvalid)
		}
		return nil
	})
}

// Attach puts a transparent cube on a port or a netdev.
func (m *Manager) Attach(ctx context.Context, r AttachRequest) error {
	return m.transact(ctx, func(t *txn) error {
		at, err := parsePlace(r.Port)
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
func (t *txn) attach(name string, at place, r AttachRequest) error {
	if err := t.checkAttach(name, at); err != nil {
		return err
	}
	chain := t.next.chainAt(at)
	i, err := r.index(chain)
	if err != nil {
		return err
	}
	t.own(name).parent = at.String()
	return t.setChain(at, slices.Insert(slices.Clone(chain), i, name))
}

// checkAttach checks that a cube can be attached, and that the place is there.
func (t *txn) checkAttach(name string, at place) error {
	rec := t.next.cubes[name]
	if rec == nil {
		return &AbsentError{Kind: "cube", Name: name, err: t.next.missing(name)}
	}
	if !rec.transparent {
		return fmt.Errorf("%s is not a transparent cube, connect its ports instead: %w", name, cube.ErrInvalid)
	}
	if rec.parent != "" {
		return fmt.Errorf("%s is already attached to %s, detach it first: %w", name, rec.parent, cube.ErrInUse)
	}
	return t.checkAttachPoint(at)
}

func (t *txn) checkAttachPoint(at place) error {
	if at.netdev == "" {
		_, _, err := t.next.portAt(at)
		return err
	}
	l, err := t.findNetdev(at.netdev)
	if err == nil && l.bare {
		err = fmt.Errorf("netdev %s %s: %w", at.netdev, unfit(l), cube.ErrInvalid)
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
		return 0, fmt.Errorf("give one of position, before and after: %w", cube.ErrInvalid)
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
			return 0, fmt.Errorf("impossible to determine position: give position=first or last, before or after one of %v: %w",
				chain, cube.ErrInvalid)
		}
		return 0, nil
	}
	return 0, fmt.Errorf("position %.80q: auto, first or last is wanted: %w", r.Position, cube.ErrInvalid)
}

// setChain changes the chain at a place. That of a port is part of its cube's configuration.
func (t *txn) setChain(at place, chain []string) error {
	if at.netdev == "" {
		t.own(at.cube).ports[at.port].tcubes = chain
		path := yang.Path{{Name: "ports", Keys: []string{at.port}}, {Name: "tcubes"}}
		body, _ := json.Marshal(append([]string{}, chain...)) // strings always marshal
		return t.amend(t.next.units[at.cube], path, body)
	}
	if len(chain) == 0 {
		delete(t.next.chains, at.netdev)
	} else {
		t.next.chains[at.netdev] = chain
	}
	return nil
}

// Detach takes a transparent cube off a port or a netdev.
func (m *Manager) Detach(ctx context.Context, name, from string) error {
	return m.transact(ctx, func(t *txn) error {
		rec := t.next.cubes[name]
		if rec == nil {
			return fmt.Errorf("detach: cube %.80s: %w", name, t.next.missing(name))
		}
		if rec.parent == "" || rec.parent != from {
			where := "is not attached"
			if rec.parent != "" {
				where = "is attached to " + rec.parent
			}
			return fmt.Errorf("detach %s from %.140s: %s %s: %w", name, from, name, where, cube.ErrInvalid)
		}
		return t.detach(rec)
	})
}

// detach takes a cube out of the chain it is in, if any.
func (t *txn) detach(rec *record) error {
	if rec.parent == "" {
		return nil
	}
	at, err := parsePlace(rec.parent)
	if err != nil {
		return err
	}
	t.own(rec.name).parent = ""
	return t.detachName(at, rec.name)
}

// detachName takes a cube, which need not be among the living, out of the chain at a place.
func (t *txn) detachName(at place, name string) error {
	chain := t.next.chainAt(at)
	if !slices.Contains(chain, name) {
		return nil
	}
	return t.setChain(at, slices.DeleteFunc(slices.Clone(chain), func(s string) bool { return s == name }))
}

// findNetdev looks a device up in the kernel: an event about it may still be on its way.
func (t *txn) findNetdev(name string) (link, error) {
	info, err := t.m.getNetdev(name)
	if err != nil {
		return link{}, err
	}
	if err := t.m.refuseShadow(info); err != nil {
		return link{}, err
	}
	l := linkOf(info)
	l.flaps = t.next.links[name].flaps
	t.next.links[name] = l
	return l, nil
}
