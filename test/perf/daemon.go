// SPDX-License-Identifier: Apache-2.0

package perf

// The daemon: the time to the first packet, its memory, and the time of a restart.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// daemon is the part "daemon".
func daemon(ctx context.Context, r *Run) error {
	first, err := firstPacket(ctx, r)
	if err != nil {
		return fmt.Errorf("first packet: %w", err)
	}
	memory, starts, err := daemonMemory(ctx, r)
	if err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	restart, checks, err := restarts(ctx, r)
	if err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	checks = append(checks, report.AtMost("restart with 100 cubes: API back", "%.2f s", starts, 1))
	kinds, more, err := manyKinds(ctx, r)
	if err != nil {
		return fmt.Errorf("start with many cubes: %w", err)
	}
	checks = append(checks, more...)
	r.add(Section{Title: "The daemon", Text: daemonText, Tables: []*report.Table{first, memory, restart, kinds}}, checks...)
	return nil
}

const daemonText = "bin/polycubed and bin/polycubectl as installed, in a separate namespace, with persistence."

// bridgeBody is a simplebridge between the netdevs of a wire, as polycubectl reads it.
const bridgeBody = `{"type":%q,"ports":[{"name":"left","peer":"` + lab.In + `"},{"name":"right","peer":"` + lab.Out + `"}]}`

// firstPacket measures from the start of polycubectl to the first frame at the sink, under a
// trickle of frames that nothing forwards yet.
func firstPacket(ctx context.Context, r *Run) (*report.Table, error) {
	const rate = 10_000
	t := &report.Table{
		Title:   "From `polycubectl simplebridge add` to the first forwarded packet, ms",
		Columns: []string{"type", "first packet", "polycubectl returns"},
		Notes: []string{"One command creates the bridge with two ports and their netdevs. Frames are sent " +
			"every 0.1 ms throughout; the sink is checked every 0.2 ms."},
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		var packet, returned report.Sample
		rounds := r.rounds(11, 3)
		r.progress("daemon: first packet, %s, %d rounds", typ, rounds)
		err := lab.With(ctx, func(rig *lab.Rig) error {
			w, d, err := daemonOnWire(rig, r.bin())
			if err != nil {
				return err
			}
			loading, stop := context.WithCancel(rig.Context())
			var loadErr error
			var wg sync.WaitGroup
			wg.Go(func() { _, loadErr = lab.Load(loading, w.Left, rate, stations) })
			defer wg.Wait()
			defer stop()
			for range rounds {
				p, c, err := addAndWait(w, d, typ)
				if err != nil {
					return errors.Join(err, loadErr)
				}
				packet, returned = append(packet, p), append(returned, c)
				if _, err := d.Ctl("", "simplebridge", "del", "br1"); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		t.Add(string(typ), packet.Spread(1), returned.Spread(1))
	}
	return t, nil
}

// daemonOnWire starts a daemon between two hosts, with the sink at the right one.
func daemonOnWire(rig *lab.Rig, bin string) (*lab.Wire, *lab.Daemon, error) {
	w, err := rig.NewWire(stations)
	if err != nil {
		return nil, nil, err
	}
	if err := rig.Sink(w, cube.XDP); err != nil {
		return nil, nil, err
	}
	d, err := startDaemon(rig, bin, w)
	return w, d, err
}

// addAndWait creates the bridge and returns the times, in ms, to the first packet and to the end of the command.
func addAndWait(w *lab.Wire, d *lab.Daemon, typ cube.Type) (packet, returned float64, err error) {
	before, err := w.Counts()
	if err != nil {
		return 0, 0, err
	}
	done := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := d.Ctl(fmt.Sprintf(bridgeBody, typ), "simplebridge", "add", "br1")
		returned = ms(time.Since(start))
		done <- err
	}()
	for {
		now, err := w.Counts()
		if err != nil {
			return 0, 0, errors.Join(err, <-done)
		}
		if now.Received > before.Received {
			packet = ms(time.Since(start))
			break
		}
		if time.Since(start) > 10*time.Second {
			return 0, 0, errors.Join(errors.New("no packet came through within 10 s"), <-done)
		}
		time.Sleep(200 * time.Microsecond)
	}
	return packet, returned, <-done
}

// daemonMemory fills a daemon with cubes; starts is the time in s that it takes to start with the most.
func daemonMemory(ctx context.Context, r *Run) (t *report.Table, starts float64, err error) {
	t = &report.Table{
		Title:   "Memory by number of cubes, MB",
		Columns: []string{"cubes", "resident", "of which private", "maps in the kernel", "programs", "start, s"},
		Notes: []string{"simplebridges of type TC with two ports; each has a table of 4,096 addresses. The " +
			"kernel's part is the memory that /proc reports for the maps and programs that the daemon holds open. Start: from " +
			"exec to the first answer, with the cubes restored."},
	}
	for _, n := range []int{0, 1, 10, 100} {
		r.progress("daemon: memory with %d cubes", n)
		var times report.Sample
		var m lab.Memory
		err := lab.With(ctx, func(rig *lab.Rig) error {
			w, err := rig.NewWire(stations)
			if err != nil {
				return err
			}
			d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(r.Root, "bin"))
			if err != nil {
				return err
			}
			if _, err := d.Start(); err != nil {
				return err
			}
			for i := range n {
				body := fmt.Sprintf(`[{"service-name":"simplebridge","name":"b%d","ports":[{"name":"p1"},{"name":"p2"}]}]`, i)
				if err := d.Request("POST", "/cubes", body); err != nil {
					return err
				}
			}
			if m, err = d.Memory(); err != nil {
				return err
			}
			for range r.rounds(5, 1) {
				if err := d.Kill(); err != nil {
					return err
				}
				took, err := d.Start()
				if err != nil {
					return err
				}
				times = append(times, took.Seconds())
			}
			return nil
		})
		if err != nil {
			return nil, 0, fmt.Errorf("%d cubes: %w", n, err)
		}
		t.Add(fmt.Sprint(n), mb(m.Resident), mb(m.Private), mb(m.Maps), mb(m.Programs), times.Spread(2))
		starts = times.Median()
	}
	return t, starts, nil
}

func mb(bytes uint64) string { return fmt.Sprintf("%.1f", float64(bytes)/(1<<20)) }

// restarts kills the daemon and restarts it while its bridge forwards as much as one core can send.
func restarts(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	t := &report.Table{
		Title:   "kill -9 under full load, then start",
		Columns: []string{"type", "kills", "API back, s", "packets", "lost", "addresses kept"},
	}
	var checks []report.Check
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		kills := r.rounds(5, 2)
		r.progress("daemon: kill -9 under load, %s, %d times", typ, kills)
		var back report.Sample
		var packets, lost uint64
		kept := true
		err := lab.With(ctx, func(rig *lab.Rig) error {
			w, d, err := daemonOnWire(rig, r.bin())
			if err != nil {
				return err
			}
			if _, err := d.Ctl(fmt.Sprintf(bridgeBody, typ), "simplebridge", "add", "br1"); err != nil {
				return err
			}
			if err := w.Teach(stations); err != nil {
				return err
			}
			packets, lost, err = underLoad(rig.Context(), w, func() error {
				for range kills {
					if err := d.Kill(); err != nil {
						return err
					}
					took, err := d.Start()
					if err != nil {
						return err
					}
					back = append(back, took.Seconds())
				}
				return nil
			})
			if err != nil {
				return err
			}
			fdb, err := d.Ctl("", "br1", "show", "fdb", "-json")
			kept = strings.Count(fdb, `"address"`) == 2*stations
			return err
		})
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", typ, err)
		}
		answer := map[bool]string{true: "all", false: "not all"}[kept]
		t.Add(string(typ), fmt.Sprint(kills), back.Spread(2), fmt.Sprint(packets), fmt.Sprint(lost), answer)
		what := "kill -9 under load, " + string(typ)
		checks = append(checks, report.AtMost(what+": API back", "%.2f s", back.Median(), 1),
			report.AtMost(what+": packets lost", "%.0f", float64(lost), 0),
			report.Check{What: what + ": learned addresses", Promised: "all kept", Measured: answer, Pass: kept})
	}
	return t, checks, nil
}

// underLoad floods while fn runs, and returns how many frames arrived and were lost.
func underLoad(ctx context.Context, w *lab.Wire, fn func() error) (arrived, lost uint64, err error) {
	before, err := w.Settle()
	if err != nil {
		return 0, 0, err
	}
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var sendErr error
	var wg sync.WaitGroup
	wg.Go(func() { sendErr = w.Flood(sending) })
	err = fn()
	stop()
	wg.Wait()
	if err := errors.Join(err, sendErr); err != nil {
		return 0, 0, err
	}
	after, err := w.Settle()
	if err != nil {
		return 0, 0, err
	}
	arrived = after.Received - before.Received
	if arrived == 0 || after.Wrong > before.Wrong {
		return 0, 0, fmt.Errorf("%d frames arrived, %d changed: %w", arrived, after.Wrong-before.Wrong, cube.ErrInvalid)
	}
	return arrived, after.Sent - before.Sent - arrived, nil
}
