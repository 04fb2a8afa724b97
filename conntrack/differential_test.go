// SPDX-License-Identifier: Apache-2.0

package conntrack

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// verdict is what we, or Linux, say about a packet.
type verdict struct {
	class Class
	state Phase
}

// difference is a packet about which Linux says something else.
type difference struct {
	in           State
	p            Segment
	kind         string
	opener       bool // its sender is the opener
	picked       bool // the connection was picked up
	ours, theirs verdict
	o            Options
}

// intended are the differences that are known. The first reason that applies ends the comparison of a connection,
// because the states differ from then on.
var intended = []struct {
	why     string
	applies func(d difference) bool
}{
	{"a SYN within or after a connection opens another: the rules decide, and Linux passes or rejects it", func(d difference) bool {
		return d.p.Flags == SYN && d.in.State > SynSent && d.ours.class == New && d.theirs.class != New
	}},
	{"a SYN that is older than a closed connection reuses its ports only when it is answered", func(d difference) bool {
		return d.p.Flags == SYN && d.in.State == TimeWait && d.ours == verdict{New, TimeWait} && d.theirs == verdict{New, SynSent}
	}},
	{"a SYN of the other side again: valid", func(d difference) bool {
		return d.p.Flags == SYN && !d.opener && d.in.State < Open && d.theirs.class == Invalid && d.ours.class == Established
	}},
	{"the second SYN+ACK of a simultaneous open completes it; Linux waits for one more ACK", func(d difference) bool {
		return d.p.synAck() && d.in.State == SynRecv && d.ours == verdict{Established, Open} && d.theirs == verdict{Established, SynRecv}
	}},
	{"the windows of a simultaneous open are known from the SYNs on, and any ACK of a SYN opens; Linux wants SYN+ACK", func(d difference) bool {
		return d.in.State == SynSent2 || d.ours.state == SynSent2 || d.in.State == SynRecv && d.ours.class == Invalid
	}},
	{"an RST that follows what was sent closes, though it is not acknowledged yet", func(d difference) bool {
		return d.p.has(RST) && d.ours.class == d.theirs.class && d.ours.state == Closed && d.theirs.state != Closed
	}},
	{"an RST before the reply closes, and Linux forgets the connection", func(d difference) bool {
		return d.p.has(RST) && d.in.State == SynSent && d.theirs.state == None
	}},
	{"an RST before the reply must acknowledge the SYN (RFC 9293, 3.10.7.3)", func(d difference) bool {
		return d.p.has(RST) && d.in.State <= SynSent2 && d.ours.class != Established
	}},
	{"an RST outside of the window is invalid in every state", func(d difference) bool {
		return d.p.has(RST) && d.ours.class == Invalid && d.in.State != Open
	}},
	{"if segments outside of the windows are valid, Linux does not limit RSTs as documented", func(d difference) bool {
		return d.p.has(RST) && d.o.Liberal
	}},
	{"a SYN+ACK must acknowledge the SYN", func(d difference) bool {
		return d.p.synAck() && d.in.State == SynSent && d.ours.class == Invalid
	}},
	{"a SYN with another sequence number replaces the first; Linux waits for the answer to the highest", func(d difference) bool {
		return d.p.synAck() && d.in.State == SynSent && d.ours == verdict{Established, SynRecv} && d.theirs == verdict{Established, SynSent}
	}},
	{"a picked up connection has windows of 1 GB; with Linux it has none", func(d difference) bool {
		return d.picked && d.ours.class == Invalid && d.theirs.class != Invalid
	}},
	{"after an RST, segments within the windows are valid", func(d difference) bool {
		return d.in.State == Closed && d.ours == verdict{Established, Closed} && d.theirs == verdict{Invalid, Closed}
	}},
	{"an RST changes no window, and with Linux, its window counts", func(d difference) bool {
		return d.in.State == Closed && d.ours == verdict{Invalid, Closed} && d.theirs == verdict{Established, Closed}
	}},
	{"an answer that opens nothing is no reply", func(d difference) bool {
		return d.in.State == SynSent && d.ours == verdict{New, SynSent} && d.theirs == verdict{Established, SynSent}
	}},
	{"a SYN+ACK within a connection is a segment like others", func(d difference) bool {
		return d.p.synAck() && d.in.State >= SynRecv && (d.ours.state == d.theirs.state || d.o.Liberal)
	}},
	{"an acknowledgement of something else does not open", func(d difference) bool {
		return d.in.State == SynRecv && d.ours == verdict{Established, SynRecv} && d.theirs == verdict{Established, Open}
	}},
	{"an acknowledgement of something else does not close", func(d difference) bool {
		return d.ours.class == d.theirs.class && (d.ours.state == FinWait && d.theirs.state == CloseWait || d.ours.state == LastAck && d.theirs.state == TimeWait)
	}},
}

// comparison counts packets.
type comparison struct {
	alike   int
	differ  map[string]int
	reached map[Phase]int
}

// missing is a state of TCP that no packet has led to; 0 if there is none.
func (c *comparison) missing() Phase {
	for p := SynSent; p <= Closed; p++ {
		if c.reached[p] == 0 {
			return p
		}
	}
	return 0
}

// same compares the verdicts, and the timeout. It returns false if the comparison of the connection has ended.
func (c *comparison) same(d difference, left, timeout time.Duration) (bool, error) {
	if d.ours == d.theirs {
		c.alike++
		c.reached[d.ours.state]++
		// Linux has a constant for SYN_SENT2, takes over the windows of any segment if it is liberal, and may take data
		// older than the window for some that is not acknowledged.
		old := d.kind == tooOld && left <= kernelTimeouts[TCPUnacknowledged]
		if d.ours.class != Invalid && d.ours.state != SynSent2 && !d.o.Liberal && !old && (left-timeout).Abs() > 500*time.Second {
			return false, fmt.Errorf("the timeout is %v, and %v with Linux", timeout, left)
		}
		return true, nil
	}
	for _, known := range intended {
		if known.applies(d) {
			c.differ[known.why]++
			return false, nil
		}
	}
	return false, fmt.Errorf("%v in %v; with Linux %v in %v", d.ours.class, d.ours.state, d.theirs.class, d.theirs.state)
}

// connection compares one connection.
func (c *comparison) connection(k *kernel, r *rand.Rand, port uint16, o Options) error {
	var s State
	var of flow
	var log strings.Builder
	picked := false
	for talk := newTalk(r); ; {
		from, p := talk.next()
		ports := [2]uint16{port, 80}
		if from == 1 {
			ports = [2]uint16{80, port}
		}
		d := difference{in: s, p: p, kind: talk.kind, opener: from == s.Opener(), picked: picked, o: o}
		d.ours = verdict{s.TCP(from, p, o), s.State}
		picked = picked || d.in.State == None && s.State == Open
		if d.in.State == None {
			of = flow{pkt.ProtoTCP, from, ports}
		}
		var left time.Duration
		var err error
		if d.theirs.class, err = k.pass(from, pkt.ProtoTCP, tcp(p, ports)); err == nil {
			d.theirs.state, left, err = k.tracked(of)
		}
		fmt.Fprintf(&log, "  %d %+v %s: %v\n", from, p, talk.kind, d.ours)
		more := false
		if err == nil {
			more, err = c.same(d, left, kernelTimeouts.Of(&s))
		}
		if err != nil {
			return fmt.Errorf("%s: %w\n   in %+v\n  out %+v\n%s", talk.kind, err, d.in, s, log.String())
		}
		// Linux remembers a wrong SYN+ACK in a handshake, and a SYN within a connection, and judges later segments by it.
		confused := p.synAck() && d.ours.class == Invalid && s.State < Open || p.Flags == SYN && d.in.State > SynSent2
		if !more || confused || r.IntN(50) == 0 {
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
	for name, o := range map[string]Options{"strict": {}, "picking up": {PickUp: true}, "liberal": {Liberal: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKernel(t, Options{Liberal: o.Liberal, PickUp: o.PickUp, MaxRetrans: 255})
			c := comparison{differ: map[string]int{}, reached: map[Phase]int{}}
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
