// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
)

// Injector tries packets on a copy of the programs: *datapath.Plane.
type Injector interface {
	Inject(ctx context.Context, at datapath.Injection) ([][]byte, error)
}

// injectTimeout bounds the copying and the runs.
const injectTimeout = 30 * time.Second

// Inject tells what would happen to a packet that the place, a port CUBE:PORT, a transparent cube or a
// netdev, would receive; a transparent cube in a direction. Nothing is learned, sent or counted.
func (h *Hub) Inject(ctx context.Context, place, packet string, dir cube.Direction) ([]Line, error) {
	injector, ok := h.plane.(Injector)
	if !ok {
		return nil, fmt.Errorf("this data plane cannot try packets: %w", cube.ErrUnsupported)
	}
	at, err := h.topology.CapturePlace(place)
	if err != nil {
		return nil, err
	}
	frame, err := ParsePacket(packet)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, injectTimeout)
	defer cancel()
	select {
	case <-h.injecting:
		defer func() { h.injecting <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for another packet that is tried: %w", ctx.Err())
	}
	begin := time.Now()
	records, err := injector.Inject(ctx, datapath.Injection{Cube: datapath.CubeID(at.Cube), Port: at.Port, Direction: dir, Frame: frame})
	if err != nil {
		return nil, fmt.Errorf("trying the packet at %s: %w", place, err)
	}
	out := []Line{}
	for _, r := range records {
		step, err := slowpath.DecodeStep(r)
		if err != nil {
			return nil, fmt.Errorf("trying the packet at %s: %w", place, err)
		}
		l := h.describe(step)
		l.Time = begin
		out = append(out, l)
	}
	return out, nil
}
