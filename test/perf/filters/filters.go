// SPDX-License-Identifier: Apache-2.0

// Package filters measures the cubes that filter (firewall, ddosmitigator, synflood) compared with iptables, nftables and
// Open vSwitch, all on the same path: the kernel forwards between two hosts, and what differs is the filter.
package filters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// Bench is how a part is measured.
type Bench struct {
	// Root is the directory of the repository, where bin/ contains the daemon.
	Root string
	// Rounds chooses the number of rounds from the usual number and that of a quick look.
	Rounds func(full, quick int) int
	Quick  bool
	// Progress writes a line.
	Progress func(format string, args ...any)
}

// Result of a part.
type Result struct {
	Title, Text string
	Tables      []*report.Table
	Checks      []report.Check
}

// Part is one part of the group.
type Part struct {
	Name string
	Do   func(context.Context, *Bench) (*Result, error)
}

// Parts lists the parts in the order in which they run.
func Parts() []Part {
	return []Part{
		{"filter-program", programs},
		{"filter-rules", exactly},
		{"filter-lists", generated},
		{"filter-established", established},
		{"filter-host", host},
		{"filter-new", fresh},
		{"filter-ddos", ddos},
		{"filter-synflood", synflood},
	}
}

// device filters what goes from the left host to the right one.
type device struct {
	name  string
	setup func(*lab.Rig, *Bench, *lab.Filtered) error
}

// none is the path without a filter.
const none = "no filter"

// runner is a device that is set up and sent to.
type runner struct {
	name   string
	wire   *lab.Filtered
	stream *lab.Stream
	// drops is whether nothing may arrive; partly is whether some may be lost.
	drops bool
	burst int
	times report.Sample
}

var errLost = errors.New("the filter does something else")

// send sends a burst and checks what arrives.
func (r *runner) send(n int) (lab.Passage, error) {
	p, err := r.stream.Send(n)
	if err != nil {
		return p, fmt.Errorf("%s: %w", r.name, err)
	}
	if r.drops && p.Received > 0 || !r.drops && p.Received < p.Sent {
		return p, fmt.Errorf("%s: of %d frames %d arrive: %w", r.name, p.Sent, p.Received, errLost)
	}
	return p, nil
}

// burstTime is about how long a burst takes, in ns, and burstMost how many frames it has at most.
const (
	burstTime = 4e7
	burstMost = 1 << 15
)

// warm sends some frames and chooses the size of bursts.
func (r *runner) warm(frames int) error {
	p, err := r.send(frames)
	if err == nil {
		r.burst = max(256, min(burstMost, int(burstTime/p.PerFrame())))
	}
	return err
}

// race measures all runners in turns, each time in a new order.
func race(ctx context.Context, rounds int, all []*runner) error {
	for range rounds {
		for _, r := range shuffled(all) {
			if err := ctx.Err(); err != nil {
				return err
			}
			p, err := r.send(r.burst)
			if err != nil {
				return err
			}
			r.times = append(r.times, p.PerFrame())
		}
	}
	return nil
}

// shuffled is a list in a new order, so that none always follows the same other one.
func shuffled[T any](list []T) []T {
	out := slices.Clone(list)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] }) //nolint:gosec // an order, not a secret
	return out
}

// figures are the times of runners by name.
type figures map[string]report.Sample

func figuresOf(all []*runner) figures {
	out := figures{}
	for _, r := range all {
		out[r.name] = r.times
	}
	return out
}

// net is the cost of a filter: minus the same path without one.
func (f figures) net(name string) report.Sample { return f[name].Less(f[none]) }

// ratio is how many times the net cost of ours another one costs.
func (f figures) ratio(other, ours string) float64 {
	return f.net(other).Median() / f.net(ours).Median()
}

// best is the cheapest of some.
func (f figures) best(names ...string) string {
	best, least := "", math.Inf(1)
	for _, name := range names {
		if n := f.net(name).Median(); n < least {
			best, least = name, n
		}
	}
	return best
}

// rows adds a line for each runner; ratios are to the net cost of each of ours.
func (f figures) rows(t *report.Table, all []*runner, ours ...string) {
	for _, r := range all {
		cells := []string{r.name, f[r.name].Spread(0)}
		if r.name == none {
			t.Add(cells...)
			continue
		}
		cells = append(cells, f.net(r.name).Spread(0))
		for _, o := range ours {
			cells = append(cells, fmt.Sprintf("%.2f", f.ratio(r.name, o)))
		}
		t.Add(cells...)
	}
}

func columns(ours ...string) []string {
	out := []string{"", "ns of CPU per packet", "net ns"}
	for _, o := range ours {
		out = append(out, "× "+o)
	}
	return out
}

// fed runs a command with a text as its input.
func fed(cmd *exec.Cmd, text string) error {
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%.1000s", cmd, err, out)
	}
	return nil
}

// daemonAt starts a daemon on the machine of a wire.
func daemonAt(rig *lab.Rig, b *Bench, w *lab.Filtered) (*lab.Daemon, error) {
	d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(b.Root, "bin"))
	if err == nil {
		_, err = d.Start()
	}
	return d, err
}

// post sends a value to the daemon.
func post(d *lab.Daemon, path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return d.Request("POST", path, string(body))
}

// attached creates a cube and attaches it to the netdev where packets come in.
func attached(rig *lab.Rig, b *Bench, w *lab.Filtered, service string, conf any) (*lab.Daemon, error) {
	d, err := daemonAt(rig, b, w)
	if err != nil {
		return nil, err
	}
	return d, errors.Join(
		post(d, "/"+service+"/c1", conf),
		post(d, "/attach", map[string]any{"cube": "c1", "port": lab.In}), d.Inlined("c1"),
	)
}

// sysctl writes settings below /proc/sys/net of the machine.
func sysctl(w *lab.Filtered, settings map[string]int) error {
	return w.Machine.Do(func() error {
		for name, value := range settings {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(strconv.Itoa(value)), 0); err != nil {
				return fmt.Errorf("%s=%d: %w", name, value, err)
			}
		}
		return nil
	})
}

// thousands writes a number with commas.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
