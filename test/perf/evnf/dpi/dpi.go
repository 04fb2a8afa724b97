// SPDX-License-Identifier: Apache-2.0

// Package dpi measures chains of a firewall and a classifier of applications, by the share of flows that are long enough to be
// offloaded.
package dpi

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const text = "UDP in frames of 1,514 bytes from a generator behind one veth to a counting sink behind another. *Elephants* are four flows of RTP, which nDPI " +
	"recognises by their first packet; the others are ESP for port 4500, of which nDPI must see 16 packets until it gives up and decides by the port. These are four " +
	"flows that go on as well, as in the paper, or *mice* that end after these 16 packets, so that every packet of a mouse is inspected. " +
	"The machine forwards what ten rules of iptables-legacy accept. *efw* carries them out at the netdev where packets come in, *edpi* classifies at the one where " +
	"they leave, with `polycube-ndpi`. The peers are programs in C on the same libndpi, with flows in a hash table and 16 packets of each inspected at most: " +
	"behind NFQUEUE (64 packets read by a system call, one verdict for all of them, fail-open), or with copies from a ring of AF_PACKET (TPACKET_V3) beside the kernel's " +
	"forwarding; AF_PACKET sees no packets that are sent on at XDP, so behind *efw, XDP* nDPI is on the machine that they go to, as each function of the paper has a " +
	"machine of its own. *Bypassed by connmark* is another function: conntrack remembers flows that are classified, and nDPI neither sees nor counts their later packets, so it is " +
	"not what *iptables + nDPI* is in the checks, the better of the other two. The time is that of all CPUs: sender, kernel, classifier, daemon. Packets come in bursts that " +
	"fit every queue, and each burst is waited for, until its packets have arrived and the classifier has nothing to do; the time is divided by the packets that have arrived and that the classifier has counted, so that nobody wins by losing some."

// What is sent.
var (
	server    = netip.MustParseAddr("203.0.113.5")
	elephants = lab.Payload{Port: 5004, Begin: [18]byte{0x80, 96, 0, 0, 0, 0, 0, 1, 0x51, 0x3c, 0x0b, 0x17, 0x7c, 0x85, 0xb8, 0x40, 0x01, 0x9a}}
	mice      = lab.Payload{Port: 4500, Begin: [18]byte{0xc4, 0x1e, 0x33, 0xa7, 0, 0, 0, 1, 0x9b, 0x04, 0xd2, 0x6f, 0x8e, 0x55, 0xe1, 0x3a, 0xb0, 0x72}}
)

// burst is the number of packets at a time: their mice are whole at each share of elephants.
const burst = 8 * lab.MixPeriod

// load is what is sent: how many of lab.MixOf packets are of elephants, and whether the others are of mice.
type load struct {
	elephants int
	mice      bool
}

// loads are what is measured. With elephants alone there are no others.
func loads() (all []load) {
	for _, mice := range []bool{false, true} {
		for elephants := range lab.MixOf {
			all = append(all, load{elephants, mice})
		}
	}
	return append(all, allElephants)
}

var allElephants = load{elephants: lab.MixOf}

// runner is a chain that is sent to.
type runner struct {
	chain
	mix *lab.Mix
	of  classifier // nil: none
	at  map[load]*figures
}

// Chain is the part "evnf-dpi".
func Chain(ctx context.Context, b *contest.Bench) (*contest.Result, error) {
	var all []*runner
	var long lasting
	err := lab.With(ctx, func(rig *lab.Rig) error {
		for _, c := range chains {
			b.Progress("evnf-dpi: %s", c.name)
			r, err := c.runner(rig, b)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			all = append(all, r)
		}
		if err := race(rig.Context(), b.Rounds(31, 5), all); err != nil {
			return err
		}
		var err error
		long, err = last(rig.Context(), b, all)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result(all, long), nil
}

// runner sets a chain up, and has it learn the flows that do not end.
func (c chain) runner(rig *lab.Rig, b *contest.Bench) (*runner, error) {
	w, of, err := c.setup(rig, b)
	if err != nil {
		return nil, err
	}
	r := &runner{chain: c, of: of, at: map[load]*figures{}}
	for _, l := range loads() {
		r.at[l] = &figures{}
	}
	if r.mix, err = w.Mix(rig, server, elephants, mice); err != nil {
		return nil, err
	}
	// Twice: conntrack cannot mark a connection whose first packets all wait in a queue.
	for _, l := range []load{allElephants, {}, {mice: true}, allElephants, {}} {
		if _, err := r.send(l, lab.MixPeriod); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// race measures all chains with all loads in turns, each time in a new order.
func race(ctx context.Context, rounds int, all []*runner) error {
	for range rounds {
		for _, l := range contest.Shuffled(loads()) {
			for _, r := range contest.Shuffled(all) {
				if err := ctx.Err(); err != nil {
					return err
				}
				is, err := r.send(l, burst)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				r.at[l].add(is)
			}
		}
	}
	return nil
}

// sent is what became of a burst.
type sent struct {
	// packets were sent; good arrived, and a classifier has counted them.
	packets, good uint64
	usage         lab.Usage
	seen          seen
}

// perPacket is a time in ns by the good packets.
func (s sent) perPacket(ns int64) float64 { return float64(ns) / float64(s.good) }

// send sends n packets.
func (r *runner) send(l load, n int) (out sent, err error) {
	if err := r.mix.Set(l.elephants, !l.mice); err != nil {
		return out, err
	}
	var before, after seen
	var pids []int
	if r.of != nil {
		pids = r.of.pids()
		if before, err = r.of.seen(); err != nil {
			return out, err
		}
	}
	p, usage, err := r.mix.Among(n, r.name != contest.Generator, pids, func(sent uint64) error {
		if r.of == nil || r.partial {
			return nil // each packet waits for the classifier
		}
		return r.of.settled(before.packets + sent)
	})
	if err != nil {
		return out, err
	}
	out = sent{packets: p.Sent, good: p.Received, usage: usage}
	if r.name == contest.Generator {
		out.good = p.Sent - p.Received
	}
	if r.of != nil {
		if after, err = r.of.seen(); err != nil {
			return out, err
		}
		out.seen = after.minus(before)
	}
	if r.of != nil && !r.partial {
		out.good = min(out.good, out.seen.packets)
	}
	if out.good < p.Sent/2 {
		return out, fmt.Errorf("of %d packets %d arrive and %d are classified: %w", p.Sent, p.Received, out.seen.packets, contest.ErrLost)
	}
	return out, nil
}

// figures are those of a chain with a load.
type figures struct {
	// all is the CPU time in ns per packet in each round, process the part of the classifier's process.
	all, process  report.Sample
	packets, good uint64
	seen          seen
}

func (f *figures) add(s sent) {
	f.all = append(f.all, s.perPacket(s.usage.All()))
	if len(s.usage.Processes) > 0 {
		f.process = append(f.process, s.perPacket(s.usage.Processes[0]))
	}
	f.packets, f.good = f.packets+s.packets, f.good+s.good
	f.seen = f.seen.plus(s.seen)
}

// lasting is what elephants take that come for longer, so that what programs do by the clock has its share, in each round.
type lasting struct {
	// all is the time of all CPUs in ns per packet, ours and of iptables with AF_PACKET.
	all, peer report.Sample
	// path is the time of sender and kernel in ns per packet, and without that without edpi.
	path, without report.Sample
	// process and daemon are the shares of polycube-ndpi and polycubed of a CPU, while another one does nothing but sending.
	process, daemon report.Sample
}

// last sends elephants for longer.
func last(ctx context.Context, b *contest.Bench, all []*runner) (out lasting, err error) {
	packets := 1 << 20
	if b.Quick {
		packets = 1 << 18
	}
	for range b.Rounds(9, 3) {
		for _, r := range contest.Shuffled(all) {
			if r.name != chainXDP && r.name != efwAlone && r.name != copied {
				continue
			}
			if err := ctx.Err(); err != nil {
				return out, err
			}
			is, err := r.send(allElephants, packets)
			if err != nil {
				return out, fmt.Errorf("%s: %w", r.name, err)
			}
			out.add(r.name, is)
		}
	}
	return out, nil
}

func (l *lasting) add(name string, is sent) {
	all, path := is.perPacket(is.usage.All()), is.perPacket(is.usage.Sender)
	switch name {
	case efwAlone:
		l.without = append(l.without, path)
	case copied:
		l.peer = append(l.peer, all)
	default:
		l.all, l.path = append(l.all, all), append(l.path, path)
		l.process = append(l.process, is.perPacket(is.usage.Processes[0])/path)
		l.daemon = append(l.daemon, is.perPacket(is.usage.Processes[1])/path)
	}
}
