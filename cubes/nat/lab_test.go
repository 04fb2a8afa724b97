// SPDX-License-Identifier: Apache-2.0

package nat

// A NAT on the outer one of two ports, and packets through it.

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/forwarder" // one to attach to
	"github.com/polycube/polycube/test/pkt"
)

const (
	insideMAC  = "02:00:00:00:00:01"
	outsideMAC = "02:00:00:00:00:02"
)

// bench is a NAT between an inside and an outside.
type bench struct {
	*bpftest.Lab
	t testing.TB
}

// newBench creates the NAT n with a configuration: JSON, "" for none.
func newBench(t testing.TB, l *bpftest.Lab, config string) *bench {
	members := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(config), "{"), "}")
	if members != "" {
		members = "," + members
	}
	l.CreateAll(`[{"service-name":"simpleforwarder","name":"f","ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2","tcubes":["n"]}],
			"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]},
		{"service-name":"nat","name":"n"` + members + `}]`)
	return &bench{Lab: l, t: t}
}

// framer creates a frame.
type framer interface{ Bytes() []byte }

// step is a packet and its required result.
type step struct {
	name string
	in   bool // from outside
	send framer
	want framer // nil: it is dropped
	why  string // the reason
}

func (b *bench) step(s step) {
	b.t.Helper()
	got, err := b.pass(s.in, s.send.Bytes())
	switch {
	case s.want == nil && err == nil:
		b.t.Errorf("%s: it came through as\n%x\nwant a drop as %s", s.name, got, s.why)
	case s.want == nil && err.Error() != "n "+s.why:
		b.t.Errorf("%s: dropped as %q, want %s", s.name, err, s.why)
	case s.want != nil && err != nil:
		b.t.Errorf("%s: dropped as %s", s.name, err)
	case s.want != nil && !bytes.Equal(got, s.want.Bytes()):
		b.t.Errorf("%s:\n got %x\nwant %x", s.name, got, s.want.Bytes())
	}
}

func (b *bench) steps(steps ...step) {
	b.t.Helper()
	for _, s := range steps {
		b.step(s)
	}
}

// pass returns the resulting frame, or the drop reason.
func (b *bench) pass(in bool, frame []byte) ([]byte, error) {
	b.t.Helper()
	dev, to := "veth1", "f:p2"
	if in {
		dev, to = "veth2", "f:p1"
	}
	out, got := b.RunBytes(dev, frame)
	switch out.Verdict {
	case "send":
		if out.Sent != to {
			b.t.Errorf("a frame from %s left by %s", dev, out.Sent)
		}
		return got, nil
	case "drop":
		return nil, fmt.Errorf("%s", out.Fate)
	}
	b.t.Errorf("a frame from %s: %+v", dev, out)
	return got, nil
}

// from and to make frames of the two directions.
func out4(from, to string, o ...pkt.IPv4Options) *pkt.Frame {
	return pkt.Eth(insideMAC, outsideMAC).IPv4(from, to, o...)
}

func in4(from, to string, o ...pkt.IPv4Options) *pkt.Frame {
	return pkt.Eth(outsideMAC, insideMAC).IPv4(from, to, o...)
}

func out6(from, to string) *pkt.Frame { return pkt.Eth(insideMAC, outsideMAC).IPv6(from, to) }
func in6(from, to string) *pkt.Frame  { return pkt.Eth(outsideMAC, insideMAC).IPv6(from, to) }

// session reads an entry as seen on one side; the test fails if there is none.
func (b *bench) session(side uint16, local string, lport uint16, remote string, rport uint16, proto uint8) session {
	b.t.Helper()
	k := keyOf(endpoint{netip.MustParseAddr(local), lport}, endpoint{netip.MustParseAddr(remote), rport}, proto)
	k.Zone |= side
	s, ok := tablesOf(b.t, b.Lab).find(k)
	if !ok {
		b.t.Errorf("side %d: there is no session of %s:%d %s:%d", side, local, lport, remote, rport)
	}
	return s
}

// atBothHooks is bpftest.Each without call mode, for tests that do not depend on it.
func atBothHooks(t *testing.T, test func(t *testing.T, l *bpftest.Lab)) {
	t.Parallel()
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			test(t, bpftest.New(t, bpftest.Options{Hosts: 2, Type: typ}))
		})
	}
}
