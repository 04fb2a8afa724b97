// SPDX-License-Identifier: Apache-2.0

package read

// The whole topology, and the order in which packets of a netdev pass cubes. Scripts match these exact strings.

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	fuse "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
)

// Topology returns all cubes, in order of creation, with their connections.
func (rd *Reader) Topology(context.Context) (json.RawMessage, error) {
	w := rd.view.Load()
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
		document.EmitLinks(&b, rec.Name, []any{conf, rd.base(w, rec)})
	}
	b.WriteByte(']')
	return b.Bytes(), nil
}

// NetdevTopology shows the order of cubes at a netdev or a port (cube:port), from the wire to the stack or the port,
// and back. For a port whose peer is a netdev it includes the cubes of both.
func (rd *Reader) NetdevTopology(_ context.Context, iface string) (json.RawMessage, error) {
	w := rd.view.Load()
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
	} else if len(w.Chains[dev]) == 0 && !at.IsHost() {
		if _, err := rd.GetNetdev(dev); err != nil {
			return nil, err
		}
	}
	chain := slices.Clone(w.Chains[dev])
	for _, name := range slices.Backward(inner) {
		chain = append(chain, name) // the chain of a port starts next to the cube
	}
	positions := make([]string, 0, len(chain))
	for i, name := range chain {
		positions = append(positions, fmt.Sprintf("%s, %d, %d", name, i, len(chain)-1-i))
	}
	ingress, egress := append(slices.Clone(chain), end), slices.Clone(chain)
	slices.Reverse(egress)
	if end == "stack" {
		egress = append(egress, end) // the opposite direction, in the form that scripts for the first Polycube expect
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

// CubeNames lists the cubes in the fast path, in order of creation: those that run, and those that could not be
// restored and still forward packets as before.
func (rd *Reader) CubeNames() []string {
	recs := rd.view.Load().AllRunning()
	slices.SortFunc(recs, func(a, b *world.Cube) int { return int(int64(a.Seq) - int64(b.Seq)) })
	names := make([]string, 0, len(recs))
	for _, rec := range recs {
		names = append(names, rec.Name)
	}
	return names
}

// UpOrDown is the text for the status of a port or netdev.
func UpOrDown(up bool) string {
	if up {
		return "UP"
	}
	return "DOWN"
}

// PortRef is a port and its peer.
type PortRef struct {
	Cube, Port string
	// Peer is CUBE:PORT or a netdev, "" if the port has none.
	Peer string
}

// ParentRef is a transparent cube and where it is attached.
type ParentRef struct {
	Cube string
	// Parent is CUBE:PORT or a netdev, "" if the cube is not attached.
	Parent string
}

// Places lists the ports of the cubes, and the transparent cubes, in order of creation. It reads only the
// configuration, so that completion can call it at every key press.
func (rd *Reader) Places() ([]PortRef, []ParentRef) {
	var ports []PortRef
	var parents []ParentRef
	for _, rec := range rd.view.Load().InOrder() {
		if rec.Transparent {
			parents = append(parents, ParentRef{Cube: rec.Name, Parent: rec.Parent})
			continue
		}
		for _, p := range rec.PortsByIndex() {
			ports = append(ports, PortRef{Cube: rec.Name, Port: p.Name, Peer: p.Peer})
		}
	}
	return ports, parents
}

// CapturePlace finds the place at which packets are captured: the name is CUBE:PORT, a transparent cube, or a netdev,
// which stands for its transparent cube closest to the wire, or for the port whose peer it is.
func (rd *Reader) CapturePlace(name string) (fuse.Capture, error) {
	w := rd.view.Load()
	if rec := w.Cubes[name]; rec != nil {
		if !rec.Transparent {
			return fuse.Capture{}, fmt.Errorf("%s has ports: specify one, as %s:PORT: %w", name, name, cube.ErrInvalid)
		}
		return fuse.Capture{Cube: uint16(rec.ID)}, nil
	}
	at, err := world.ParsePlace(name)
	if err != nil {
		return fuse.Capture{}, err
	}
	if at.Netdev == "" {
		rec, p, err := w.PortAt(at)
		if err != nil {
			return fuse.Capture{}, err
		}
		return fuse.Capture{Cube: uint16(rec.ID), Port: p.Index}, nil
	}
	if ids, _ := w.ChainIDs(w.Chains[at.Netdev]); len(ids) > 0 {
		return fuse.Capture{Cube: uint16(ids[0])}, nil
	}
	if held := w.AllHolders()[at.Netdev]; len(held) > 0 {
		rec, p, err := w.PortAt(held[0])
		if err != nil {
			return fuse.Capture{}, err
		}
		return fuse.Capture{Cube: uint16(rec.ID), Port: p.Index}, nil
	}
	if _, err := rd.GetNetdev(at.Netdev); err != nil {
		return fuse.Capture{}, err
	}
	return fuse.Capture{}, fmt.Errorf("netdev %s is not the peer of a port and has no transparent cube: %w", at.Netdev, cube.ErrInvalid)
}
