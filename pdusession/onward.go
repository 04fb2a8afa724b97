// SPDX-License-Identifier: Apache-2.0

package pdusession

// Where the packets of a tunnel go: the cube sends End Markers after them.

import (
	"errors"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/sdf"
)

// Tunnels are those that packets come in, as the cube sees them.
type Tunnels struct {
	tunnels table.Table[uint32, tunnel]
	named   table.Table[gtppath.Tunnel, tunnel]
	rules   *table.Mapped[rule]
	lists   *table.Mapped[sdf.List]
}

// NewTunnels returns those of a cube.
func NewTunnels(env cube.Env) *Tunnels {
	return &Tunnels{table.New[uint32, tunnel](env, "tunnels"), table.New[gtppath.Tunnel, tunnel](env, "named_tunnels"), table.NewMapped[rule](env, "rules"), table.NewMapped[sdf.List](env, "lists")}
}

// Close unmaps their rules.
func (t *Tunnels) Close() error { return errors.Join(t.rules.Close(), t.lists.Close()) }

// Onward is what a rule does with packets of a tunnel.
type Onward struct {
	Action Action
	// Peer and TEID are those of the tunnel that they enter; without one, Peer is invalid.
	// Instance is the number of the network instance that they are sent from.
	Peer     netip.Addr
	TEID     uint32
	Instance uint32
	// QueueRow is that of packets that wait; 0: none ever does.
	QueueRow uint32
}

// Onward returns what the rules of a tunnel do, each once, in their order; none: there is no such tunnel.
func (t *Tunnels) Onward(of gtppath.Tunnel) ([]Onward, error) {
	var is tunnel
	var ok bool
	var err error
	if of.Instance == 0 {
		is, ok, err = t.tunnels.Get(of.TEID)
	} else {
		is, ok, err = t.named.Get(of)
	}
	if err != nil || !ok {
		return nil, err
	}
	rows, err := t.rowsOf(is)
	if err != nil {
		return nil, err
	}
	rules, err := t.rules.Values()
	if err != nil {
		return nil, err
	}
	var all []Onward
	for _, row := range rows {
		if int(row) >= len(rules) {
			continue // the session has changed in the meantime
		}
		r := rules[row]
		o := Onward{Action: Action(r.Action), QueueRow: r.Queue}
		if r.Flags&flagTunnel != 0 {
			o.Peer, o.TEID, o.Instance = r.Peer.Addr(), r.TEID, r.Index>>instanceBit
		}
		all = append(all, o)
	}
	return all, nil
}

// rowsOf returns the rows of a tunnel's rules.
func (t *Tunnels) rowsOf(is tunnel) ([]uint32, error) {
	if is.List == 0 {
		return []uint32{is.Rule}, nil
	}
	lists, err := t.lists.Values()
	if err != nil || int(is.List) >= len(lists) {
		return nil, err
	}
	l := &lists[is.List]
	var rows []uint32
	seen := map[uint32]bool{}
	for _, index := range l.Value[:min(int(l.Count), len(l.Value))] {
		if !seen[index] {
			seen[index] = true
			rows = append(rows, is.Rule+index)
		}
	}
	return rows, nil
}
