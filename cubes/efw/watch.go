// SPDX-License-Identifier: Apache-2.0

package efw

// Watches the host: at the first sign of a change the gate closes; then the rules are read and compiled again. Tables of
// iptables-legacy send no notifications: poll.go detects their changes.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/offload"
)

// How often state without notifications, whose changes may be detected late, is compared; and how long reading the host may take.
const (
	slowPeriod = 500 * time.Millisecond
	// confirmAfter is when rules of iptables-legacy are read once more after a change: one that was undone while they were read
	// leaves no trace in their comparison.
	confirmAfter = time.Second
	readTimeout  = 10 * time.Second
	listenPause  = 100 * time.Millisecond
)

// announcements are the netlink groups that notify of changes relevant to package offload.
var announcements = []struct {
	what     string
	protocol int
	groups   []uint
}{
	{"nftables", unix.NETLINK_NETFILTER, []uint{unix.NFNLGRP_NFTABLES}},
	{"netdevs, filters or their settings", unix.NETLINK_ROUTE, []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_TC, unix.RTNLGRP_IPV4_NETCONF, unix.RTNLGRP_IPV6_NETCONF}},
	{"xfrm policies", unix.NETLINK_XFRM, []uint{4}}, // XFRMNLGRP_POLICY
}

// watch follows the host for one cube.
type watch struct {
	e         *efw
	cancel    context.CancelFunc // nil before start
	listeners sync.WaitGroup
	dirty     chan struct{}
	socks     []*nl.NetlinkSocket
	// legacy notifies of changes of iptables-legacy; nil while nothing is to be offloaded. The worker owns it.
	legacy *subscriber

	mu       sync.Mutex
	last     time.Time     // of the last change
	withdrew time.Duration // how long it took to close the gate then
}

func newWatch(e *efw) *watch { return &watch{e: e, dirty: make(chan struct{}, 1)} }

// start starts watching unless it is running. It is called while holding the cube's turn.
func (w *watch) start() error {
	if w.cancel != nil {
		return nil
	}
	for _, a := range announcements {
		s, err := nl.Subscribe(a.protocol, a.groups...)
		if err != nil {
			w.closeSockets()
			return fmt.Errorf("follow %s: %w", a.what, err)
		}
		w.socks = append(w.socks, s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	for i, s := range w.socks {
		w.listeners.Go(func() { w.listen(ctx, s, announcements[i].what) })
	}
	go w.work(ctx)
	return nil
}

// stop stops watching. It does not wait for the worker, which may be waiting for the cube's turn.
func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
		w.closeSockets()
		w.listeners.Wait()
	}
}

func (w *watch) closeSockets() {
	for _, s := range w.socks {
		s.Close()
	}
	w.socks = nil
}

// listen treats each message as a change, and lost messages as well.
func (w *watch) listen(ctx context.Context, s *nl.NetlinkSocket, what string) {
	for {
		_, _, err := s.Receive()
		if ctx.Err() != nil {
			return
		}
		w.note(what)
		if err != nil && !errors.Is(err, unix.ENOBUFS) {
			w.e.gate.fail(fmt.Errorf("follow %s: %w", what, err))
			time.Sleep(listenPause) // an error that stays must not keep a CPU busy
		}
	}
}

// note closes the gate, and triggers a compilation of the rules.
func (w *watch) note(what string) {
	took, err := w.e.gate.noted()
	if err != nil && !errors.Is(err, cube.ErrNotFound) {
		w.e.env.Logger().Error("close the gate", "change", what, "error", err)
	}
	w.mu.Lock()
	w.last, w.withdrew = time.Now(), took
	w.mu.Unlock()
	select {
	case w.dirty <- struct{}{}:
	default:
	}
}

// state returns when the last change was, and how long it took to close the gate.
func (w *watch) state() (time.Time, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last, w.withdrew
}

// work compiles the rules after each change, and polls for changes without notification.
func (w *watch) work(ctx context.Context) {
	slow := time.NewTicker(slowPeriod)
	defer slow.Stop()
	defer func() { _ = w.follow(ctx, false) }()
	was := "" // compile the rules in any case
	var confirm <-chan time.Time
	look := func() (now string) {
		_ = w.e.visit(func() error { now = slowFingerprint(); return nil })
		return now
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-slow.C:
			if w.legacy == nil && was != "" {
				continue // nothing is offloaded
			}
			if now := look(); now != was {
				was = now
				w.note("connection tracking")
			}
		case <-confirm:
			confirm = nil
			was = w.recompile(ctx, look(), nil)
		case <-w.dirty:
			was = w.recompile(ctx, look(), &confirm)
		}
	}
}

// recompile compiles the rules, and returns the fingerprint for which that was, empty to retry later. It sets the time when rules of
// iptables-legacy are to be confirmed.
func (w *watch) recompile(ctx context.Context, was string, confirm *<-chan time.Time) string {
	legacy, err := w.compile(ctx)
	if err != nil && ctx.Err() == nil {
		w.e.gate.fail(err)
		w.e.env.Logger().Error("offload the host's rules", "error", err)
		was = ""
	}
	if legacy && confirm != nil {
		*confirm = time.After(confirmAfter)
	}
	return was
}

// follow starts or stops watching iptables-legacy.
func (w *watch) follow(ctx context.Context, wanted bool) error {
	if wanted == (w.legacy != nil) {
		return nil
	}
	if !wanted {
		err := w.legacy.close()
		w.legacy = nil
		return err
	}
	s, err := followLegacy(w.e.visit)
	if err != nil {
		return fmt.Errorf("follow iptables-legacy: %w", err)
	}
	w.legacy = s
	if err := swapless(); err != nil {
		w.e.env.Logger().Info("tables of iptables-legacy are compared periodically", "period", legacyPeriod, "reason", err)
	}
	go func() {
		for range s.changes {
			if ctx.Err() == nil {
				w.note("iptables-legacy")
			}
		}
	}()
	return nil
}

// compile reads and compiles the rules, and opens the gate, unless the host has changed in between. legacy: verdicts depend on rules
// of iptables-legacy.
func (w *watch) compile(ctx context.Context) (legacy bool, err error) {
	begun := time.Now()
	seen := w.e.gate.seen()
	var parent cube.Parent
	var config Config
	if err := w.e.env.Do(func() {
		parent = w.e.parent
		if w.e.config != nil {
			config = *w.e.config
		}
	}); err != nil {
		return false, err // the cube is closed
	}
	if err := w.follow(ctx, config.Offload); err != nil {
		return false, err
	}
	if !config.Offload {
		return false, w.put(seen, &compiled{}, gateEntry{}, begun)
	}
	w.legacy.changed() // what is read is compared with this
	hosts, err := w.e.readHosts(ctx, parent, config.Outputs)
	if err != nil {
		return false, err
	}
	if w.legacy.changed() {
		return false, nil // it comes again
	}
	c := compile(hosts)
	is := gateEntry{}
	copy(is.MAC[:], parent.MAC)
	is.Flags, is.UDPTimeout = c.tracked, c.udpTimeout
	judges := c.judges()
	if judges {
		if err := w.legacy.depend(true); err != nil { // before the gate opens
			return false, err
		}
	}
	legacy = judges && slices.ContainsFunc(hosts[:], func(h *offload.Host) bool { return h.Legacy != nil })
	return legacy, errors.Join(w.put(seen, c, is, begun), w.legacy.depend(judges))
}

// put puts compiled rules into effect.
func (w *watch) put(seen uint64, c *compiled, is gateEntry, begun time.Time) (err error) {
	o := w.e.rules
	for f := range c.programs {
		for h := range c.programs[f] {
			if c.programs[f][h] == nil {
				c.programs[f][h] = &offload.Program{}
			}
		}
	}
	if failed := w.e.env.Do(func() {
		if err = w.e.gate.shut(); err != nil {
			return
		}
		if err = o.put(c); err != nil {
			return
		}
		if w.e.config.Offload {
			_, err = w.e.gate.open(seen, is)
		}
		o.took = time.Since(begun)
	}); failed != nil {
		return failed // the cube is closed
	}
	return err
}
