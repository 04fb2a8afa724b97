// SPDX-License-Identifier: Apache-2.0

// Frames that were sent, and their expected fates.

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/test/e2e/model"
)

// expected are the expected fates of the frames of a round.
type expected struct {
	*site
	outcome *model.Outcome
	// frames counts, by device, the copies that are still outstanding.
	frames map[string]map[string]int
}

// add adds the result of one walk to the outcome, and sends the frame.
func (x *expected) add(frame []byte, walk func(*model.World, *model.Outcome), send func()) {
	if x.world.Down {
		// Without a daemon, frames that need user space are not sent.
		o := model.NewOutcome()
		if walk(x.world.Clone(), o); o.Detours > 0 {
			return
		}
		for name := range o.Vague {
			if x.world.Cubes[name].Type == "XDP_SKB" {
				return // generic XDP stops a flood at the first device that is down, until a daemon removes it
			}
		}
	}
	before := maps.Clone(x.outcome.Arrive)
	walk(x.world, x.outcome)
	for dev, n := range x.outcome.Arrive {
		if n -= before[dev]; n > 0 {
			if x.frames[dev] == nil {
				x.frames[dev] = map[string]int{}
			}
			x.frames[dev][string(frame)] += n
		}
	}
	send()
}

func (x *expected) fromHost(p *plug, dst string, marks ...byte) {
	src := p.mac.String()
	frame := x.probeFrame(dst, src, append(marks, p.mac[5])...)
	x.add(frame, func(w *model.World, o *model.Outcome) { w.FromHost(p.name, dst, o) }, func() { x.send(p.raw, frame) })
}

func (x *expected) fromStack(p *plug) {
	const src = "02:00:00:00:02:00"
	frame := x.probeFrame(p.mac.String(), src, 9, 9, p.mac[5])
	x.add(frame, func(w *model.World, o *model.Outcome) { w.FromStack(p.name, src, p.mac.String(), o) }, func() { x.send(p.far, frame) })
}

// settle waits until all is as expected.
func (x *expected) settle() {
	x.t.Helper()
	begin := time.Now()
	for {
		err := x.arrived()
		if err == nil {
			err = x.counted()
		}
		if err == nil {
			return
		}
		if x.t.Failed() || time.Since(begin) > x.patience/2 {
			x.t.Errorf("%v\nthe model's world:\n%s", err, strings.Join(x.wanted(), "\n"))
			return
		}
		pause()
	}
}

// arrived collects frames from all hosts. An unexpected one fails the trial at once, a missing one is an error.
func (x *expected) arrived() error {
	missing := 0
	for _, name := range x.world.Devices() {
		p := x.hosts[name]
		err := p.collect(func(f []byte) error {
			switch {
			case x.frames[name][string(f)] > 0:
				x.frames[name][string(f)]--
			case !x.outcome.Loose[name]:
				x.t.Errorf("the host behind %s got a frame that should not come there, or not again: %x", name, f[:min(len(f), 32)])
			}
			return nil
		})
		if err != nil && x.world.Netdevs[name].Present {
			return fmt.Errorf("receiving behind %s: %w", name, err)
		}
		for _, n := range x.frames[name] {
			missing += n
		}
	}
	if missing == 0 {
		return nil
	}
	var first string
	for _, name := range x.world.Devices() {
		for f, n := range x.frames[name] {
			if n > 0 && first == "" {
				first = fmt.Sprintf("behind %s %x", name, f[:min(len(f), 32)])
			}
		}
	}
	return fmt.Errorf("%d frames did not arrive, one of them %s%s", missing, first, x.deltas())
}

// deltas lists the counts of this round, for a failure.
func (x *expected) deltas() string {
	if x.world.Down {
		return ""
	}
	return fmt.Sprintf("\ncounted (got/want): %v", x.compare(x.counters(), true))
}

// counted compares the counters with those before the round.
func (x *expected) counted() error {
	if x.world.Down {
		return nil
	}
	now := x.counters()
	if wrong := x.compare(now, false); len(wrong) > 0 {
		return fmt.Errorf("counted (got/want): %v", wrong)
	}
	x.last = now
	return nil
}

// compare lists the counters that are not as expected, or all that changed.
func (x *expected) compare(now map[string]stats, all bool) []string {
	x.t.Helper()
	var out []string
	check := func(what string, got, want uint64) {
		if got != want || all && got != 0 {
			out = append(out, fmt.Sprintf("%s %d/%d", what, int64(got), want))
		}
	}
	for _, name := range x.world.Names() {
		if x.outcome.Vague[name] {
			continue
		}
		was, known := x.last[name]
		for i, f := range now[name].Fates {
			if known {
				f.Packets -= was.Fates[i].Packets
			}
			check(name+" "+f.Name, f.Packets, uint64(x.outcome.Fates[name][f.Name]))
		}
		for _, p := range now[name].Ports {
			at := name + ":" + p.Name
			var old struct{ rx, tx uint64 }
			for _, q := range was.Ports {
				if q.Name == p.Name {
					old.rx, old.tx = q.RxPackets, q.TxPackets
				}
			}
			check(at+" rx", p.RxPackets-old.rx, uint64(x.outcome.Rx[at]))
			check(at+" tx", p.TxPackets-old.tx, uint64(x.outcome.Tx[at]))
		}
	}
	slices.Sort(out)
	return out
}
