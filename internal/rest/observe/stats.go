// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"strings"

	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/yang"
)

// portStats are the total counters of a port since it was created.
type portStats struct {
	Name      string `json:"name"`
	RxPackets uint64 `json:"rx-packets"`
	RxBytes   uint64 `json:"rx-bytes"`
	TxPackets uint64 `json:"tx-packets"`
	TxBytes   uint64 `json:"tx-bytes"`
}

// fateStats is the counter of one fate of packets in the cube.
type fateStats struct {
	Name    string `json:"name"`
	Drop    bool   `json:"drop"`
	Packets uint64 `json:"packets"`
}

// programStats are the costs of one of the programs of a segment.
type programStats struct {
	// Role is where packets enter it: in and out from netdevs, resume from elsewhere.
	Role         string `json:"role"`
	Hook         string `json:"hook"`
	Instructions int    `json:"instructions"`
	Verified     int    `json:"verified-instructions"`
	Stack        int    `json:"stack-bytes"`
}

// CubeStats is the response of /cubes/NAME/stats.
type CubeStats struct {
	Name    string `json:"name"`
	Service string `json:"service-name"`
	// Mode is call or inline, Reason why it is not inline; "" while no program is in use.
	Mode   string `json:"mode"`
	Reason string `json:"mode-reason"`
	// Segment is the number of the cube's program, starting at 1, among the Segments of its component; SegmentCubes
	// cubes are in it.
	Segment      int `json:"segment"`
	Segments     int `json:"segments"`
	SegmentCubes int `json:"segment-cubes"`
	// AlikeCubes is how many cubes, this one included, run the same program, which has the code of one of them.
	AlikeCubes int `json:"alike-cubes"`
	// Instructions is the size of that program, Verified how many instructions the kernel's verifier processed, and
	// Stack its stack in bytes, of which the kernel allows 512. A segment has several programs: these are the largest
	// figures among Programs.
	Instructions int `json:"instructions"`
	Verified     int `json:"verified-instructions"`
	Stack        int `json:"stack-bytes"`
	// OwnInstructions are those of the cube alone, and OwnStack is what it adds to the stack of the framework.
	OwnInstructions int `json:"own-instructions"`
	OwnStack        int `json:"own-stack-bytes"`
	// LoadMicroseconds is how long it took to load the programs.
	LoadMicroseconds int64 `json:"load-microseconds"`
	// Degraded says why the cube's code is no longer called, "" if it is.
	Degraded string         `json:"degraded"`
	Programs []programStats `json:"programs"`
	Ports    []portStats    `json:"ports"`
	Fates    []fateStats    `json:"fates"`
}

// CubeStats reads a cube's counters.
func (o *Observer) CubeStats(ctx context.Context, service, name string) (CubeStats, error) {
	out := CubeStats{
		Name: name, Service: service, Degraded: o.manager.Degraded(name),
		Programs: []programStats{}, Ports: []portStats{}, Fates: []fateStats{},
	}
	status, err := o.manager.Status(name)
	if err != nil {
		return out, err
	}
	out.Mode, out.Reason = status.Mode, status.Reason
	out.Segment, out.Segments, out.SegmentCubes = status.Segment, status.Segments, status.Cubes
	out.AlikeCubes = status.Alike
	out.Instructions, out.Verified, out.Stack = status.Instructions, status.Verified, status.Stack
	out.OwnInstructions, out.OwnStack, out.LoadMicroseconds = status.OwnInstructions, status.OwnStack, status.Load.Microseconds()
	for _, p := range status.Programs {
		out.Programs = append(out.Programs, programStats{p.Role, strings.ToUpper(p.Hook.String()), p.Instructions, p.Verified, p.Stack})
	}
	for _, port := range o.ports(ctx, service, name) {
		c, err := o.manager.PortStats(name, port)
		if err != nil {
			return out, err
		}
		out.Ports = append(out.Ports, portStats{port, c.RxPackets, c.RxBytes, c.TxPackets, c.TxBytes})
	}
	fates, err := o.manager.Fates(name)
	if err != nil {
		return out, err
	}
	for _, f := range fates {
		out.Fates = append(out.Fates, fateStats{f.Name, f.Drop, f.Packets})
	}
	return out, nil
}

// ports are the names of a cube's ports, none for a transparent cube.
func (o *Observer) ports(ctx context.Context, service, name string) []string {
	if o.names.Transparent(service) {
		return nil
	}
	raw, err := o.manager.Read(ctx, service, name, yang.Path{{Name: "ports"}})
	if err != nil {
		return nil
	}
	return directory.Names(raw)
}
