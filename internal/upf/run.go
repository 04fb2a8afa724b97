// SPDX-License-Identifier: Apache-2.0

// Package upf is the program polycube-upf: it connects N4 of a mobile core to the tables of a cube `upf`.
package upf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/internal/sidecar"
	"github.com/polycube/polycube/pdusession"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 64
)

// Main runs polycube-upf with its command-line arguments and returns the exit status.
func Main(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	o, command, err := ParseOptions(args, stdout)
	var wrong usageError
	switch {
	case errors.Is(err, errShown):
		return exitOK
	case errors.As(err, &wrong):
		fmt.Fprintf(stderr, "polycube-upf: %v (see polycube-upf --help)\n", err)
		return exitUsage
	case command == commandLeave:
		err = sidecar.Command(ctx, "polycube-upf", o.Control, commandLeave)
	case command == commandStatus:
		err = sidecar.Show(ctx, "polycube-upf", o.Control, o.JSON, stdout, table)
	case o.CheckConfig:
		_, err = fmt.Fprintln(stdout, "the options are valid")
	default:
		err = run(ctx, o, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "polycube-upf: %v\n", err)
		return exitFailed
	}
	return exitOK
}

// program is a run.
type program struct {
	options Options
	daemon  *daemon
	log     *slog.Logger

	mu     sync.Mutex
	server *n4.Server // the active server; nil if there is none
}

// run runs until the context ends. When the cube is removed, it waits for a new one of that name, and installs all sessions in it.
func run(ctx context.Context, o Options, stderr io.Writer) error {
	p := &program{options: o, daemon: newDaemon(o.Socket), log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.Severity}))}
	unlock, err := lock(o.StateDir)
	if err != nil {
		return err
	}
	defer unlock()
	end, err := p.observed().Serve(o.Control, o.Metrics)
	if err != nil {
		return err
	}
	defer end()
	find := func(ctx context.Context) (cubeState, error) { return p.daemon.cube(ctx, o.Cube) }
	return sidecar.Run(ctx, p.log, o.Cube, find, p.serve)
}

// lock ensures that only one process writes the sessions.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state directory: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("another polycube-upf is using %s: %w", dir, err)
	}
	return func() { _ = f.Close() }, nil
}

// look is how often the program checks that its cube still exists.
const look = time.Second

// serve serves as long as the cube exists.
func (p *program) serve(ctx context.Context, is cubeState) (err error) {
	dir := filepath.Join(p.options.BPFFS, "cubes", is.UUID)
	tables, err := pdusession.Open(dir)
	if err != nil {
		return fmt.Errorf("cube %s: %w", p.options.Cube, err)
	}
	defer func() { err = errors.Join(err, tables.Close()) }()
	plane := newPlane(p.daemon, p.options.Cube, tables, is, p.log)
	server, err := n4.New(p.options.n4(p.log), plane)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if err := p.install(server, plane); err != nil {
		stop()
		return errors.Join(err, server.Run(ctx)) // which closes it
	}
	var group sync.WaitGroup
	group.Go(func() { plane.mark(ctx) })
	group.Go(func() {
		if err := tables.Notices(ctx, server.Notice); err != nil {
			p.log.Error("read notices", "error", err)
			stop()
		}
	})
	group.Go(func() {
		p.watch(ctx, plane, is.UUID)
		stop()
	})
	p.serves(server)
	p.log.Info("serving N4", "address", server.Addr(), "cube", p.options.Cube)
	err = server.Run(ctx)
	p.serves(nil)
	stop()
	group.Wait()
	return err
}

// serving returns the server that serves now; nil if none does.
func (p *program) serving() *n4.Server {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.server
}

func (p *program) serves(s *n4.Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = s
}

// install adopts the stored sessions that the tables already have, and reinstalls those that are missing.
func (p *program) install(server *n4.Server, plane *plane) error {
	var all []*pdusession.Rows
	by := map[*pdusession.Rows]n4.Installed{}
	for is, err := range server.Sessions() {
		if err != nil {
			return fmt.Errorf("stored session %d: %w", is.ID, err)
		}
		all = append(all, is.Rows)
		by[is.Rows] = is
	}
	missing, removed, err := plane.Adopt(all)
	if err != nil {
		return err
	}
	for _, rows := range missing {
		is := by[rows]
		batch := plane.Tables.Begin()
		now, err := batch.Put(nil, is.Session)
		if err == nil {
			_, err = batch.Commit()
		}
		if err == nil {
			err = server.Reinstalled(is.ID, now)
		}
		if err != nil {
			return fmt.Errorf("reinstall session %d: %w", is.ID, err)
		}
	}
	p.log.Info("sessions", "kept", len(all)-len(missing), "reinstalled", len(missing), "stale keys removed", removed)
	return nil
}

// watch returns when the cube was removed or replaced. An unresponsive daemon changes nothing.
func (p *program) watch(ctx context.Context, plane *plane, uuid string) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is, err := p.daemon.cube(ctx, p.options.Cube)
		switch {
		case errors.Is(err, errNoCube), err == nil && is.UUID != uuid:
			p.log.Warn("the cube was removed", "cube", p.options.Cube)
			return
		case err == nil && !plane.Current():
			p.log.Warn("the tables of the cube were replaced", "cube", p.options.Cube)
			return
		case err == nil:
			plane.know(is)
		}
	}
}

// n4 is the configuration of N4.
func (o *Options) n4(log *slog.Logger) n4.Config {
	c := n4.Config{
		Address: o.Listen, NodeID: o.NodeID, Peers: o.Peers, Allowed: o.From, Instances: o.Networks, GuaranteedKbps: o.GBR,
		T1: o.T1, N1: o.N1, Heartbeat: o.Heartbeat, Store: filepath.Join(o.StateDir, "sessions.db"), Log: log,
	}
	for _, prefix := range o.Prefixes {
		c.Pools = append(c.Pools, n4.Pool{Prefix: prefix})
	}
	return c
}
