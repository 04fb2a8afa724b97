// SPDX-License-Identifier: Apache-2.0

// Package inspect is the program polycube-ndpi: it classifies the flows of a cube `edpi` with nDPI. It is a process of its own:
// what a packet does to nDPI ends this process at worst.
package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/internal/ndpi"
	"github.com/polycube/polycube/internal/sidecar"
	"github.com/polycube/polycube/ring"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

const (
	// look is how often the program checks that its cube still exists.
	look = time.Second
	// The program says how far it is several times in the cube's classifier-timeout. That is at least 250 ms and may be shortened at any
	// time, which the program learns within a second: until then, the longest interval has to do. It is no shorter, because waking
	// up is what takes time while there is nothing to inspect.
	beatsInTimeout  = 5
	longestInterval = 100 * time.Millisecond
	// sweepInterval is how often silent flows are looked for, and flows that have ended read.
	sweepInterval = 200 * time.Millisecond
)

// Main runs polycube-ndpi with the words of its command line and returns the exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	o, word, err := ParseOptions(args, stdout)
	var wrong usageError
	switch {
	case errors.Is(err, errShown):
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "polycube-ndpi: %v (see polycube-ndpi --help)\n", err)
		return exitUsage
	case word == "status":
		err = sidecar.Show(ctx, "polycube-ndpi", o.Control, o.JSON, stdout, printed)
	case word == "list" || o.CheckConfig:
		err = check(o, word == "list", stdout)
	default:
		err = run(ctx, o, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "polycube-ndpi: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// check loads the files, and lists names or says that all is well.
func check(o Options, list bool, stdout io.Writer) error {
	m, err := ndpi.New(o.Protocols, o.Categories)
	if err != nil {
		return err
	}
	defer m.Close()
	if !list {
		_, err := fmt.Fprintln(stdout, "the options are valid")
		return err
	}
	for row, name := range m.Names() {
		kind := "PROTOCOL"
		if row >= dpi.Protocols {
			kind = "CATEGORY"
		}
		if name != (dpi.Name{}) {
			fmt.Fprintf(stdout, "%s %s\n", kind, name)
		}
	}
	return nil
}

// program is a run.
type program struct {
	options Options
	daemon  *sidecar.Daemon
	log     *slog.Logger
	module  *ndpi.Module
	names   *[dpi.Names]dpi.Name
	events  *logFile  // nil: no log
	flows   *exporter // nil: no IPFIX
	counts  Counts

	mu     sync.Mutex // guards what follows
	ended  uint64     // flows
	worker *worker    // nil: there is no cube
	reader *ring.Reader
}

// run runs until the context ends. When the cube is removed, it waits for the next one of that name.
func run(ctx context.Context, o Options, stderr io.Writer) (err error) {
	p := &program{options: o, daemon: sidecar.NewDaemon(o.Socket), log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.Severity}))}
	if p.module, err = ndpi.New(o.Protocols, o.Categories); err != nil {
		return err
	}
	defer p.module.Close()
	p.names = p.module.Names()
	if o.Log != "" {
		if p.events, err = openLog(o.Log, p.log); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.events.close()) }()
		defer p.rotate()()
	}
	if o.IPFIX != "" {
		if p.flows, err = newExporter(o.IPFIX, o.Domain); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.flows.close(time.Now())) }()
	}
	end, err := p.observed().Serve(o.Control, o.Metrics)
	if err != nil {
		return err
	}
	defer end()
	find := func(ctx context.Context) (uuid string, err error) {
		err = p.daemon.Read(ctx, "edpi", o.Cube, "uuid", &uuid)
		return uuid, err
	}
	return sidecar.Run(ctx, p.log, o.Cube, find, p.serve)
}

// serve classifies as long as the cube exists.
func (p *program) serve(ctx context.Context, uuid string) (err error) {
	tables, err := dpi.Open(filepath.Join(p.options.BPFFS, "cubes", uuid))
	if err != nil {
		return fmt.Errorf("cube %s: %w", p.options.Cube, err)
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	w := newWorker(p.module, tables, p.options.Packets, p.options.Flows, &p.counts, p.risk)
	defer w.close()
	if err := p.follow(ctx, w); err != nil {
		return err
	}
	if err := tables.Announce("nDPI "+ndpi.Version(), p.names); err != nil {
		return fmt.Errorf("cube %s: %w", p.options.Cube, err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.serves(w, tables.Packets)
	defer p.serves(nil, nil)
	// Packets that came while nobody read belong to flows of which the first packets may be missing; they are read all the same.
	var group sync.WaitGroup
	group.Go(func() { p.every(ctx, sweepInterval, func() { p.sweep(w, tables) }) })
	group.Go(func() {
		p.watch(ctx, tables, w, uuid)
		stop()
	})
	p.log.Info("classifying", "cube", p.options.Cube, "ndpi", ndpi.Version())
	// The goroutine that reads also says how far it is: it falls silent if a packet holds it up.
	err = tables.Packets.RunBatches(ctx, ring.Batches{Packet: w.take, Done: w.work, Tick: func() time.Duration { return beat(w, tables) }})
	stop()
	group.Wait()
	if errors.Is(err, ring.ErrTaken) {
		return fmt.Errorf("cube %s: another process is now classifying its flows", p.options.Cube)
	}
	return err
}

func (p *program) serves(w *worker, r *ring.Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.worker, p.reader = w, r
}

// every calls a function periodically until the context ends.
func (p *program) every(ctx context.Context, period time.Duration, call func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			call()
		}
	}
}

// beat tells programs how far this one is. It returns when to do that again.
func beat(w *worker, tables *dpi.Tables) time.Duration {
	if now, err := cube.Time(); err == nil {
		tables.Beat(uint64(w.beat(time.Duration(now), tables.Packets.Used() == 0)))
	}
	return time.Duration(w.interval.Load())
}

// follow takes over what the cube's configuration says.
func (p *program) follow(ctx context.Context, w *worker) error {
	var packets int
	var timeout int64
	err := p.daemon.Read(ctx, "edpi", p.options.Cube, "inspect-packets", &packets)
	if err == nil {
		err = p.daemon.Read(ctx, "edpi", p.options.Cube, "classifier-timeout", &timeout)
	}
	if err != nil {
		return err
	}
	w.setLimit(min(packets, p.options.Packets))
	w.interval.Store(int64(min(longestInterval, time.Duration(timeout)*time.Millisecond/beatsInTimeout)))
	return nil
}

// sweep decides silent flows, and logs those that have ended.
func (p *program) sweep(w *worker, tables *dpi.Tables) {
	now, err := cube.Time()
	if err != nil {
		return
	}
	w.sweep(time.Duration(now))
	for {
		e, ok, err := tables.NextEnded()
		if err != nil || !ok {
			break
		}
		r := record{details: w.ended(&e), Ended: e}
		p.over(&r)
	}
	if p.flows != nil {
		p.flows.flush(time.Now())
	}
}

// over logs a flow that has ended.
func (p *program) over(r *record) {
	c := r.Flow.Class
	if r.Flow.Flags&dpi.Decided != 0 {
		r.protocol, r.category = p.names[c.ProtocolRow()].String(), p.names[c.CategoryRow()].String()
		if c.Master != 0 && c.Master <= dpi.LastProtocol {
			r.carrier = p.names[c.Master].String()
		}
	}
	if p.events != nil {
		p.events.put(r.flowEvent())
	}
	if p.flows != nil {
		p.flows.add(r, time.Now())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended++
}

// risk logs risks of a flow.
func (p *program) risk(k *known, fresh uint64, _ time.Duration) {
	if p.events == nil {
		return
	}
	e := endpoints(k.key, k.reverse)
	e.Timestamp, e.FlowID, e.Type = time.Now().Format(eveTime), k.id, "anomaly"
	e.NDPI = &ndpiLog{Protocol: p.names[k.class.ProtocolRow()].String(), Category: p.names[k.class.CategoryRow()].String(), Host: k.host}
	for _, name := range risks(fresh) {
		each := e
		each.Anomaly = &anomaly{"ndpi", name}
		p.events.put(each)
	}
}

// watch returns when the cube is not the same any more, and follows its configuration. A daemon that does not answer changes nothing.
func (p *program) watch(ctx context.Context, tables *dpi.Tables, w *worker, uuid string) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	p.every(ctx, look, func() {
		var is string
		err := p.daemon.Read(ctx, "edpi", p.options.Cube, "uuid", &is)
		switch {
		case errors.Is(err, sidecar.ErrNoCube), err == nil && is != uuid:
			p.log.Warn("the cube was removed", "cube", p.options.Cube)
			stop()
			return
		case err == nil && !tables.Current():
			p.log.Warn("the cube's tables were replaced", "cube", p.options.Cube)
			stop()
			return
		}
		if err == nil {
			_ = p.follow(ctx, w) // the next time
		}
	})
}
