// SPDX-License-Identifier: Apache-2.0

package mgw

// Packets through the whole path, compared with the kernel's forwarding.

import (
	"context"
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/test/perf/contest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const liveText = "Frames of 108 bytes from a generator behind one veth to a counting sink behind another, of 1,000 users with ten flows each in random " +
	"order. *upf and router* at XDP takes packets out of tunnels, or puts them into tunnels, with an MBR, a QFI and a URR for each user. " +
	"The kernel forwards plain packets of the same users, with a filter at clsact of the netdev that they come from, and a tbf at the one that " +
	"they leave by: it does nothing with GTP, and all users share a filter and a rate. *Net* is minus generator and veth."

const (
	liveUsers  = 1000
	ours       = "upf and router, XDP"
	linux      = "Linux forwarding"
	linuxTBF   = "Linux forwarding, clsact and tbf, without GTP"
	enoughRate = "90gbit"
)

// rival is one way to forward, with the packets that it gets.
type rival struct {
	name    string
	tunnels bool
	setup   func(rig *lab.Rig, b *Bench, down bool) (*lab.Filtered, error)
}

func rivals() []rival {
	return []rival{
		{contest.Generator, true, nobody}, {ours, true, upf}, {linux, false, kernel},
		{linuxTBF, false, func(rig *lab.Rig, b *Bench, down bool) (*lab.Filtered, error) {
			w, err := kernel(rig, b, down)
			if err != nil {
				return nil, err
			}
			return w, limit(w, down)
		}},
	}
}

// nobody drops everything where it comes in.
func nobody(rig *lab.Rig, _ *Bench, _ bool) (*lab.Filtered, error) {
	w, err := rig.NewFiltered()
	if err == nil {
		err = errors.Join(w.Sinks(rig), w.DiscardFrom(rig, netip.MustParsePrefix("0.0.0.0/0")))
	}
	return w, err
}

func upf(rig *lab.Rig, b *Bench, _ bool) (*lab.Filtered, error) {
	g, err := newGateway(rig, b, "own", liveUsers)
	if err != nil {
		return nil, err
	}
	return g.Filtered, errors.Join(g.withSessions(liveUsers, true), g.Inlined("r1", "u"))
}

func kernel(rig *lab.Rig, _ *Bench, _ bool) (*lab.Filtered, error) {
	w, err := rig.NewFiltered()
	if err != nil {
		return nil, err
	}
	g := &gateway{Filtered: w}
	return w, errors.Join(w.Sinks(rig), w.Route(), g.routes("host", liveUsers))
}

// limit classifies packets where they come in, and limits their rate where they go out.
func limit(w *lab.Filtered, down bool) error {
	in, out, match := lab.In, lab.Out, "src"
	if down {
		in, out, match = lab.Out, lab.In, "dst"
	}
	return contest.Fed(w.Machine.Command("tc", "-batch", "-"), fmt.Sprintf(
		"qdisc add dev %s clsact\nfilter add dev %s ingress protocol ip prio 1 u32 match ip %s %s classid 1:1\n"+
			"qdisc add dev %s root tbf rate %s burst 10mb limit 10mb\n", in, in, match, lab.Clients, out, enoughRate))
}

// live is the part "mgw-live".
func live(ctx context.Context, b *Bench) (*Result, error) {
	out := &Result{Title: "Mobile gateway: compared with the kernel's forwarding", Text: liveText}
	for _, down := range []bool{false, true} {
		b.Progress("mgw-live: %s", direction(down))
		var all []*contest.Runner
		err := lab.With(ctx, func(rig *lab.Rig) error {
			for _, r := range rivals() {
				is, err := r.runner(rig, b, down)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				all = append(all, is)
			}
			return contest.Race(rig.Context(), b.Rounds(31, 5), all)
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", direction(down), err)
		}
		f := contest.FiguresOf(all)
		t := &report.Table{Title: direction(down) + ", 1,000 users", Columns: contest.Columns(ours)}
		f.Rows(t, all, ours)
		out.Tables = append(out.Tables, t)
		out.Checks = append(out.Checks, report.AtLeast(
			fmt.Sprintf("%s against %s, %s, net", ours, linuxTBF, direction(down)), "%.2f ×", f.Ratio(linuxTBF, ours), 2))
	}
	return out, nil
}

// runner sets a rival up, with what is sent.
func (r rival) runner(rig *lab.Rig, b *Bench, down bool) (*contest.Runner, error) {
	w, err := r.setup(rig, b, down)
	if err != nil {
		return nil, err
	}
	l := load{users: liveUsers, down: down, tunnels: r.tunnels, container: true}
	var frames [][]byte
	for i := range liveUsers {
		for flow := range perUser {
			frames = append(frames, l.frame(w, i, flow))
		}
	}
	s, err := w.Long(rig, down && r.name != contest.Generator, contest.Shuffled(frames))
	if err != nil {
		return nil, err
	}
	is := &contest.Runner{Name: r.name, Wire: w, Stream: s, Drops: r.name == contest.Generator}
	return is, is.Warm(len(frames))
}
