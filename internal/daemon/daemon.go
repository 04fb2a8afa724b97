// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/clang"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/rest"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/trace"
	"github.com/polycube/polycube/memory"
)

// shutdownTimeout bounds each step of stopping.
const shutdownTimeout = 10 * time.Second

// requestTimeout is how long requests in progress may take when the daemon stops.
const requestTimeout = 5 * time.Second

// watchRetry is how long the daemon waits before it watches network devices again.
const watchRetry = time.Second

// The history keeps at least this many revisions, unless the configuration files take more than that many bytes.
const (
	keepRevisions = 1000
	keepBytes     = 256 << 20
)

// daemon is a booting, running or stopping daemon.
type daemon struct {
	opts   Options
	parts  parts
	stdout io.Writer
	log    *slog.Logger
	file   *logFile

	store   *store.Store
	state   *store.State
	plane   plane
	manager *topology.Manager
	server  *rest.Server
	tokens  *access.Tokens
	tls     *access.TLS
	audit   *access.Audit
	// events are the daemon's events; began is its start time.
	events *events.Log
	began  time.Time
	level  *daemonLevel
	// pinsOn is the BPF file system of the pins, 0 if unknown.
	pinsOn uint64
	// started is true from the ready line on.
	started bool

	// undo are the functions that close the parts, in the order in which the parts were opened.
	undo []func() error
}

// brokenError ends a daemon that was not told to stop.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }

// step is one step of the start. It appends to undo what reverses it.
type step struct {
	what string
	run  func(context.Context) error
}

// run starts the daemon, serves until ctx ends or a listener fails, and closes everything in reverse. hup requests a
// new log file.
func run(ctx context.Context, o Options, p parts, stdout, stderr io.Writer, hup <-chan os.Signal) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	d := newDaemon(o, p, stdout)
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.openLog(stderr); err != nil {
		return err
	}
	for _, s := range d.boot(fail) {
		if ctx.Err() != nil {
			d.log.Info("stopped during start")
			return nil
		}
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
	}
	for {
		select {
		case <-hup:
			d.reload()
		case <-ctx.Done():
			d.log.Info("stopping", "cause", context.Cause(ctx))
			d.tell("STOPPING=1")
			var broken *brokenError
			if errors.As(context.Cause(ctx), &broken) {
				return broken.err
			}
			return nil
		}
	}
}

// openLog takes the instance's lock and opens its log, the first two steps.
func (d *daemon) openLog(stderr io.Writer) error {
	lock, err := lockInstance(d.opts.RunDir, d.opts.Instance)
	if err != nil {
		return err
	}
	d.undo = append(d.undo, lock.release)
	pid, err := takePidFile(d.opts.PidFile)
	if err != nil {
		return err
	}
	d.undo = append(d.undo, pid.remove)
	if d.file, err = openLog(d.opts.LogFile, stderr); err != nil {
		return err
	}
	d.undo = append(d.undo, d.file.Close)
	d.level = newDaemonLevel(d.opts.LogLevel)
	d.log = newLogger(d.file, d.level, d.opts.LogFormat)
	for _, w := range d.opts.Warnings {
		d.log.Warn(w)
	}
	return nil
}

// boot lists the steps in dependency order.
func (d *daemon) boot(fail context.CancelCauseFunc) []step {
	return []step{
		{"preparing the system", d.prepareSystem},
		{"opening the configuration", d.openStore},
		{"deciding who may come in", d.openAccess},
		{"opening the data plane", d.openPlane},
		{"restoring the cubes", d.openManager},
		{"starting the slow path", d.startSlowPath},
		{"watching network devices", d.startWatch},
		{"opening the API", func(ctx context.Context) error { return d.serve(ctx, fail) }},
		{"getting ready", d.ready},
	}
}

func (d *daemon) prepareSystem(context.Context) error {
	d.log.Info("starting", "version", Version, "instance", d.opts.Instance, "pid", os.Getpid())
	if err := raiseFileLimit(); err != nil {
		d.log.Warn("the limit of open files is low", "err", err)
	}
	d.undo = append(d.undo, background(memory.Watch))
	if err := d.parts.ensureBPFFS(d.opts.BPFFS); err != nil {
		return err
	}
	d.pinsOn, _ = pinsDevice(d.opts.BPFFS) // ensureBPFFS has looked
	if err := checkPinsPersist(d.opts.BPFFS, "/proc/1/root"); err != nil {
		d.log.Warn("traffic stops when the daemon stops", "err", err)
	}
	return nil
}

// openStore opens the configuration. It is in a directory whose name no instance can have, because an instance's state
// directory is within that of the main daemon.
func (d *daemon) openStore(context.Context) (err error) {
	if err := access.OwnDir(d.opts.StateDir); err != nil {
		return fmt.Errorf("state directory: %w", err)
	}
	d.store, d.state, err = store.Open(store.Options{Dir: storeDir(d.opts), Logger: d.log,
		KeepTransactions: keepRevisions, KeepBytes: keepBytes})
	if err == nil {
		d.undo = append(d.undo, d.store.Close)
	}
	return err
}

func storeDir(o Options) string { return filepath.Join(o.StateDir, "store.d") }

func (d *daemon) openPlane(context.Context) (err error) {
	d.plane, err = d.parts.openPlane(planeOptions{
		BPFFS: d.opts.BPFFS, Instance: d.opts.Instance, Logger: d.log, SegmentCubes: d.opts.SegmentCubes, Mounts: d.opts.Mounts,
		Relinked: d.relinked,
	})
	if err != nil {
		return err
	}
	d.undo = append(d.undo, func() error {
		// A failed start must not interrupt the traffic of the previous daemon.
		if d.started && d.opts.OnExit == ExitClean {
			return errors.Join(d.plane.Cleanup(), topology.ReleaseNetdevs(d.store.Records()))
		}
		return d.plane.Close()
	})
	return nil
}

func (d *daemon) openManager(context.Context) error {
	host, err := d.serviceHost()
	if err != nil {
		return err
	}
	d.manager, err = topology.New(topology.Options{
		Datapath: d.plane, Shadows: shadowsOf(d.plane), Store: d.store, State: d.state, Services: d.parts.services(), Logger: d.log, Version: Version,
		Events: d.events, Host: host, Compile: clang.New(clang.Options{
			RunDir: d.opts.RunDir, Hidden: []string{d.opts.StateDir, d.opts.RunDir, d.opts.BPFFS},
			Keep: filepath.Join(d.opts.StateDir, "objects"), Log: d.log}).Compile,
	})
	if err == nil {
		d.undo = append(d.undo, func() error {
			ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
			defer cancel()
			return d.manager.Close(ctx)
		})
	}
	return err
}

func (d *daemon) startSlowPath(ctx context.Context) error {
	stop, err := d.parts.startSlowPath(context.WithoutCancel(ctx), d.plane, d.manager, d.log)
	if err == nil {
		d.undo = append(d.undo, stop)
	}
	return err
}

// serve opens the listeners and serves them in the background.
func (d *daemon) serve(_ context.Context, fail context.CancelCauseFunc) error {
	listeners, err := d.listen()
	if err != nil {
		return err
	}
	drops := trace.NewDrops(d.manager, nil)
	d.undo = append(d.undo, background(drops.Run))
	options := d.apiOptions()
	options.Manager, options.Version, options.Logger, options.Drops, options.Trace = d.manager, Version, d.log, drops, d.openTrace()
	options.Observed = d.observed()
	d.server = rest.New(options)
	d.watchAccess()
	var done sync.WaitGroup
	for _, l := range listeners {
		d.log.Info("listening", "address", l.Addr().String())
		done.Go(func() {
			if err := d.server.Serve(l); err != nil {
				fail(&brokenError{err})
			}
		})
	}
	d.undo = append(d.undo, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		err := d.server.Shutdown(ctx)
		done.Wait()
		return err
	})
	return nil
}

// background runs fn until the returned function is called, which waits for its end.
func background(fn func(context.Context)) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { fn(ctx) })
	return func() error {
		cancel()
		done.Wait()
		return nil
	}
}

// reload handles SIGHUP. The service manager waits until it is done.
func (d *daemon) reload() {
	d.tell(reloading())
	if err := d.file.Reopen(); err != nil {
		d.log.Error("reopen the log", "err", err)
	}
	d.reloadAccess()
	d.tell("READY=1")
}

// ready notifies everything that waits for the daemon.
func (d *daemon) ready(context.Context) error {
	d.started = true
	d.logReady()
	d.undo = append(d.undo, d.startWatchdog())
	d.log.Info("polycubed ready", "cubes", len(d.manager.Cubes()))
	if _, err := fmt.Fprintln(d.stdout, "polycubed ready"); err != nil {
		d.log.Warn("write the ready line", "err", err)
	}
	d.tell("READY=1")
	if inBackground() {
		return releaseParent()
	}
	return nil
}

// tell notifies the service manager, if there is one.
func (d *daemon) tell(state string) {
	if err := notify(state); err != nil {
		d.log.Warn("notify the service manager", "err", err)
	}
}

// close closes everything in reverse. Every part is closed even if others fail.
func (d *daemon) close() error {
	var errs []error
	for _, undo := range slices.Backward(d.undo) {
		errs = append(errs, undo())
	}
	d.undo = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("stop: %w", err)
	}
	return nil
}

// cleanup removes everything that a stopped daemon left in the kernel and in its run directory. The configuration on
// disk stays.
func cleanup(o Options, p parts, stdout, stderr io.Writer) (err error) {
	lock, err := lockInstance(o.RunDir, o.Instance)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.release()) }()
	if err := p.ensureBPFFS(o.BPFFS); err != nil {
		return err
	}
	out, err := openLog("", stderr)
	if err != nil {
		return err
	}
	log := newLogger(out, o.LogLevel, o.LogFormat)
	plane, err := p.openPlane(planeOptions{BPFFS: o.BPFFS, Instance: o.Instance, Mounts: o.Mounts, Logger: log})
	if err != nil {
		return fmt.Errorf("open the data plane: %w", err)
	}
	if err := plane.Cleanup(); err != nil {
		return fmt.Errorf("remove everything from the kernel: %w", err)
	}
	if err := errors.Join(releaseNetdevs(o, log), removeSocket(o.Socket), removeSocket(o.ReadSocket), removePidFile(o.PidFile), removeEmpty(o.BPFFS)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "removed everything of polycubed%s from the kernel; its configuration is still in %s\n", describe(o.Instance), o.StateDir)
	return err
}

// releaseNetdevs restores the settings of the netdevs of stored ports. If nothing is stored, no port changed any.
func releaseNetdevs(o Options, log *slog.Logger) error {
	if _, err := os.Stat(storeDir(o)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, state, err := store.Open(store.Options{Dir: storeDir(o), Logger: log, KeepTransactions: keepRevisions, KeepBytes: keepBytes})
	if err != nil {
		return fmt.Errorf("addresses that ports added to netdevs stay, because the configuration cannot be read: %w", err)
	}
	return errors.Join(topology.ReleaseNetdevs(state.Records), s.Close())
}
