// SPDX-License-Identifier: Apache-2.0

package perf

// Whether a cube that floods the slow path starves another one.

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/slowpath"
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
	host        *netns.Node // after the quiet cube
	loud, still datapath.CubeID
}

// ups are packets that were received in user space and that were shed.
type ups struct{ up, shed uint64 }

func (u ups) percent() string { return fmt.Sprintf("%.1f", 100*float64(u.shed)/float64(u.up+u.shed)) }

// fairness floods one cube, whose handler is too slow, together with one that gets few packets.
func fairness(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	length := 3 * time.Second
	if r.Quick {
		length = 500 * time.Millisecond
	}
	var quiet, noisy ups
	var m *mail
	var sent int
	err := lab.With(ctx, func(rig *lab.Rig) error {
		p, err := newPair(rig)
		if err != nil {
			return err
		}
		if sent, m, err = p.press(rig.Context(), length); err != nil {
			return err
		}
		var stillErr, loudErr error
		quiet.up, quiet.shed, stillErr = fates(p.plane, p.still)
		noisy.up, noisy.shed, loudErr = fates(p.plane, p.loud)
		noisy.up, noisy.shed = noisy.up-m.full, noisy.shed+m.full
		return errors.Join(stillErr, loudErr)
	})
	if err != nil {
		return nil, nil, err
	}
	delays := m.delays
	if noisy.shed == 0 {
		return nil, nil, errors.New("the flooded cube lost nothing, so this shows nothing")
	}
	t := &report.Table{Title: "A quiet cube and a flooded one", Columns: []string{"", "packets handled", "shed", "shed %", "until handled: p50, ms", "p99, ms"}}
	t.Add(fmt.Sprintf("quiet, %d kpps", quietRate/1000), fmt.Sprint(quiet.up), fmt.Sprint(quiet.shed), quiet.percent(),
		fmt.Sprintf("%.2f", delays.Median()), fmt.Sprintf("%.2f", delays.Quantile(0.99)))
	t.Add("flooded", fmt.Sprint(noisy.up), fmt.Sprint(noisy.shed), noisy.percent())
	t.Notes = []string{fmt.Sprintf("Each cube has a bounded queue and a separate handler, as in the daemon; that of the flooded one takes %s per packet. Packets that do not fit the ring or the queue are shed. The quiet cube was sent %d packets.", loudWork, sent)}
	lost := float64(sent - len(delays))
	const what = "slow path, quiet cube next to a flooded one: "
	return t, []report.Check{
		report.AtMost(what+"packets lost", "%.0f", lost, 0),
		report.AtLeast(what+"share of its rate", "%.1f %%", 100*float64(len(delays))/float64(sent), 90),
		report.AtMost(what+"p99 until handled", "%.2f ms", delays.Quantile(0.99), 5),
	}, nil
}

func newPair(rig *lab.Rig) (*pair, error) {
	w, err := rig.NewWire(stations)
	if err != nil {
		return nil, err
	}
	p, loud, err := slowPlane(rig, w, cube.TypeXDPDRV, "punt", nil)
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

// press sends to both cubes for a while and returns how many packets the quiet one was sent, and their results.
func (p *pair) press(ctx context.Context, length time.Duration) (sent int, m *mail, err error) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	slowpath.SpareThreads() // as the daemon does
	m = newMail(p.loud)
	rd, err := p.plane.Read(ctx, &counter{each: m.offer})
	if err != nil {
		return 0, nil, err
	}
	loading, stop := context.WithTimeout(ctx, length)
	defer stop()
	var floodErr, loadErr error
	var wg sync.WaitGroup
	wg.Go(func() { floodErr = p.wire.Flood(loading) })
	wg.Go(func() { sent, loadErr = lab.Load(loading, p.host, quietRate, stations) })
	wg.Wait()
	_, err = rd.Stop()
	m.end()
	return sent, m, errors.Join(err, floodErr, loadErr)
}

// mail replaces the daemon's: a bounded queue and a handler for each cube, so that the reader of the ring waits for
// none.
type mail struct {
	loud         datapath.CubeID
	flood, quiet chan [32]byte
	full         uint64        // packets that the flooded cube's queue had no room for
	delays       report.Sample // in ms, of the quiet cube's packets
	handlers     sync.WaitGroup
}

// The limit of a queue, and how many packets a handler processes before it checks whether its turn is over.
const (
	mailPackets = 4096
	mailTurn    = 64
)

func newMail(loud datapath.CubeID) *mail {
	m := &mail{loud: loud, flood: make(chan [32]byte, mailPackets), quiet: make(chan [32]byte, mailPackets)}
	m.handlers.Go(func() {
		var slice slowpath.TimeSlice
		n := 0
		for range m.flood {
			for start := time.Now(); time.Since(start) < loudWork; {
			}
			if n++; n%mailTurn == 0 {
				slice.Next()
			}
		}
	})
	m.handlers.Go(func() {
		for frame := range m.quiet {
			m.delays = append(m.delays, ms(lab.Since(frame[:])))
		}
	})
	return m
}

// offer queues a packet; it never waits.
func (m *mail) offer(id uint16, in *cube.PacketIn) {
	queue := m.quiet
	if datapath.CubeID(id) == m.loud {
		queue = m.flood
	}
	select {
	case queue <- [32]byte(in.Data):
	default:
		if queue == m.flood {
			m.full++
		}
	}
}

// end waits for the handlers.
func (m *mail) end() {
	close(m.flood)
	close(m.quiet)
	m.handlers.Wait()
}
