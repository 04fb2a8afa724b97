// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/internal/netdev"
)

// Netdevs to which cubes at native XDP redirect packets carry no program for that, but must accept the frames, like the
// peers of ports.

// addOutputs finds those netdevs, except for the ones that carry a program at native XDP anyway.
func (pl *Plan) addOutputs(w *graph.Wiring) {
	for name, from := range w.ToNetdev {
		dev := w.Graph.Netdevs[name]
		native := func(id graph.CubeID) bool { return w.Graph.Cubes[id].Type == cube.TypeXDPDRV }
		if dev == nil || dev.Index == 0 || !slices.ContainsFunc(from, native) {
			continue
		}
		s := spot{dev.Index, kindXDP}
		if !slices.ContainsFunc(pl.wants, func(w want) bool { return w.spot == s && w.link.native }) {
			pl.outputs = append(pl.outputs, want{spot: s, name: name, link: linkState{dev.Carrier, dev.Flaps, dev.MTU, true}})
		}
	}
}

// prepareOutputs makes the netdevs accept frames. Problems that it cannot fix are noted.
func (pl *Plan) prepareOutputs(u *undo.Stack) error {
	n := pl.n
	for _, w := range pl.outputs {
		was, known := n.outputs[w.spot.ifindex]
		if known && was == w.link {
			continue
		}
		if err := n.readyForRedirects(u, w); err != nil {
			return err
		}
		n.outputs[w.spot.ifindex] = w.link
		u.Push(n.locked(func() error {
			if delete(n.outputs, w.spot.ifindex); known {
				n.outputs[w.spot.ifindex] = was
			}
			return nil
		}))
	}
	return nil
}

func (n *Netdevs) readyForRedirects(u *undo.Stack, w want) error {
	ready, err := netdev.EnsureCanReceiveRedirects(w.name)
	var text string
	switch {
	case errors.Is(err, netdev.ErrNotFound):
		return nil // it is gone, and the event for it has not arrived yet
	case err != nil:
		text = err.Error()
	case !ready.OK:
		text = ready.Reason
	}
	if ready.Changed {
		n.log.Info("prepared the netdev for redirected frames", "netdev", w.name, "switched", netdev.GRO)
		if n.attached[w.spot] == nil {
			u.Push(func() error { return n.undoForXDP(w.spot) })
		}
		if err := n.remember(w.spot, []string{netdev.GRO}); err != nil {
			return fmt.Errorf("netdev %s: %w", w.name, err)
		}
	}
	n.notes.set(w, text)
	return nil
}

// releaseOutputs restores the settings of netdevs to which no packets are redirected any more. It is too late to undo the
// change: problems are logged.
func (pl *Plan) releaseOutputs() {
	n := pl.n
	var u undo.Stack // nothing runs it
	for _, w := range pl.outputs {
		if _, known := n.outputs[w.spot.ifindex]; known {
			continue
		}
		n.outputs[w.spot.ifindex] = w.link // detaching a program has restored its settings
		if err := n.readyForRedirects(&u, w); err != nil {
			n.log.Warn("prepare a netdev for redirected frames", "netdev", w.name, "err", err)
		}
	}
	for ifindex := range n.outputs {
		s := spot{ifindex, kindXDP}
		if slices.ContainsFunc(pl.outputs, func(w want) bool { return w.spot == s }) {
			continue
		}
		delete(n.outputs, ifindex)
		if n.attached[s] != nil {
			continue
		}
		if err := n.undoForXDP(s); err != nil {
			n.log.Warn("a netdev keeps the settings for redirected frames", "ifindex", ifindex, "err", err)
		}
	}
}
