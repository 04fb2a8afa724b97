// SPDX-License-Identifier: Apache-2.0

// Package contest measures a cube and its peers side by side: the same frames through each of them in turns, or their
// programs alone.
package contest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// Part is one part of a group.
type Part struct {
	Name string
	Do   func(context.Context, *Bench) (*Result, error)
}

// Device is one of those that are compared, set up between the two hosts of a wire.
type Device struct {
	Name  string
	Setup func(*lab.Rig, *Bench, *lab.Filtered) error
}

// None is the path without a device under test, and Generator what remains of it where everything is dropped on ingress.
const (
	None      = "no filter"
	Generator = "generator and veth"
)

// Runner is a device that is set up and sent to.
type Runner struct {
	Name   string
	Wire   *lab.Filtered
	Stream *lab.Stream
	// Drops is whether nothing may arrive.
	Drops bool
	Times report.Sample

	burst int
}

// ErrLost is the error of a device that does something else.
var ErrLost = errors.New("the device under test does something else")

// Send sends a burst and checks what arrives.
func (r *Runner) Send(n int) (lab.Passage, error) {
	p, err := r.Stream.Send(n)
	if err != nil {
		return p, fmt.Errorf("%s: %w", r.Name, err)
	}
	if r.Drops && p.Received > 0 || !r.Drops && p.Received < p.Sent {
		return p, fmt.Errorf("%s: of %d frames %d arrive: %w", r.Name, p.Sent, p.Received, ErrLost)
	}
	return p, nil
}

// burstTime is about how long a burst takes, in ns, and burstMost how many frames it has at most.
const (
	burstTime = 4e7
	burstMost = 1 << 15
)

// Warm sends some frames and chooses the size of bursts.
func (r *Runner) Warm(frames int) error {
	p, err := r.Send(frames)
	if err == nil {
		r.burst = max(256, min(burstMost, int(burstTime/p.PerFrame())))
	}
	return err
}

// Race measures all runners in turns, each time in a new order.
func Race(ctx context.Context, rounds int, all []*Runner) error {
	for range rounds {
		for _, r := range Shuffled(all) {
			if err := ctx.Err(); err != nil {
				return err
			}
			p, err := r.Send(r.burst)
			if err != nil {
				return err
			}
			r.Times = append(r.Times, p.PerFrame())
		}
	}
	return nil
}

// Shuffled is a list in a new order, so that none always follows the same other one.
func Shuffled[T any](list []T) []T {
	out := slices.Clone(list)
	rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] }) //nolint:gosec // an order, not a secret
	return out
}

// Fed runs a command with a text as its input.
func Fed(cmd *exec.Cmd, text string) error {
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%.1000s", cmd, err, out)
	}
	return nil
}

// DaemonAt starts a daemon on the machine of a wire.
func DaemonAt(rig *lab.Rig, b *Bench, w *lab.Filtered) (*lab.Daemon, error) {
	d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(b.Root, "bin"))
	if err == nil {
		_, err = d.Start()
	}
	return d, err
}

// Post sends a value to the daemon.
func Post(d *lab.Daemon, path string, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("POST %s: %w", path, err)
	}
	return d.Request("POST", path, string(body))
}

// Sysctl writes settings below /proc/sys/net of the machine.
func Sysctl(w *lab.Filtered, settings map[string]int) error {
	return w.Machine.Do(func() error {
		for name, value := range settings {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(strconv.Itoa(value)), 0); err != nil {
				return fmt.Errorf("%s=%d: %w", name, value, err)
			}
		}
		return nil
	})
}

// TrackWell lets the kernel track many connections, without more work than ours: no checksums.
func TrackWell(rig *lab.Rig, w *lab.Filtered) error {
	if err := rig.AtLeast("/proc/sys/net/netfilter/nf_conntrack_max", 2<<20); err != nil {
		return err
	}
	if err := rig.AtLeast("/sys/module/nf_conntrack/parameters/hashsize", 1<<20); err != nil {
		return err
	}
	return Sysctl(w, map[string]int{
		"netfilter/nf_conntrack_checksum": 0, "netfilter/nf_conntrack_tcp_loose": 0, "netfilter/nf_conntrack_udp_timeout": 3600,
		"netfilter/nf_conntrack_tcp_timeout_syn_sent": 3600,
	})
}

// Thousands writes a number with commas.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
