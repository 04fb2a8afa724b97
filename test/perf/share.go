// SPDX-License-Identifier: Apache-2.0

package perf

// The effect of a share of packets on the slow path on a forwarder's throughput.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// shares of packets that take the slow path, in percent.
var shares = []int{0, 1, 10, 50, 100}

// shared is the result of one round.
type shared struct{ sent, delivered, shed float64 } // Mpps, Mpps, percent

// slowShares sends as fast as one CPU can, while the other one handles packets in user space: each of them is sent down
// again through the same port as the others.
func slowShares(ctx context.Context, r *Run) (*report.Table, error) {
	t := &report.Table{
		Title:   "Throughput by share of packets on the slow path, up and down",
		Columns: []string{"", "share %", "Mpps sent", "Mpps delivered", "slow path shed %"},
		Notes: []string{"Wall time: one CPU sends as fast as it can and runs the fast path, the other one " +
			"reads the ring and writes each packet to the TAP, from where it goes to the sink. Packets that the second CPU " +
			"cannot handle are shed early; they do not delay the others."},
	}
	length := 500 * time.Millisecond
	if r.Quick {
		length = 300 * time.Millisecond
	}
	rounds := r.rounds(3, 1)
	for _, typ := range []cube.Type{cube.TypeXDPDRV, cube.TypeTC} {
		r.progress("slowpath: shares, %s", hookName(typ.Hook()))
		for _, percent := range shares {
			var sent, delivered, shed report.Sample
			for range rounds {
				s, err := slowShare(ctx, typ, percent, length)
				if err != nil {
					return nil, fmt.Errorf("%s, %d %%: %w", typ, percent, err)
				}
				sent, delivered, shed = append(sent, s.sent), append(delivered, s.delivered), append(shed, s.shed)
			}
			t.Add(hookName(typ.Hook()), fmt.Sprint(percent), sent.Spread(2), delivered.Spread(2), shed.Spread(1))
		}
	}
	return t, nil
}

func slowShare(ctx context.Context, typ cube.Type, percent int, length time.Duration) (s shared, err error) {
	err = lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(stations)
		if err == nil {
			err = rig.Sink(w, typ.Hook())
		}
		if err != nil {
			return err
		}
		p, n, err := slowPlane(rig, w, typ, "share", map[string]any{"percent": uint32(percent)})
		if err != nil {
			return err
		}
		s, err = pressShare(rig.Context(), w, p, n.ID, length)
		return err
	})
	return s, err
}

// pressShare floods for a while and counts the frames that arrive within that time.
func pressShare(ctx context.Context, w *lab.Wire, p *lab.Plane, id datapath.CubeID, length time.Duration) (shared, error) {
	var sendErr error
	h := &counter{each: func(_ uint16, in *cube.PacketIn) {
		out := &cube.PacketOut{Port: 1, Direction: cube.Egress, Trip: in.Trip, Data: in.Data}
		if err := p.Send(id, out); err != nil && sendErr == nil {
			sendErr = err
		}
	}}
	rd, err := p.Read(ctx, h)
	if err != nil {
		return shared{}, err
	}
	before, err := w.Counts()
	if err != nil {
		return shared{}, err
	}
	start := time.Now()
	loading, stop := context.WithTimeout(ctx, length)
	err = w.Flood(loading)
	stop()
	took := time.Since(start).Seconds()
	after, cerr := w.Counts()
	up, shed, ferr := fates(p, id)
	_, rerr := rd.Stop()
	if err := errors.Join(err, cerr, ferr, rerr, sendErr); err != nil {
		return shared{}, err
	}
	s := shared{sent: float64(after.Sent-before.Sent) / took / 1e6, delivered: float64(after.Received-before.Received) / took / 1e6}
	if up+shed > 0 {
		s.shed = 100 * float64(shed) / float64(up+shed)
	}
	return s, nil
}
