// SPDX-License-Identifier: Apache-2.0

package perf

// Whether a cube that floods the slow path takes it away from another one.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// The quiet cube's packets per second, and how long the handler takes for each of the other's.
const (
	quietRate = 10_000
	loudWork  = 2 * time.Microsecond
)

// pair is two cubes on one plane, a flooded one and a quiet one.
type pair struct {
	wire        *lab.Wire
	plane       *lab.Plane
	host        *netns.Node // behind the quiet cube
	loud, still datapath.CubeID
}

// ups are packets that came up and that were shed.
type ups struct{ up, shed uint64 }

func (u ups) percent() string { return fmt.Sprintf("%.1f", 100*float64(u.shed)/float64(u.up+u.shed)) }

// fairness floods one cube, whose handler is too slow, beside one that gets a little.
func fairness(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	length := 3 * time.Second
	if r.Quick {
		length = 500 * time.Millisecond
	}
	var quiet, noisy ups
	var sent int
	err := lab.With(ctx, func(rig *lab.Rig) error {
		p, err := newPair(rig)
		if err != nil {
			return err
		}
		if sent, err = p.press(rig.Context(), length); err != nil {
			return err
		}
		var stillErr, loudErr error
		quiet.up, quiet.shed, stillErr = fates(p.plane, p.still)
		noisy.up, noisy.shed, loudErr = fates(p.plane, p.loud)
		return errors.Join(stillErr, loudErr)
	})
	if err != nil {
		return nil, nil, err
	}
	if noisy.shed == 0 {
		return nil, nil, errors.New("the flooded cube lost nothing, so this shows nothing")
	}
	t := &report.Table{Title: "A quiet cube beside a flooded one", Columns: []string{"", "packets up", "shed", "shed %"}}
	t.Add(fmt.Sprintf("quiet, %d kpps", quietRate/1000), fmt.Sprint(quiet.up), fmt.Sprint(quiet.shed), quiet.percent())
	t.Add("flooded", fmt.Sprint(noisy.up), fmt.Sprint(noisy.shed), noisy.percent())
	t.Notes = []string{fmt.Sprintf("The handler takes %s for each packet of the flooded cube. The quiet cube was sent %d packets.", loudWork, sent)}
	lost := float64(sent) - float64(quiet.up)
	return t, []report.Check{report.AtMost("slow path, quiet cube beside a flooded one: packets lost", "%.0f", lost, 0)}, nil
}

func newPair(rig *lab.Rig) (*pair, error) {
	w, err := rig.NewWire(stations)
	if err != nil {
		return nil, err
	}
	p, loud, err := puntPlane(rig, w, cube.TypeXDPDRV)
	if err != nil {
		return nil, err
	}
	host := w.Machine.Host("quiet", "")
	still, err := p.Cube("punt", 1, nil)
	if err != nil {
		return nil, err
	}
	err = errors.Join(p.Netdev(still, 0, "quiet"), p.Commit())
	return &pair{wire: w, plane: p, host: host, loud: loud.ID, still: still.ID}, err
}

// press sends to both cubes for a while and returns how many packets the quiet one was sent.
func (p *pair) press(ctx context.Context, length time.Duration) (sent int, err error) {
	h := &counter{each: func(id uint16, _ *cube.PacketIn) {
		if datapath.CubeID(id) != p.loud {
			return
		}
		for start := time.Now(); time.Since(start) < loudWork; {
		}
	}}
	rd, err := p.plane.Read(ctx, h)
	if err != nil {
		return 0, err
	}
	loading, stop := context.WithTimeout(ctx, length)
	defer stop()
	var floodErr, loadErr error
	var wg sync.WaitGroup
	wg.Go(func() { floodErr = p.wire.Flood(loading) })
	wg.Go(func() { sent, loadErr = lab.Load(loading, p.host, quietRate, stations) })
	wg.Wait()
	_, err = rd.Stop()
	return sent, errors.Join(err, floodErr, loadErr)
}
