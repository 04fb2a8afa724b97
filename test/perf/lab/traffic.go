// SPDX-License-Identifier: Apache-2.0

// The generator and the sink: everything that a packet costs is spent in the task that sends it.

package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/pkt"
)

// Wire is a device under test between two hosts:
//
//	left eth0 ── In [device under test] Out ── eth0 right
//
// The generator runs in the namespace of the left host; the sink is the XDP program of the right
// one's eth0. By default both are on one CPU: the kernel handles a frame from veth to veth in the
// task that sends it, so that task's CPU time is the cost of the packet, end to end.
type Wire struct {
	Machine     *netns.Lab
	Left, Right *netns.Node

	objects *ebpf.Collection
	frame   []byte
}

// In and Out are the netdevs of the device under test.
const (
	In  = "in"
	Out = "out"
)

// FrameSize is the length of the frames in bytes, without FCS: the minimum.
const FrameSize = 60

// The sides of a wire, as the programs know them.
const (
	FromLeft  uint32 = 1
	FromRight uint32 = 2
)

// NewWire creates the two hosts and the sink; flows is the number of stations in rotation on each side.
func (r *Rig) NewWire(flows int, opts ...netns.Option) (*Wire, error) {
	w, err := r.hosts("10.77.0.1/24", "10.77.0.2/24", opts...)
	if err != nil {
		return nil, err
	}
	w.frame = Template(FrameSize)
	if w.objects, err = trafficPrograms(w.Left, FromLeft, flows); err != nil {
		return nil, err
	}
	r.Cleanup(w.objects.Close)
	return w, nil
}

// hosts creates the two hosts, which can be reached by redirects.
func (r *Rig) hosts(left, right string, opts ...netns.Option) (*Wire, error) {
	opts = append(opts, netns.WithGRO())
	w := &Wire{Machine: netns.NewLab(r)}
	w.Left = w.Machine.Host(In, left, opts...)
	w.Right = w.Machine.Host(Out, right, opts...)
	for _, host := range []*netns.Node{w.Left, w.Right} {
		err := host.Do(func() error {
			ready, err := netdev.EnsureCanReceiveRedirects(netns.Inner)
			if err == nil && !ready.OK {
				err = errors.New(ready.Reason)
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("wiring: %w", err)
		}
	}
	return w, nil
}

// trafficPrograms loads generator and sink, the former to send from a host's eth0.
func trafficPrograms(host *netns.Node, side uint32, flows int) (*ebpf.Collection, error) {
	spec, err := bpf.Spec("traffic", cube.XDP)
	if err != nil {
		return nil, err
	}
	var index uint32
	err = host.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err == nil {
			index = uint32(dev.Index)
		}
		return err
	})
	for name, value := range map[string]uint32{"gen_ifindex": index, "gen_side": side, "gen_flows": uint32(flows)} {
		err = errors.Join(err, spec.Variables[name].Set(value))
	}
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("generator and sink: %w", err)
	}
	return coll, nil
}

// Template returns a frame of a number of bytes, an IPv4 UDP packet whose addresses the generator fills in.
func Template(size int) []byte {
	udp := make([]byte, size-34)
	copy(udp, []byte{0x10, 0, 0x10, 1, byte(len(udp) >> 8), byte(len(udp))})
	ip := pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.2", Protocol: pkt.ProtoUDP, TTL: 64, Fragment: 0x4000}
	return pkt.EthernetFrame(make([]byte, 6), make([]byte, 6), 0x0800, ip.Packet(udp))
}

// Sink puts the sink on the right host. At XDP it costs least for frames from the generator, whatever forwards them; at
// TC for those from a TAP, which XDP would copy first.
func (r *Rig) Sink(w *Wire, hook cube.Hook) error {
	err := w.Right.Do(func() error {
		if hook == cube.XDP {
			return r.attachXDP(netns.Inner, w.objects.Programs["sink"])
		}
		return r.tcSink(w)
	})
	if err != nil {
		return fmt.Errorf("sink: %w", err)
	}
	return nil
}

// AnotherSink creates a host behind another netdev of the device under test, whose frames count with those of the sink.
func (r *Rig) AnotherSink(w *Wire, name string) error {
	host := w.Machine.Host(name, "", netns.WithGRO())
	if err := host.Do(func() error { return r.attachXDP(netns.Inner, w.objects.Programs["sink"]) }); err != nil {
		return fmt.Errorf("sink %s: %w", name, err)
	}
	return nil
}

// tcSink runs in the right host's namespace.
func (r *Rig) tcSink(w *Wire) error {
	spec, err := bpf.Spec("traffic", cube.TC)
	if err != nil {
		return err
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{
		MapReplacements: map[string]*ebpf.Map{"received": w.objects.Maps["received"]},
	})
	if err != nil {
		return err
	}
	r.Cleanup(coll.Close)
	dev, err := net.InterfaceByName(netns.Inner)
	if err != nil {
		return err
	}
	l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{
		Program: coll.Programs["sink"], Interface: dev.Index, Attach: ebpf.AttachTCXIngress,
	})
	if err == nil {
		r.Closing(l)
	}
	return err
}

// attachXDP attaches a program to a netdev of the calling thread's namespace, in the driver.
func (r *Rig) attachXDP(name string, p *ebpf.Program) error {
	dev, err := net.InterfaceByName(name)
	if err != nil {
		return fmt.Errorf("netdev %s: %w", name, err)
	}
	l, err := ebpflink.AttachXDP(ebpflink.XDPOptions{Program: p, Interface: dev.Index, Flags: ebpflink.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attaching to %s: %w", name, err)
	}
	r.Closing(l)
	return nil
}

// Closing closes c with the rig.
func (r *Rig) Closing(c interface{ Close() error }) {
	r.Cleanup(func() {
		if err := c.Close(); err != nil {
			r.Error(err)
		}
	})
}

// Discard makes the device under test drop everything on ingress: the remaining cost is that of the generator and one
// veth.
func (r *Rig) Discard(w *Wire) error {
	err := w.Machine.Do(func() error { return r.attachXDP(In, w.objects.Programs["sink"]) })
	if err != nil {
		return fmt.Errorf("discarding: %w", err)
	}
	return nil
}

// Counts are totals since the wire was made.
type Counts struct{ Sent, Received, Wrong uint64 }

// Counts reads the generator's and the sink's counters.
func (w *Wire) Counts() (Counts, error) {
	type state struct {
		Packets, Wrong uint64
		Next, Pad      uint32
	}
	var c Counts
	var sent, got []state
	if err := w.objects.Maps["sent"].Lookup(uint32(0), &sent); err != nil {
		return c, fmt.Errorf("generator's counter: %w", err)
	}
	if err := w.objects.Maps["received"].Lookup(uint32(0), &got); err != nil {
		return c, fmt.Errorf("sink's counter: %w", err)
	}
	for i := range sent {
		c.Sent += sent[i].Packets
		c.Received += got[i].Packets
		c.Wrong += got[i].Wrong
	}
	return c, nil
}

// Resize makes the generator send frames of a number of bytes.
func (w *Wire) Resize(size int) { w.frame = Template(size) }

// Send sends a number of frames from the left host on the calling thread, which should be locked.
func (w *Wire) Send(packets int) error {
	return w.Left.Do(func() error { return live(w.objects.Programs["generator"], w.frame, packets) })
}

// floodCall is the number of frames per call while flooding: each call waits for the kernel to patch its XDP
// dispatcher, and there should be few such pauses.
const floodCall = 1 << 19

// Flood sends frames from CPU 0 as fast as they go through, until the context ends.
func (w *Wire) Flood(ctx context.Context) error {
	return netns.OnCPU(0, func() error {
		for ctx.Err() == nil {
			if err := w.Send(floodCall); err != nil {
				return err
			}
		}
		return nil
	})
}

// Spare adds an unused veth to the machine: one more netdev to attach.
func (w *Wire) Spare(name string) error {
	return w.Machine.Do(func() error {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.Flags = name, net.FlagUp
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name + "p"}); err != nil {
			return fmt.Errorf("spare netdev %s: %w", name, err)
		}
		return nil
	})
}

const liveFrames = 1 << 1 // BPF_F_TEST_XDP_LIVE_FRAMES

func live(p *ebpf.Program, frame []byte, packets int) error {
	_, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: uint32(packets), Flags: liveFrames})
	if err != nil {
		return fmt.Errorf("sending live frames: %w", err)
	}
	return nil
}

// Teach lets the device under test learn the stations of both sides: each sends one frame.
func (w *Wire) Teach(flows int) error {
	if err := w.Send(flows); err != nil {
		return err
	}
	back, err := trafficPrograms(w.Right, FromRight, flows)
	if err != nil {
		return err
	}
	defer back.Close()
	return w.Right.Do(func() error { return live(back.Programs["generator"], w.frame, flows) })
}

// Cost is the cost of a packet from the generator to the sink.
type Cost struct {
	NS   float64 // CPU time in ns
	Lost uint64
}

// Measure sends a number of frames on one CPU and returns the cost of each of them.
func (w *Wire) Measure(packets, cpu int) (Cost, error) {
	var c Cost
	before, err := w.Counts()
	if err != nil {
		return c, err
	}
	spent, err := CPUTime(cpu, func() error { return w.Send(packets) })
	if err != nil {
		return c, err
	}
	// A call that a signal interrupts is repeated, so more frames may have been sent than requested.
	after, err := w.Counts()
	if err != nil {
		return c, err
	}
	sent := after.Sent - before.Sent
	if after, err = w.settled(before.Received + sent); err != nil {
		return c, err
	}
	got := after.Received - before.Received
	if got == 0 || after.Wrong > before.Wrong {
		return c, fmt.Errorf("of %d frames %d arrived, %d of them changed", sent, got, after.Wrong-before.Wrong)
	}
	c.NS = float64(spent) / float64(got)
	c.Lost = sent - min(got, sent)
	return c, nil
}

// Use returns the CPU time in ns of CPU 0 per packet when packets come at a rate for a while, spread evenly, from a
// socket.
func (w *Wire) Use(ctx context.Context, rate, flows int, length time.Duration) (float64, error) {
	ctx, stop := context.WithTimeout(ctx, length)
	defer stop()
	sent := 0
	spent, err := CPUTime(0, func() (err error) {
		sent, err = Load(ctx, w.Left, rate, flows)
		return err
	})
	if err == nil && sent == 0 {
		err = errors.New("nothing was sent")
	}
	return float64(spent) / float64(sent), err
}

// Settle waits until all sent frames have arrived, or no more come.
func (w *Wire) Settle() (Counts, error) {
	c, err := w.Counts()
	if err != nil {
		return c, err
	}
	return w.settled(c.Sent)
}

// settled waits until that many frames have arrived or no more come.
func (w *Wire) settled(want uint64) (Counts, error) {
	const quiet = 200 * time.Millisecond
	c, err := w.Counts()
	for last := time.Now(); err == nil && c.Received < want && time.Since(last) < quiet; {
		was := c.Received
		time.Sleep(time.Millisecond)
		if c, err = w.Counts(); c.Received > was {
			last = time.Now()
		}
	}
	return c, err
}
