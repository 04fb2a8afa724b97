// SPDX-License-Identifier: Apache-2.0

package conntrack_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/talk"
)

// comparison counts packets.
type comparison struct {
	alike   int
	differ  map[string]int
	reached map[conntrack.Phase]int
}

// missing is a state of TCP that no packet has led to; 0 if there is none.
func (c *comparison) missing() conntrack.Phase {
	for p := conntrack.SynSent; p <= conntrack.Closed; p++ {
		if c.reached[p] == 0 {
			return p
		}
	}
	return 0
}

// same compares the verdicts, and the timeout. It returns false if the comparison of the connection has ended.
func (c *comparison) same(d *talk.Difference, kind string, left, timeout time.Duration) (bool, error) {
	if d.Ours == d.Theirs {
		c.alike++
		c.reached[d.Ours.State]++
		// Linux has a constant for SYN_SENT2, takes over the windows of any segment if it is liberal, and may take data
		// older than the window for some that is not acknowledged.
		old := kind == talk.TooOld && left <= kernelTimeouts[conntrack.TCPUnacknowledged]
		if d.Ours.Class != conntrack.Invalid && d.Ours.State != conntrack.SynSent2 && !d.Options.Liberal && !old && (left-timeout).Abs() > 500*time.Second {
			return false, fmt.Errorf("the timeout is %v, and %v with Linux", timeout, left)
		}
		return true, nil
	}
	if why := d.Known(); why != "" {
		c.differ[why]++
		return false, nil
	}
	return false, fmt.Errorf("%v in %v; with Linux %v in %v", d.Ours.Class, d.Ours.State, d.Theirs.Class, d.Theirs.State)
}

// connection compares one connection.
func (c *comparison) connection(k *kernel, r *rand.Rand, port uint16, o conntrack.Options) error {
	var s conntrack.State
	var of flow
	var log strings.Builder
	picked := false
	for hosts := talk.New(r); ; {
		from, p := hosts.Next()
		ports := [2]uint16{port, 80}
		if from == 1 {
			ports = [2]uint16{80, port}
		}
		d := talk.Difference{Before: s, Segment: p, Opener: from == s.Opener(), Picked: picked, Options: o}
		d.Ours = talk.Verdict{Class: s.TCP(from, p, o), State: s.State}
		picked = picked || d.Before.State == conntrack.None && s.State == conntrack.Open
		if d.Before.State == conntrack.None {
			of = flow{pkt.ProtoTCP, from, ports}
		}
		var left time.Duration
		var err error
		if d.Theirs.Class, err = k.pass(from, pkt.ProtoTCP, talk.Bytes(p, ports)); err == nil {
			d.Theirs.State, left, err = k.tracked(of)
		}
		fmt.Fprintf(&log, "  %d %+v %s: %v\n", from, p, hosts.Kind, d.Ours)
		more := false
		if err == nil {
			more, err = c.same(&d, hosts.Kind, left, kernelTimeouts.Of(&s))
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n   in %+v\n  out %+v\n%s", hosts.Kind, err, d.Before, s, log.String())
		}
		if !more || d.Confused(s.State) || r.IntN(50) == 0 {
			return nil
		}
	}
}

// TestLinuxTracksAlike: random connections have the same classes, states and timeouts after each packet as in
// nf_conntrack, except for known differences.
func TestLinuxTracksAlike(t *testing.T) {
	connections := 300
	if os.Getenv("POLYCUBE_SOAK") != "" {
		connections = 30000
	}
	seed := repeat.Seed(t)
	for name, o := range map[string]conntrack.Options{"strict": {}, "picking up": {PickUp: true}, "liberal": {Liberal: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKernel(t, conntrack.Options{Liberal: o.Liberal, PickUp: o.PickUp, MaxRetrans: 255})
			c := comparison{differ: map[string]int{}, reached: map[conntrack.Phase]int{}}
			r := rand.New(rand.NewPCG(seed, 0))
			for n := 0; n < connections || n < 20*connections && c.missing() > 0; n++ {
				if err := c.connection(k, r, uint16(1024+n%60000), o); err != nil {
					t.Errorf("connection %d: %v", n, err)
				}
			}
			t.Logf("%d packets alike, %v; otherwise: %v", c.alike, c.reached, c.differ)
			if p := c.missing(); p > 0 {
				t.Errorf("no packet led to %v", p)
			}
		})
	}
}
