// SPDX-License-Identifier: Apache-2.0

package world

// The outputs of transparent cubes, to which their programs redirect packets. Like a netdev that is the peer of a port, the
// destination of an output may go and come back: meanwhile the packets are dropped, and the configuration stays.

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// OutputsIn decodes the outputs of a transparent cube's configuration, sorted by number.
func OutputsIn(config []byte) ([]cube.Output, error) {
	var conf struct {
		Outputs []cube.Output `json:"outputs"`
	}
	if err := json.Unmarshal(config, &conf); err != nil {
		return nil, fmt.Errorf("its outputs: %w", err)
	}
	slices.SortFunc(conf.Outputs, func(a, b cube.Output) int { return int(a.Number) - int(b.Number) })
	return conf.Outputs, nil
}

// WhyNoOutput says why packets do not reach the destination of an output, and what to do; "" if they do. notes, if not
// nil, knows what prevents packets from passing.
func (w *World) WhyNoOutput(rec *Cube, o cube.Output, notes Notes) string {
	at, err := ParsePlace(o.To)
	if err != nil {
		return ""
	}
	if at.Netdev == "" {
		far, port := w.runningPort(at)
		switch {
		case port == nil:
			return "no port " + o.To + ": packets are dropped until it exists"
		case far.Type.Hook() != rec.Type.Hook():
			return fmt.Sprintf("%s is of type %s and %s of type %s: packets cannot cross between TC and XDP", rec.Name, rec.Type, far.Name, far.Type)
		}
		return ""
	}
	l := w.Links[at.Netdev]
	if l.Index == 0 {
		return "no netdev " + at.Netdev + ": packets are dropped until it appears"
	}
	if why := w.WhyDown(at.Netdev); why != "" || notes == nil || rec.Type != cube.TypeXDPDRV {
		return why
	}
	return notes.NetdevNote(l.Index)
}

// outputs translates the outputs of a cube, those with a destination.
func (w *World) outputs(g *datapath.Graph, rec *Cube) []datapath.Output {
	var out []datapath.Output
	for _, o := range rec.Outputs {
		at, err := ParsePlace(o.To)
		switch {
		case err != nil:
		case at.Netdev != "":
			if Unfit(w.Links[at.Netdev]) == "" {
				w.addNetdev(g, at.Netdev)
				out = append(out, datapath.Output{Number: uint16(o.Number), Netdev: at.Netdev, Received: o.Received})
			}
		default:
			if far, port := w.runningPort(at); port != nil {
				out = append(out, datapath.Output{Number: uint16(o.Number), Cube: far.ID, Port: port.Index})
			}
		}
	}
	return out
}

// Uses reports whether a cube uses a netdev of a name: as the peer of a port, for a chain, or for an output. A cube at the
// host's stack uses all.
func (w *World) Uses() func(netdev string) bool {
	if len(w.Chains[HostStack]) > 0 {
		return func(string) bool { return true }
	}
	held := w.AllHolders()
	redirected := map[string]bool{}
	for _, rec := range w.AllRunning() {
		for _, o := range rec.Outputs {
			redirected[o.To] = true
		}
	}
	return func(netdev string) bool {
		return len(held[netdev]) > 0 || len(w.Chains[netdev]) > 0 || redirected[netdev]
	}
}
