// SPDX-License-Identifier: Apache-2.0

package inject

// The copies of floods in a sandbox, whose programs cannot send copies: each is a separate run.

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/datapath/floods"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Layout of a record of a step (struct pcn_record, struct pcn_trace), for what floods need.
const (
	recordHeadSize = 72
	recordSize     = recordHeadSize + 32
	recordStep     = 5
	vlanOutOfBand  = 1 // in the flags: the tag is in the skb
	verdictFlood   = 3

	verdictFloodSet = 7
)

// copiesOfSet returns the runs for the copies of a flood to a set. The sandbox has no sets, so each copy is a run.
func (s *Sandbox) copiesOfSet(r run, rec []byte, id graph.CubeID, in uint16) []run {
	e, step := binary.NativeEndian, rec[recordHeadSize:]
	words := [4]uint32{e.Uint32(rec[48:]), e.Uint32(rec[52:])}
	if e.Uint32(rec[8:])&vlanOutOfBand != 0 {
		words[floods.WordOfSet] &^= floods.HasTag
	}
	frame := slices.Clone(r.frame)
	copy(frame, step[32:e.Uint32(rec[16:])])
	ports := append(s.leading(id, in), s.plain(id, in)...)
	var out []run
	for port, f := range s.from.Copies(id, in, words, frame) {
		if slices.Contains(ports, port) {
			out = append(out, run{cube: id, target: targetTX, port: port, frame: slices.Clone(f), hops: r.hops + 1})
		}
	}
	return out
}

// copies returns the runs for the copies of floods in a run. At TC the last copy that leads to a program is the packet
// itself, at XDP it is if there is no other; then steps follow.
func (s *Sandbox) copies(r run, records [][]byte) []run {
	var out []run
	e := binary.NativeEndian
	for i, rec := range records {
		step := rec[recordHeadSize:]
		if step[22] != link.StageProgram || step[23] != verdictFlood && step[23] != verdictFloodSet {
			continue
		}
		id, in := graph.CubeID(e.Uint16(step[8:])), e.Uint16(step[10:])
		if step[23] == verdictFloodSet {
			out = append(out, s.copiesOfSet(r, rec, id, in)...)
			continue
		}
		frame := slices.Clone(r.frame)
		copy(frame, step[32:e.Uint32(rec[16:])])
		copied := run{cube: id, target: targetTX, frame: frame, hops: r.hops + 1}
		ports := s.leading(id, in)
		if i < len(records)-1 && len(ports) > 0 {
			ports = ports[:len(ports)-1]
		}
		for _, copied.port = range ports {
			out = append(out, copied)
		}
		for _, copied.port = range s.plain(id, in) {
			out = append(out, copied)
		}
	}
	return out
}

// leading returns the ports of a cube that lead to programs, except the ingress port.
func (s *Sandbox) leading(id graph.CubeID, in uint16) []uint16 {
	w := graph.NewWiring(s.g)
	return s.ports(id, in, func(p *graph.Port) bool { return len(p.Tcubes) > 0 || w.PeerOf(id, p) != nil })
}

// plain returns the ports that lead to netdevs without a program in between.
func (s *Sandbox) plain(id graph.CubeID, in uint16) []uint16 {
	return s.ports(id, in, func(p *graph.Port) bool { return len(p.Tcubes) == 0 && p.Peer.Netdev != "" })
}

func (s *Sandbox) ports(id graph.CubeID, in uint16, want func(*graph.Port) bool) []uint16 {
	var out []uint16
	n := s.g.Cubes[id]
	for _, index := range slices.Sorted(maps.Keys(n.Ports)) {
		if index != in && want(n.Ports[index]) {
			out = append(out, index)
		}
	}
	return out
}
