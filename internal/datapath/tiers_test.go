// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

func TestCallModeIsPublishedAtOnceAndInlineFollows(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, setting{typ: typ, mode: ModeAuto})
			one, _, a, z := b.chain()
			if got := b.plane.Status(one.ID); got.Mode != "call" && got.Mode != "inline" || (got.Mode == "call") == (got.Reason == "") {
				t.Errorf("status %+v right after the commit", got)
			}
			b.passes(a, z, frame("at once"))
			netns.Eventually(t, soon, func() error {
				if got := b.plane.Status(one.ID); got.Mode != "inline" || got.Reason != "" || got.Instructions == 0 {
					return fmt.Errorf("status %+v, want inline", got)
				}
				return nil
			})
			b.passes(a, z, frame("inline"))
			b.passes(z, a, frame("inline"))
		})
	}
}

func TestWhatCannotBeInlinedStaysInCallModeWithAReason(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeAuto})
	// with a budget so small, nothing fits
	b.plane.inline.budget = 10
	one, _, a, z := b.chain()
	netns.Eventually(t, soon, func() error {
		if got := b.plane.Status(one.ID); got.Mode != "call" || !strings.Contains(got.Reason, "instructions") {
			return fmt.Errorf("status %+v, want call with a reason", got)
		}
		return nil
	})
	b.passes(a, z, frame("still there"))
}

// TestInliningIsTriedAgainWhenTheMachineHadNoRoom: a file system in which pins cannot be created for a while.
func TestInliningIsTriedAgainWhenTheMachineHadNoRoom(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeAuto})
	remount := func(flags uintptr) {
		t.Helper()
		if err := unix.Mount("", filepath.Dir(b.plane.opts.Dir), "", unix.MS_REMOUNT|flags, ""); err != nil {
			t.Fatal(err)
		}
	}
	in := b.plane.inline
	in.again, in.budget = 10*time.Millisecond, 10 // nothing fits, for now
	one, _, a, z := b.chain()
	inCall := func(reason string) {
		t.Helper()
		netns.Eventually(t, soon, func() error {
			if got := b.plane.Status(one.ID); got.Mode != "call" || !strings.Contains(got.Reason, reason) {
				return fmt.Errorf("status %+v, want call, and a reason with %q", got, reason)
			}
			return nil
		})
	}
	inCall("instructions")
	remount(unix.MS_RDONLY)
	b.plane.mu.Lock()
	in.budget = inlineBudget
	clear(in.refused)
	b.plane.mu.Unlock()
	in.wake()
	inCall("read-only")
	b.passes(a, z, frame("still there"))
	remount(0)
	netns.Eventually(t, soon, func() error {
		if got := b.plane.Status(one.ID); got.Mode != "inline" || got.Reason != "" {
			return fmt.Errorf("status %+v, want inline", got)
		}
		return nil
	})
	b.passes(a, z, frame("inline"))
}

// verdictOf runs the first component's program on a frame as if received from the netdev.
func (b *bench) verdictOf(netdev string, f []byte) (uint32, []byte) {
	b.t.Helper()
	ctx := make([]byte, 24)
	at := 12 // xdp_md.ingress_ifindex
	if b.typ == cube.TypeTC {
		ctx, at = make([]byte, 192), 40 // __sk_buff.ifindex
	} else {
		ctx[4], ctx[5] = byte(len(f)), byte(len(f)>>8) // data_end
	}
	ctx[at] = byte(b.g.Netdevs[netdev].Index)
	var verdict uint32
	out := make([]byte, len(f))
	b.must(func() (err error) {
		prog := b.plane.parts[0].gen.Program(b.typ.Hook(), link.OnIngress)
		opts := &ebpf.RunOptions{Data: f, DataOut: out, Context: ctx}
		verdict, err = prog.Run(opts)
		out = opts.DataOut
		return err
	})
	return verdict, out
}

// outcome is what happened to one packet, in terms common to hooks and modes.
type outcome struct {
	verdict string
	bytes   string
	counts  string
}

var verdictNames = map[cube.Hook]map[uint32]string{
	cube.TC:  {0xffffffff: "pass", 2: "drop", 7: "redirect"},
	cube.XDP: {2: "pass", 1: "drop", 4: "redirect"},
}

func TestBothModesAndBothHooksGiveTheSameResults(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	var want []outcome
	for _, s := range hooksAndModes {
		t.Run(s.String(), func(t *testing.T) {
			got := outcomes(newBench(t, s))
			if want == nil {
				want = got
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("packet %d:\n got %+v\nwant %+v", i, got[i], want[i])
				}
			}
		})
	}
}

// outcomes sends all kinds of packets through three cubes that use all verdicts.
func outcomes(b *bench) []outcome {
	one := b.cube("probe", 3, nil)
	two := b.cube("probe", 3, nil)
	b.link(one, 1, two, 0)
	b.host("a", "", one, 0)
	b.host("z", "", two, 1)
	one.Ports[1].Tcubes = b.gates("t")
	gate := b.g.Cubes[one.Ports[1].Tcubes[0]]
	var out []outcome
	for what := range uint32(9) {
		if what == 2 || what == 3 {
			continue // a flood with copies and the slow path have tests of their own
		}
		for _, c := range []*Node{one, two} {
			c.Constants = map[string]any{"what": what}
			b.commit()
			for _, size := range []int{14, 20, 60, 64, 590, 1514} {
				f := make([]byte, size)
				copy(f, frame("x"))
				verdict, bytes := b.verdictOf("a", f)
				o := outcome{verdict: verdictNames[b.typ.Hook()][verdict], bytes: fmt.Sprintf("%x", bytes)}
				for _, n := range []*Node{one, two, gate} {
					fs, err := b.plane.Fates(n.ID)
					if err != nil {
						b.t.Fatal(err)
					}
					o.counts += fmt.Sprint(fs)
					for i := range uint16(len(n.Ports)) {
						o.counts += fmt.Sprint(b.counters(n, i))
					}
				}
				out = append(out, o)
			}
			c.Constants = nil
		}
	}
	return out
}

func TestASmallCubeThatIsAloneIsInlinedAtOnce(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, setting{typ: typ, mode: ModeAuto})
			b.plane.inline.stop()
			one, two := b.cube("probe", 3, nil), b.cube("probe", 3, nil)
			b.commit()
			if got := b.plane.Status(one.ID); got.Mode != "inline" {
				t.Errorf("a cube that is alone: %+v, want inline", got)
			}
			b.link(one, 1, two, 0)
			b.commit()
			if got := b.plane.Status(one.ID); got.Mode != "call" {
				t.Errorf("a cube with a neighbour: %+v, want call", got)
			}
		})
	}
}
