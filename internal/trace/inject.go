// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
)

// Injector runs packets through a copy of the programs: *datapath.Plane.
type Injector interface {
	Inject(ctx context.Context, at datapath.Injection) ([][]byte, error)
}

// injectTimeout limits the copying and the runs.
const injectTimeout = 30 * time.Second

// verdictInject is the first line of a result: the injected packet.
const verdictInject = "inject"

// Inject shows what would happen to a packet received at a place: a port CUBE:PORT, a transparent cube or a netdev; a
// transparent cube in a direction. The first line is the packet itself. Nothing is learned, sent or counted.
func (h *Hub) Inject(ctx context.Context, place, packet string, dir cube.Direction) ([]Line, error) {
	injector, ok := h.plane.(Injector)
	if !ok {
		return nil, fmt.Errorf("this data plane cannot inject packets: %w", cube.ErrUnsupported)
	}
	at, err := h.topology.CapturePlace(place)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, injectTimeout)
	defer cancel()
	frame, err := ParsePacket(packet, h.topology.StationAt(ctx, place, dir == cube.Egress))
	if err != nil {
		return nil, err
	}
	select {
	case <-h.injecting:
		defer func() { h.injecting <- struct{}{} }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another injected packet: %w", ctx.Err())
	}
	begin := time.Now()
	records, err := injector.Inject(ctx, datapath.Injection{Cube: datapath.CubeID(at.Cube), Port: at.Port, Direction: dir, Frame: frame})
	if err != nil {
		return nil, fmt.Errorf("inject the packet at %s: %w", place, err)
	}
	out := []Line{h.injected(at, dir, frame)}
	for _, r := range records {
		step, err := slowpath.DecodeStep(r)
		if err != nil {
			return nil, fmt.Errorf("inject the packet at %s: %w", place, err)
		}
		out = append(out, h.describe(step))
	}
	out[0].Packet = out[min(1, len(out)-1)].Packet
	for i := range out {
		out[i].Time = begin
	}
	return out, nil
}

// injected describes the packet injected at a place.
func (h *Hub) injected(at link.Capture, dir cube.Direction, frame []byte) Line {
	id := datapath.CubeID(at.Cube)
	l := Line{Cube: h.topology.CubeName(id), Port: h.topology.PortName(id, at.Port), Direction: "ingress", Verdict: verdictInject,
		Length: len(frame), Summary: Summarise(frame, len(frame)), Frame: hex.EncodeToString(frame)}
	if dir == cube.Egress {
		l.Direction = "egress"
	}
	to, from := net.HardwareAddr(frame[:6]).String(), net.HardwareAddr(frame[6:12]).String()
	if ends := from + " > " + to; !strings.Contains(l.Summary, ends) {
		l.Summary = ends + ", " + l.Summary
	}
	return l
}
