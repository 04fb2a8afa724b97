// SPDX-License-Identifier: Apache-2.0

package dpi

// Chains of a firewall and a classifier, set up between the hosts.

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
)

// Names of the chains.
const (
	aloneRules = "iptables alone"
	queued     = "iptables + nDPI, NFQUEUE"
	queuedMark = "iptables + nDPI, NFQUEUE, bypassed by connmark"
	copied     = "iptables + nDPI, AF_PACKET"
	copiedEFW  = "efw, tcx + nDPI, AF_PACKET"
	copiedNext = "iptables + nDPI, AF_PACKET on the next machine"
	nextEFW    = "efw, XDP + nDPI, AF_PACKET on the next machine"
	efwAlone   = "efw alone, XDP"
	chainXDP   = "efw + edpi, XDP"
	chainTCX   = "efw + edpi, tcx"
)

// room is for flows of all rounds: they stay for a minute.
const room = 1 << 18

// classifier is what looks at packets beside the fast path, or behind it.
type classifier interface {
	// pids are the processes that take part.
	pids() []int
	// settled waits until so many packets are counted in all, and all copies handled.
	settled(packets uint64) error
	// seen is what was seen so far.
	seen() (seen, error)
}

// seen is what a classifier has counted.
type seen struct {
	packets, inspected, flows, classified uint64
}

func (s seen) plus(t seen) seen {
	return seen{s.packets + t.packets, s.inspected + t.inspected, s.flows + t.flows, s.classified + t.classified}
}

func (s seen) minus(t seen) seen {
	return seen{s.packets - t.packets, s.inspected - t.inspected, s.flows - t.flows, s.classified - t.classified}
}

// chain is one way to filter and classify.
type chain struct {
	name string
	efw  cube.Type // none: the rules of iptables alone
	// classify starts a classifier; nil: there is none. d is nil without efw.
	classify func(rig *lab.Rig, w *lab.Filtered, d *lab.Daemon) (classifier, error)
	// partial is whether the classifier does not see all packets.
	partial bool
	// next is whether the classifier is on the machine that packets go to.
	next bool
}

var chains = []chain{
	{name: contest.Generator},
	{name: aloneRules},
	{name: queued, classify: inQueue(false)},
	{name: queuedMark, classify: inQueue(true), partial: true},
	{name: copied, classify: inRing},
	{name: copiedNext, classify: inNextRing, next: true},
	{name: copiedEFW, efw: cube.TypeTC, classify: inRing},
	{name: nextEFW, efw: cube.TypeXDPDRV, classify: inNextRing, next: true},
	{name: efwAlone, efw: cube.TypeXDPDRV},
	{name: chainXDP, efw: cube.TypeXDPDRV, classify: byCube(cube.TypeXDPDRV)},
	{name: chainTCX, efw: cube.TypeTC, classify: byCube(cube.TypeTC)},
}

// setup makes the machine between the hosts.
func (c chain) setup(rig *lab.Rig, b *contest.Bench) (*lab.Filtered, classifier, error) {
	var opts []netns.Option
	if c.next {
		opts = append(opts, netns.WithGRO())
	}
	w, err := rig.NewFiltered(opts...)
	if err != nil {
		return nil, nil, err
	}
	sinks := w.Sinks
	if c.next {
		sinks = w.SinkBehindTaps
	}
	if err := sinks(rig); err != nil || c.name == contest.Generator {
		return w, nil, errors.Join(err, w.DiscardFrom(rig, netip.MustParsePrefix("0.0.0.0/0")))
	}
	if err := errors.Join(w.Route(), allow(w)); err != nil {
		return nil, nil, err
	}
	var d *lab.Daemon
	if c.efw != "" {
		if d, err = fast(rig, b, w, c.efw); err != nil {
			return nil, nil, err
		}
	}
	if c.classify == nil {
		return w, nil, nil
	}
	of, err := c.classify(rig, w, d)
	return w, of, err
}

// allow loads the rules of the firewall: those of the flows are the last ones.
func allow(w *lab.Filtered) error {
	var rules strings.Builder
	rules.WriteString("*filter\n:INPUT ACCEPT\n:FORWARD DROP\n:OUTPUT ACCEPT\n")
	for _, port := range []int{22, 25, 53, 80, 110, 143, 443, 993} {
		fmt.Fprintf(&rules, "-A FORWARD -p tcp --dport %d -j ACCEPT\n", port)
	}
	for _, port := range []uint16{elephants.Port, mice.Port} {
		fmt.Fprintf(&rules, "-A FORWARD -p udp --dport %d -j ACCEPT\n", port)
	}
	return contest.Fed(w.Machine.Command("iptables-legacy-restore"), rules.String()+"COMMIT\n")
}

// fast puts efw in front of the rules, and waits until it carries them out.
func fast(rig *lab.Rig, b *contest.Bench, w *lab.Filtered, typ cube.Type) (*lab.Daemon, error) {
	d, err := contest.DaemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	conf := map[string]any{"type": typ}
	if typ.Hook() == cube.XDP {
		conf["outputs"] = []map[string]any{{"number": 0, "to": lab.Out}}
	}
	err = errors.Join(contest.Post(d, "/efw/efw1", conf), contest.Post(d, "/attach", map[string]any{"cube": "efw1", "port": lab.In}), d.Inlined("efw1"))
	for start := time.Now(); err == nil; time.Sleep(20 * time.Millisecond) {
		var gate string
		if gate, err = d.Ctl("", "efw1", "status", "show", "gate"); strings.TrimSpace(gate) == "OPEN" {
			break
		}
		if err == nil && time.Since(start) > 20*time.Second {
			err = fmt.Errorf("efw offloads nothing: its gate is %s: %w", gate, contest.ErrLost)
		}
	}
	return d, err
}

// inQueue has accepted packets wait for nDPI on their way out. With marks, those of connections that it has classified do not.
func inQueue(marks bool) func(*lab.Rig, *lab.Filtered, *lab.Daemon) (classifier, error) {
	return func(rig *lab.Rig, w *lab.Filtered, _ *lab.Daemon) (classifier, error) {
		rules, args := "", []string(nil)
		if marks {
			if err := contest.TrackWell(rig, w); err != nil {
				return nil, err
			}
			args = []string{"mark"}
			rules = "-A POSTROUTING -m connmark --mark 1 -j ACCEPT\n-A POSTROUTING -m mark --mark 1 -j CONNMARK --save-mark\n" +
				"-A POSTROUTING -m mark --mark 1 -j ACCEPT\n"
		}
		p, err := run(rig, w.Machine.Namespace, queueProgram, args...)
		if err != nil {
			return nil, err
		}
		return p, contest.Fed(w.Machine.Command("iptables-legacy-restore"),
			"*mangle\n"+rules+"-A POSTROUTING -o "+lab.Out+" -j NFQUEUE --queue-num 0 --queue-bypass\nCOMMIT\n")
	}
}

// inRing has nDPI read copies of all packets that come in.
func inRing(rig *lab.Rig, w *lab.Filtered, _ *lab.Daemon) (classifier, error) {
	return run(rig, w.Machine.Namespace, packetProgram, lab.In)
}

// inNextRing has it do so where they arrive, as AF_PACKET sees none that is sent on at XDP.
func inNextRing(rig *lab.Rig, w *lab.Filtered, _ *lab.Daemon) (classifier, error) {
	return run(rig, w.Right.Namespace, packetProgram, netns.Inner)
}

// byCube attaches an edpi where packets leave.
func byCube(typ cube.Type) func(*lab.Rig, *lab.Filtered, *lab.Daemon) (classifier, error) {
	return func(_ *lab.Rig, _ *lab.Filtered, d *lab.Daemon) (classifier, error) {
		err := errors.Join(contest.Post(d, "/edpi/dpi1", map[string]any{"type": typ, "max-flows": room}),
			contest.Post(d, "/attach", map[string]any{"cube": "dpi1", "port": lab.Out}), d.Inlined("dpi1"))
		if err != nil {
			return nil, err
		}
		n, err := d.Classify("dpi1")
		return ours{n}, err
	}
}

// ours is polycube-ndpi.
type ours struct{ *lab.NDPI }

func (o ours) pids() []int { return o.PIDs() }

func (o ours) settled(uint64) error { return o.Settled() }

// seen: all packets are counted in the fast path, which loses none.
func (o ours) seen() (seen, error) {
	s, err := o.Status()
	if err != nil {
		return seen{}, err
	}
	if s.Lost > 0 {
		return seen{}, fmt.Errorf("%d packets found the ring of edpi full: %w", s.Lost, contest.ErrLost)
	}
	all, err := o.Accounted()
	return seen{packets: all, inspected: s.Packets, flows: s.Started, classified: s.Decided - s.Unknown}, err
}
