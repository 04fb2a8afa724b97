// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"testing"
)

// TestAnAnswerGoesBackOut: past the transparent cubes further out alone, to the cube that sent the packet. A cube that does not
// reply has no code for it.
func TestAnAnswerGoesBackOut(t *testing.T) {
	for _, replies := range []bool{true, false} {
		g := new(graph).cubes(2)
		p, q := g.link(1, 2)
		for range 3 {
			g.gate(g.Cubes[1], q)
		}
		middle := q.Tcubes[1]
		middle.Object.Functions[Ingress] = scripted(Ingress)
		middle.Replies = replies
		inBothModes(t, g, func(t *testing.T, m *machine) {
			const back, pass = verdictTurn << 16, verdictPass << 16
			script, want := []uint64{send(p.Index), back, send(netdevPort)}, []string{"in.1", "in.5", "in.4", "out.4", "out.5", "in.1"}
			if !replies {
				script, want = script[:2], want[:3]
			}
			before := m.fate(middle.ID, reasonBadVerdict)
			m.run(OnIngress, 1, script...)
			if got := plain(m.trail); !slices.Equal(got, want) {
				t.Errorf("replies %v: the packet passed %v, want %v", replies, m.trail, want)
			}
			if bad := m.fate(middle.ID, reasonBadVerdict) - before; (bad == 1) == replies {
				t.Errorf("replies %v: %d packets with a bad verdict", replies, bad)
			}
			if last := m.ports[len(m.ports)-1]; replies && (last != p.Index || m.sent == 0) {
				t.Errorf("it came back on port %d and was sent to %d, want port %d", last, m.sent, p.Index)
			}
			if !replies {
				return
			}
			m.run(OnIngress, 1, send(p.Index), pass, send(netdevPort))
			if got, want := plain(m.trail), []string{"in.1", "in.5", "in.4", "in.3", "in.2"}; !slices.Equal(got, want) {
				t.Errorf("without an answer: the packet passed %v, want %v", m.trail, want)
			}
		})
	}
}
