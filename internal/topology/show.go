// SPDX-License-Identifier: Apache-2.0

package topology

// The whole topology, and the order in which a netdev's packets meet cubes. Scripts look for the exact strings.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
)

// Topology returns all cubes, in order of creation, with what links them.
func (m *Manager) Topology(context.Context) (json.RawMessage, error) {
	w := m.view.Load()
	var b bytes.Buffer
	b.WriteByte('[')
	for i, rec := range w.InOrder() {
		if i > 0 {
			b.WriteByte(',')
		}
		conf, err := rec.Config.Decode()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", rec.Name, err)
		}
		document.EmitLinks(&b, rec.Name, []any{conf, m.base(w, rec)})
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// NetdevTopology shows the order of cubes at a netdev or a port (cube:port), from the wire to the stack or the port, and
// back. Behind a port whose peer is a netdev are the cubes of both.
func (m *Manager) NetdevTopology(_ context.Context, iface string) (json.RawMessage, error) {
	w := m.view.Load()
	at, err := world.ParsePlace(iface)
	if err != nil {
		return nil, fmt.Errorf("topology: %w", err)
	}
	end, dev := "stack", at.Netdev
	var inner []string
	if dev == "" {
		if _, _, err := w.PortAt(at); err != nil {
			return nil, fmt.Errorf("topology: %w", err)
		}
		end, inner = iface, w.ChainAt(at)
		if peer, err := w.PeerOf(at); err == nil {
			dev = peer.Netdev
		}
	} else if ends := w.AllHolders()[dev]; len(ends) > 0 {
		end, inner = ends[0].String(), w.ChainAt(ends[0])
	} else if len(w.Chains[dev]) == 0 {
		if _, err := m.getNetdev(dev); err != nil {
			return nil, err
		}
	}
	chain := slices.Clone(w.Chains[dev])
	for _, name := range slices.Backward(inner) {
		chain = append(chain, name) // a port's chain begins next to the cube
	}
	positions := make([]string, 0, len(chain))
	for i, name := range chain {
		positions = append(positions, fmt.Sprintf("%s, %d, %d", name, i, len(chain)-1-i))
	}
	ingress, egress := append(slices.Clone(chain), end), slices.Clone(chain)
	slices.Reverse(egress)
	if end == "stack" {
		egress = append(egress, end) // the way back, written as scripts for the first Polycube expect it
	} else {
		egress = slices.Insert(egress, 0, end)
	}
	const arrow = " ---> "
	var b bytes.Buffer
	out := document.Writer{B: &b}
	out.Member("name", document.Encode(iface))
	out.Member("cubes, ingress_index, egress_index", document.Encode(positions))
	out.Member("ingress service chain", document.Encode(strings.Join(ingress, arrow)))
	out.Member("egress service chain", document.Encode(strings.Join(egress, arrow)))
	out.End()
	return b.Bytes(), nil
}
