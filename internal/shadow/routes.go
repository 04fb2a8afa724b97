// SPDX-License-Identifier: Apache-2.0

package shadow

// The routes that programs in a cube's namespace add are kept in a table, and reported as differences of that table:
// after a lost message, or a change that the kernel does not report (it silently drops IPv4 routes when an interface
// goes down), a new listing reports what differs. A full Internet table is reported in batches.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// Times of the watch: the maximum time and the quiet time to collect changes before they are reported; and the delay
// from a sign that the table may be wrong to a new listing.
const (
	gather    = 100 * time.Millisecond
	quiet     = 10 * time.Millisecond
	relistIn  = 50 * time.Millisecond
	retryIn   = time.Second
	routesBuf = 32 << 20 // bytes of messages that the kernel may hold for us
)

// Told receives changes of a namespace's routes, like cube.RouteWatcher.
type Told func(changes []cube.RouteChange, complete bool)

// WatchRoutes starts reporting the routes of a cube's namespace, at first all of them. If it already does, it updates
// the cube's ports.
func (k *Keeper) WatchRoutes(c Cube, told Told) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.spaces[c.UUID]
	if s == nil {
		return
	}
	ports := map[int]string{}
	for _, port := range c.Ports {
		if e, ok := s.ends[InnerName(port)]; ok {
			ports[e.inner] = port
		}
	}
	if s.routes != nil {
		s.routes.name(ports)
		return
	}
	f, err := reopen(s.file)
	if err != nil {
		k.o.Logger.Error("routes of a cube's namespace are not monitored", "cube", s.cube, "err", err)
		return
	}
	ctx, cancel := context.WithCancel(k.ctx)
	w := &routeWatch{file: f, told: told, known: map[routeKey]route{}, ports: ports, renamed: make(chan map[int]string, 1), cancel: cancel}
	s.routes = w
	name := s.cube
	k.done.Go(func() {
		defer func() { _ = f.Close() }() // nothing was written
		if err := w.run(ctx); err != nil && ctx.Err() == nil {
			k.o.Logger.Error("routes of a cube's namespace are no longer monitored", "cube", name, "err", err)
		}
	})
}

// routeWatch follows the routes of one namespace.
type routeWatch struct {
	file    *os.File
	told    Told
	cancel  context.CancelFunc
	renamed chan map[int]string

	ports   map[int]string // by index of the interface
	known   map[routeKey]route
	changed map[routeKey]bool // since the last time
	begun   bool              // changes were reported
	relist  time.Time         // when to list again; zero for never
}

// name sets the ports of the watch.
func (w *routeWatch) name(ports map[int]string) {
	select {
	case <-w.renamed: // it has not been read
	default:
	}
	w.renamed <- ports
}

// batch is the result of reading the socket.
type batch struct {
	msgs []syscall.NetlinkMessage
	lost bool
	err  error
}

func (w *routeWatch) run(ctx context.Context) error {
	var s *nl.NetlinkSocket
	err := netdev.InNamespace(w.file, func() (err error) {
		s, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE, unix.RTNLGRP_LINK)
		return err
	})
	if err != nil {
		return fmt.Errorf("watch routes: subscribe: %w", err)
	}
	stop := context.AfterFunc(ctx, s.Close)
	defer stop()
	defer s.Close()
	if err := s.SetReceiveBufferSize(routesBuf, true); err != nil {
		if err := s.SetReceiveBufferSize(routesBuf, false); err != nil {
			return fmt.Errorf("watch routes: receive buffer: %w", err)
		}
	}
	in := make(chan batch, 64)
	go read(ctx, s, in)
	w.relist = time.Now()
	return w.follow(ctx, in)
}

// read passes on messages from a socket until it fails.
func read(ctx context.Context, s *nl.NetlinkSocket, in chan<- batch) {
	for {
		msgs, from, err := s.Receive()
		b := batch{msgs: msgs}
		switch {
		case errors.Is(err, unix.ENOBUFS):
			b.lost = true
		case errors.Is(err, unix.EINTR) || err == nil && from.Pid != nl.PidKernel: // any process may send to the socket
			continue
		case err != nil:
			b.err = err
		}
		select {
		case in <- b:
		case <-ctx.Done():
			return
		}
		if b.err != nil {
			return
		}
	}
}

// follow processes messages, and reports changes when they pause.
func (w *routeWatch) follow(ctx context.Context, in <-chan batch) error {
	w.changed = map[routeKey]bool{}
	var first time.Time // of the unreported changes
	for {
		wait, due := w.pause(first)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case w.ports = <-w.renamed:
			w.begun = false
			w.relist = time.Now()
		case b := <-in:
			if b.err != nil {
				timer.Stop()
				return fmt.Errorf("watch routes: %w", b.err)
			}
			w.take(b)
		case <-timer.C:
			if due {
				w.expire()
				first = time.Time{}
			}
		}
		timer.Stop()
		if len(w.changed) > 0 && first.IsZero() {
			first = time.Now()
		} else if !first.IsZero() && time.Since(first) > gather {
			w.reportChanges()
			first = time.Time{}
		}
	}
}

// pause is how long to wait if nothing arrives.
func (w *routeWatch) pause(first time.Time) (wait time.Duration, due bool) {
	switch {
	case !w.relist.IsZero():
		return max(0, time.Until(w.relist)), true
	case !first.IsZero():
		return quiet, true
	}
	return time.Hour, false
}

// expire lists the routes again if it is time to, and reports what has changed.
func (w *routeWatch) expire() {
	if !w.relist.IsZero() && time.Now().Before(w.relist) {
		return
	}
	if !w.relist.IsZero() {
		w.relist = time.Time{}
		if err := w.list(); err != nil {
			w.relist = time.Now().Add(retryIn)
			return
		}
	}
	w.reportChanges()
}

// scheduleListing schedules a new listing.
func (w *routeWatch) scheduleListing() {
	if w.relist.IsZero() {
		w.relist = time.Now().Add(relistIn)
	}
}

func (w *routeWatch) take(b batch) {
	if b.lost {
		w.scheduleListing()
	}
	for _, m := range b.msgs {
		switch m.Header.Type {
		case unix.RTM_NEWLINK, unix.RTM_DELLINK:
			// Routes over an interface that goes down are dropped silently.
			if len(m.Data) >= unix.SizeofIfInfomsg && nl.DeserializeIfInfomsg(m.Data).Flags&unix.IFF_UP == 0 || m.Header.Type == unix.RTM_DELLINK {
				w.scheduleListing()
			}
		case unix.RTM_NEWROUTE:
			if key, r, ok := parseRoute(m.Data); ok {
				w.set(key, r)
			}
		case unix.RTM_DELROUTE:
			if key, r, ok := parseRoute(m.Data); ok {
				w.delete(key, r)
			}
		}
	}
}

func (w *routeWatch) set(key routeKey, r route) {
	if old, ok := w.known[key]; ok && old.equal(r) {
		return
	}
	w.known[key] = r
	w.changed[key] = true
}

// delete removes a route. For an IPv6 route with several next hops, the kernel reports those that are deleted; if they
// do not match the known ones, only a listing helps.
func (w *routeWatch) delete(key routeKey, r route) {
	old, ok := w.known[key]
	switch {
	case !ok:
		return
	case old.equal(r) || len(r.hops) == 0:
		delete(w.known, key)
		w.changed[key] = true
	default:
		w.scheduleListing()
	}
}

// list reads all routes and records differences.
func (w *routeWatch) list() error {
	var now map[routeKey]route
	err := netdev.InNamespace(w.file, func() (err error) {
		now, err = netdev.Listed(func() (map[routeKey]route, error) {
			all := map[routeKey]route{}
			req := nl.NewNetlinkRequest(unix.RTM_GETROUTE, unix.NLM_F_DUMP)
			req.AddData(nl.NewRtMsg())
			err := req.ExecuteIter(unix.NETLINK_ROUTE, unix.RTM_NEWROUTE, func(m []byte) bool {
				if key, r, ok := parseRoute(m); ok {
					all[key] = r
				}
				return true
			})
			return all, err
		})
		return err
	})
	if errors.Is(err, netlink.ErrDumpInterrupted) {
		w.scheduleListing() // it changes faster than it can be read; use what was read for now
	} else if err != nil {
		return fmt.Errorf("routes: %w", err)
	}
	for key, r := range now {
		w.set(key, r)
	}
	for key := range w.known {
		if _, ok := now[key]; !ok {
			delete(w.known, key)
			w.changed[key] = true
		}
	}
	return nil
}

// reportChanges reports what has changed; the first time, everything.
func (w *routeWatch) reportChanges() {
	if !w.begun {
		w.changed = map[routeKey]bool{}
		for key := range w.known {
			w.changed[key] = true
		}
	}
	if w.begun && len(w.changed) == 0 {
		return
	}
	out := make([]cube.RouteChange, 0, len(w.changed))
	for _, key := range slices.SortedFunc(maps.Keys(w.changed), routeKey.compare) {
		told := cube.RouteChange{Route: cube.Route{Prefix: key.prefix, Metric: key.metric}, Deleted: true}
		if r, ok := w.known[key]; ok {
			if full, ok := w.translate(key, r); ok {
				told = cube.RouteChange{Route: full}
			}
		}
		if w.begun || !told.Deleted {
			out = append(out, told)
		}
	}
	complete := !w.begun
	w.begun, w.changed = true, map[routeKey]bool{}
	w.told(out, complete)
}
