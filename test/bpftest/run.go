// SPDX-License-Identifier: Apache-2.0

package bpftest

// Runs one frame through the program of a netdev, and collects all its effects.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/test/netns"
)

// Outcome is the result of a frame.
type Outcome struct {
	// Verdict is "send", "flood", "drop" or "pass"; the same at both hooks.
	Verdict string
	// Sent are the ports that sent it, as "br1:p2", sorted and separated by blanks.
	Sent string
	// Fate are the cubes in which it ended and how, as "br1 same-port", separated by commas.
	Fate string
}

// Run runs the program of a netdev on a frame as if it was received there, and returns the result. The test fails if
// the frame's bytes changed, if its port did not count it, or if verdict and counters contradict each other.
func (l *Lab) Run(dev string, frame []byte) Outcome {
	l.t.Helper()
	out, got := l.RunBytes(dev, frame)
	if !bytes.Equal(got, frame) {
		l.t.Errorf("the frame changed on its way\nfrom %x\n  to %x", frame, got)
	}
	return out
}

// RunBytes is Run for programs that change frames; it returns the resulting bytes.
func (l *Lab) RunBytes(dev string, frame []byte) (Outcome, []byte) {
	l.t.Helper()
	out, got, err := l.TryBytes(dev, frame)
	switch {
	case errors.Is(err, errContradiction):
		l.t.Error(err)
	case err != nil:
		l.t.Fatal(err)
	}
	return out, got
}

// errContradiction is a contradiction between the results of a frame.
var errContradiction = errors.New("verdict and counters contradict each other")

// TryBytes is RunBytes for frames that the kernel may refuse to run (ErrRefused), and for tests that continue after an
// error.
func (l *Lab) TryBytes(dev string, frame []byte) (Outcome, []byte, error) {
	l.t.Helper()
	before := l.count()
	verdict, got, err := l.run(dev, frame)
	if err != nil {
		return Outcome{}, nil, fmt.Errorf("run a frame of %d bytes on %s: %w", len(frame), dev, err)
	}
	after := l.count()
	out := after.since(before)
	var faults []error
	if n := len(grown(before.rx, after.rx)); n == 0 && len(before.rx) > 0 {
		faults = append(faults, errors.New("no port counted it"))
	}
	if out.Verdict, err = l.judge(verdict, out); err != nil {
		faults = append(faults, err)
	}
	if len(faults) > 0 {
		return out, got, fmt.Errorf("frame from %s: %w: %w", dev, errContradiction, errors.Join(faults...))
	}
	return out, got, nil
}

// ErrRefused is a frame that the kernel does not take for a test run: one of IPv4 or IPv6 without its whole header.
var ErrRefused = unix.EINVAL

// since returns the counts between before and t, without a verdict.
func (t totals) since(before totals) Outcome {
	return Outcome{Sent: strings.Join(grown(before.tx, t.tx), " "), Fate: strings.Join(grown(before.fates, t.fates), ", ")}
}

// raw verdicts of the hooks.
const (
	tcUnspec, tcOK, tcShot, tcRedirect = 0xffffffff, 0, 2, 7
	xdpDrop, xdpPass, xdpRedirect      = 1, 2, 4
)

// judge names a hook's verdict, compared with the counts.
func (l *Lab) judge(raw uint32, o Outcome) (string, error) {
	names := map[uint32]string{tcUnspec: "pass", tcOK: "pass", tcShot: "drop", tcRedirect: "send"}
	if l.Type.Hook() == cube.XDP {
		names = map[uint32]string{xdpDrop: "drop", xdpPass: "pass", xdpRedirect: "send"}
	}
	name, ok := names[raw]
	flooded, redirected := strings.Contains(o.Fate, " flood"), strings.Contains(o.Fate, " redirected")
	passed := strings.Contains(o.Fate, " pass") // also by the last cube before the wire of its netdev
	switch {
	case !ok:
		return "", fmt.Errorf("the program returned %d, which is no verdict of the hook", int32(raw))
	case flooded && name != "pass":
		return "flood", nil // TC drops the original of the copies, XDP broadcasts it
	case name == "send" && o.Sent == "" && !redirected && !passed, name == "drop" && o.Fate == "", name == "pass" && !passed:
		return name, fmt.Errorf("the verdict is %s, but sent is %q and fate %q", name, o.Sent, o.Fate)
	}
	return name, nil
}

// run calls BPF_PROG_TEST_RUN on the root program of a netdev.
func (l *Lab) run(dev string, frame []byte) (verdict uint32, got []byte, err error) {
	err = l.Do(func() (err error) {
		prog, ifindex, err := l.program(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, prog.Close()) }()
		opts := l.testRun(ifindex, frame)
		if verdict, err = prog.Run(opts); err != nil {
			return err
		}
		got = opts.DataOut
		return nil
	})
	return verdict, got, err
}

// Together runs the program of a netdev on frames from several threads at once, and calls each with the result of one:
// its bytes, nil if it was dropped. It does not check counters.
func (l *Lab) Together(dev string, threads int, frames [][]byte, each func(n int, got []byte)) {
	l.t.Helper()
	dropped := uint32(tcShot)
	if l.Type.Hook() == cube.XDP {
		dropped = xdpDrop
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	for first := range threads {
		wg.Go(func() {
			err := l.Do(func() (err error) {
				prog, ifindex, err := l.program(dev)
				if err != nil {
					return err
				}
				defer func() { err = errors.Join(err, prog.Close()) }()
				for n := first; n < len(frames); n += threads {
					opts := l.testRun(ifindex, frames[n])
					verdict, err := prog.Run(opts)
					if err != nil {
						return err
					}
					if verdict == dropped {
						opts.DataOut = nil
					}
					mu.Lock()
					each(n, opts.DataOut)
					mu.Unlock()
				}
				return nil
			})
			if err != nil {
				l.t.Errorf("frames on %s: %v", dev, err)
			}
		})
	}
	wg.Wait()
}

// testRun are the arguments of BPF_PROG_TEST_RUN for a frame from a netdev.
func (l *Lab) testRun(ifindex int, frame []byte) *ebpf.RunOptions {
	return &ebpf.RunOptions{
		Data: frame, DataOut: make([]byte, len(frame)+256), Context: Context(l.Type.Hook(), ifindex, len(frame)),
	}
}

// Context sets up a test run as if a frame of a given size was received by a netdev of the namespace.
func Context(hook cube.Hook, ifindex, size int) any {
	if hook == cube.XDP {
		return xdpMD{DataEnd: uint32(size), IngressIfindex: uint32(ifindex)}
	}
	return skBuff{Ifindex: uint32(ifindex)}
}

// skBuff is the beginning of struct __sk_buff of <linux/bpf.h>, which the kernel completes.
type skBuff struct {
	Len, PktType, Mark, QueueMapping, Protocol, VLANPresent, VLANTCI, VLANProto, Priority uint32
	IngressIfindex, Ifindex                                                               uint32
}

// xdpMD is struct xdp_md of <linux/bpf.h>.
type xdpMD struct{ Data, DataEnd, DataMeta, IngressIfindex, RxQueueIndex, EgressIfindex uint32 }

// program opens the program that a netdev of this namespace carries at the lab's hook.
func (l *Lab) program(dev string) (*ebpf.Program, int, error) {
	nl, err := netlink.LinkByName(dev)
	if err != nil {
		return nil, 0, err
	}
	attrs := nl.Attrs()
	if l.Type.Hook() == cube.XDP {
		if attrs.Xdp == nil || !attrs.Xdp.Attached {
			return nil, 0, errors.New("it carries no XDP program")
		}
		prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(attrs.Xdp.ProgId))
		return prog, attrs.Index, err
	}
	found, err := netns.TCPrograms(nl, ebpf.AttachTCXIngress)
	if err != nil {
		return nil, 0, err
	}
	if len(found) != 1 {
		return nil, 0, fmt.Errorf("it carries %d programs, want 1", len(found))
	}
	prog, err := ebpf.NewProgramFromID(found[0])
	return prog, attrs.Index, err
}

// totals are all counters of the lab, by name.
type totals struct{ rx, tx, fates map[string]uint64 }

func (l *Lab) count() totals {
	l.t.Helper()
	t := totals{map[string]uint64{}, map[string]uint64{}, map[string]uint64{}}
	for _, ref := range l.manager.Cubes() {
		for name, n := range l.Fates(ref.Name) {
			t.fates[ref.Name+" "+name] = n
		}
		for _, port := range l.ports(ref.Name) {
			c := l.Counters(ref.Name, port)
			t.rx[ref.Name+":"+port], t.tx[ref.Name+":"+port] = c.RxPackets, c.TxPackets
		}
	}
	lost, err := l.plane.Fates(0)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, f := range lost {
		t.fates["framework "+f.Name] = f.Packets
	}
	return t
}

// ports are the names of a cube's ports. They are read once after each change: reading a cube reads its state, too.
func (l *Lab) ports(name string) []string {
	l.plane.mu.Lock()
	out, ok := l.plane.ports[name]
	l.plane.mu.Unlock()
	if ok {
		return out
	}
	var conf struct {
		Ports []cube.Port `json:"ports"`
	}
	if err := json.Unmarshal([]byte(l.Read(name)), &conf); err != nil {
		l.t.Fatalf("ports of %s: %v", name, err)
	}
	for _, p := range conf.Ports {
		out = append(out, p.Name)
	}
	l.plane.mu.Lock()
	defer l.plane.mu.Unlock()
	if l.plane.ports == nil {
		l.plane.ports = map[string][]string{}
	}
	l.plane.ports[name] = out
	return out
}

// grown lists the counters that grew, with the difference if it is more than one.
func grown(before, after map[string]uint64) []string {
	var out []string
	for what, n := range after {
		switch n - before[what] {
		case 0:
		case 1:
			out = append(out, what)
		default:
			out = append(out, fmt.Sprintf("%s x%d", what, n-before[what]))
		}
	}
	slices.Sort(out)
	return out
}

// Counters of a port.
func (l *Lab) Counters(name, port string) datapath.PortCounters {
	l.t.Helper()
	c, err := l.manager.PortStats(name, port)
	if err != nil {
		l.t.Fatalf("counters of %s:%s: %v", name, port, err)
	}
	return c
}

// Fates of a cube that occurred, by name.
func (l *Lab) Fates(name string) map[string]uint64 {
	l.t.Helper()
	list, err := l.manager.Fates(name)
	if err != nil {
		l.t.Fatalf("fates of %s: %v", name, err)
	}
	out := map[string]uint64{}
	for _, f := range list {
		if f.Packets > 0 {
			out[f.Name] = f.Packets
		}
	}
	return out
}

// Unmet are the drop reasons that the service of a cube defines, and that no packet has had.
func (l *Lab) Unmet(name string) (names []string) {
	l.t.Helper()
	list, err := l.manager.Fates(name)
	if err != nil {
		l.t.Fatalf("fates of %s: %v", name, err)
	}
	for _, f := range list[len(counters.FrameworkReasons()):] {
		if f.Packets == 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// slice is how many runs are timed at once: at TC less than a scheduler's turn, and at XDP far more than the grace period
// for which the kernel waits before the first.
var slice = map[cube.Hook]int{cube.TC: 5000, cube.XDP: 100_000}

// Time returns nanoseconds for each run of a frame on a netdev, the framework's part included: of all, and of the fastest
// slice, which on a busy machine says more.
func (l *Lab) Time(b *testing.B, dev string, frame []byte) {
	b.Helper()
	l.TimeWith(b, dev, frame, 0, func(carried *ebpf.Program) (*ebpf.Program, error) { return carried.Clone() })
}

// TimeWith does that for a program around the one that the netdev carries, which a function creates, such as one that
// writes another packet first. It is closed. Before that it runs `warm` times.
func (l *Lab) TimeWith(b *testing.B, dev string, frame []byte, warm uint32, around func(carried *ebpf.Program) (*ebpf.Program, error)) {
	b.Helper()
	err := l.Do(func() (err error) {
		carried, ifindex, err := l.program(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, carried.Close()) }()
		prog, err := around(carried)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, prog.Close()) }()
		opts := l.testRun(ifindex, frame)
		if opts.Repeat = warm; warm > 0 {
			if _, err := prog.Run(opts); err != nil {
				return err
			}
		}
		fastest := math.Inf(1)
		b.ResetTimer()
		for left := b.N; left > 0; left -= int(opts.Repeat) {
			opts.Repeat = uint32(min(left, slice[l.Type.Hook()]))
			start := time.Now()
			if _, err := prog.Run(opts); err != nil {
				return err
			}
			fastest = min(fastest, float64(time.Since(start))/float64(opts.Repeat))
		}
		b.StopTimer()
		b.ReportMetric(fastest, "ns/fastest")
		return nil
	})
	if err != nil {
		b.Fatal(err)
	}
}

// Flood runs the program of a netdev on a frame many times, as fast as possible.
func (l *Lab) Flood(dev string, frame []byte, times uint32) {
	l.t.Helper()
	err := l.Do(func() (err error) {
		prog, ifindex, err := l.program(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, prog.Close()) }()
		opts := l.testRun(ifindex, frame)
		opts.Repeat = times
		return netns.Uninterrupted(func() error {
			_, err := prog.Run(opts)
			return err
		})
	})
	if err != nil {
		l.t.Fatalf("run %d frames on %s: %v", times, dev, err)
	}
}

// Shed returns how many packets and messages of a cube were not handled in user space.
func (l *Lab) Shed(name string) uint64 { return l.manager.ShedPackets(name) }

// RunAll runs the program of a netdev on frames, one after the other, and returns the resulting bytes of each: nil for
// one that was not sent. It does not check counters, so it is much faster than RunBytes.
func (l *Lab) RunAll(dev string, frames [][]byte) [][]byte {
	l.t.Helper()
	out := make([][]byte, len(frames))
	err := l.Do(func() (err error) {
		prog, ifindex, err := l.program(dev)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, prog.Close()) }()
		for i, frame := range frames {
			opts := l.testRun(ifindex, frame)
			verdict, err := prog.Run(opts)
			if err != nil {
				return fmt.Errorf("frame %d, %x: %w", i, frame, err)
			}
			if verdict == tcRedirect && l.Type.Hook() == cube.TC || verdict == xdpRedirect && l.Type.Hook() == cube.XDP {
				out[i] = opts.DataOut
			}
		}
		return nil
	})
	if err != nil {
		l.t.Fatalf("run %d frames on %s: %v", len(frames), dev, err)
	}
	return out
}
