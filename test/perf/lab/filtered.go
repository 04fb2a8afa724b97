// SPDX-License-Identifier: Apache-2.0

// Traffic through a machine that forwards between two networks and filters: given frames, or segments of many
// connections, in both directions.

package lab

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/pkt"
)

// Clients is the network of the clients of connections, behind the left host. All other addresses are behind the right
// one.
const Clients = "100.64.0.0/10"

// FilteredFrames is the maximum number of frames in rotation, and PortsOfClient how many ports each client uses.
const (
	FilteredFrames = 16384
	PortsOfClient  = 16
	clientPort     = 1024
)

// Filtered is a wire whose frames are routed by the kernel, or by what is under test, from one host to the other.
type Filtered struct {
	*Wire

	back *ebpf.Collection // generator of the right host, and the sink of the left one
}

// NewFiltered creates the two hosts, with generator and sink each.
func (r *Rig) NewFiltered(opts ...netns.Option) (*Filtered, error) {
	w, err := r.hosts("", "", opts...)
	if err != nil {
		return nil, err
	}
	f := &Filtered{Wire: w}
	w.frame = Template(FrameSize)
	if w.objects, err = r.filtered(w.Left); err == nil {
		f.back, err = r.filtered(w.Right)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// filtered loads the programs to send from a host.
func (r *Rig) filtered(host *netns.Node) (*ebpf.Collection, error) {
	spec, err := bpf.Spec("filters", cube.XDP)
	if err != nil {
		return nil, err
	}
	err = host.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err == nil {
			err = spec.Variables["gen_ifindex"].Set(uint32(dev.Index))
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, fmt.Errorf("generator and sink: %w", err)
	}
	r.Cleanup(coll.Close)
	return coll, nil
}

// Sinks puts sinks on both hosts.
func (f *Filtered) Sinks(r *Rig) error {
	return errors.Join(
		f.Right.Do(func() error { return r.attachXDP(netns.Inner, f.objects.Programs["sink"]) }),
		f.Left.Do(func() error { return r.attachXDP(netns.Inner, f.back.Programs["sink"]) }),
	)
}

// SinkBehindTaps puts a sink on the right host, which all that arrives gets to after it was seen by sockets of AF_PACKET. Make
// the hosts with netns.WithGRO.
func (f *Filtered) SinkBehindTaps(r *Rig) error {
	return f.Right.Do(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return fmt.Errorf("netdev %s: %w", netns.Inner, err)
		}
		l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{Program: f.objects.Programs["sink_tc"], Interface: dev.Index, Attach: ebpf.AttachTCXIngress})
		if err != nil {
			return fmt.Errorf("attaching to %s: %w", netns.Inner, err)
		}
		r.Closing(l)
		return nil
	})
}

// DiscardFrom drops frames from a network at XDP, as early and as cheaply as possible.
func (f *Filtered) DiscardFrom(r *Rig, network netip.Prefix) error {
	first, mask := network.Addr().As4(), net.CIDRMask(network.Bits(), 32)
	return errors.Join(
		f.objects.Variables["discard_first"].Set(binary.NativeEndian.Uint32(first[:])),
		f.objects.Variables["discard_mask"].Set(binary.NativeEndian.Uint32(mask)),
		f.Machine.Do(func() error { return r.attachXDP(In, f.objects.Programs["discard"]) }),
	)
}

// Route lets the machine forward.
func (f *Filtered) Route() error {
	lines := []string{
		"addr add 192.0.2.1/24 dev " + In, "addr add 198.51.100.1/24 dev " + Out,
		fmt.Sprintf("neigh add 192.0.2.2 dev %s lladdr %s nud permanent", In, f.Left.MAC),
		fmt.Sprintf("neigh add 198.51.100.2 dev %s lladdr %s nud permanent", Out, f.Right.MAC),
		"route add " + Clients + " via 192.0.2.2 dev " + In, "route add default via 198.51.100.2 dev " + Out,
	}
	cmd := f.Machine.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w\n%.1000s", err, out)
	}
	return f.Machine.Do(func() error {
		return errors.Join(
			os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0),
			os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte("0"), 0),
			os.WriteFile("/proc/sys/net/ipv4/conf/"+In+"/rp_filter", []byte("0"), 0),
		)
	})
}

// Stream is what is sent from one side: frames in rotation, or segments of connections.
type Stream struct {
	program  string
	objects  *ebpf.Collection
	received *ebpf.Map // the counter of the sink
	from     *netns.Node
	size     int // of frames
}

// streamOf sends frames of the usual size with one of a host's programs, which share their maps with the sink.
func streamOf(program string, objects *ebpf.Collection, from *netns.Node) *Stream {
	return &Stream{program, objects, objects.Maps["received"], from, FrameSize}
}

// frameOf is the frame as the device under test gets it: from the left host to its netdev.
func (f *Filtered) frameOf(ip []byte) []byte {
	return pkt.EthernetFrame(f.Left.OuterMAC, f.Left.MAC, 0x0800, ip)
}

// Replay sends IP packets in rotation, from the left host.
func (f *Filtered) Replay(packets [][]byte) (*Stream, error) {
	frames := make([][]byte, len(packets))
	for i, p := range packets {
		frames[i] = f.frameOf(p)
	}
	if err := putFrames(f.objects, frames); err != nil {
		return nil, err
	}
	err := f.objects.Variables["gen_frames"].Set(uint32(len(frames)))
	return streamOf("generator", f.objects, f.Left), err
}

// putFrames fills the table of frames of a generator, or of the harness for programs.
func putFrames(coll *ebpf.Collection, frames [][]byte) error {
	if len(frames) == 0 || len(frames) > FilteredFrames {
		return fmt.Errorf("%d frames, want 1 to %d: %w", len(frames), FilteredFrames, cube.ErrInvalid)
	}
	keys, values := make([]uint32, len(frames)), make([][FrameSize + 4]byte, len(frames))
	for i, f := range frames {
		keys[i] = uint32(i)
		if copy(values[i][:FrameSize], f) < len(f) {
			return fmt.Errorf("a frame of %d bytes, want %d at most: %w", len(f), FrameSize, cube.ErrInvalid)
		}
	}
	if _, err := coll.Maps["frames"].BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("frames: %w", err)
	}
	return nil
}

// Connections are connections of clients to one server. The clients' addresses follow First, each with PortsOfClient
// ports.
type Connections struct {
	First  netip.Addr
	Count  int
	Server netip.AddrPort
	// Random is whether they are sent in random order.
	Random bool
}

// Segment is a TCP segment that is sent for each connection, back from the server or to it.
type Segment struct {
	Back       bool
	Flags      byte
	Seq, Acked uint32
}

// Flags of TCP.
const (
	FIN = 0x01
	SYN = 0x02
	ACK = 0x10
)

// Packet is the segment of connection i as an IP packet.
func (c Connections) Packet(i int, s Segment) []byte {
	return c.packet(c.address(uint32(i/PortsOfClient)), uint16(clientPort+i%PortsOfClient), s)
}

// Strangers is the first address of clients that have no connection.
func (c Connections) Strangers() netip.Addr { return c.address(1 << 20) }

// Last is the address of the client of the last connection.
func (c Connections) Last() netip.Addr { return c.address(uint32((c.Count - 1) / PortsOfClient)) }

func (c Connections) address(i uint32) netip.Addr {
	a := c.First.As4()
	binary.BigEndian.PutUint32(a[:], binary.BigEndian.Uint32(a[:])+i)
	return netip.AddrFrom4(a)
}

// Part are n of the connections in turn, from i on, which is a multiple of PortsOfClient.
func (c Connections) Part(i, n int) Connections {
	c.First, c.Count, c.Random = c.address(uint32(i/PortsOfClient)), n, false
	return c
}

func (c Connections) packet(client netip.Addr, port uint16, s Segment) []byte {
	from, to, sport, dport := client.String(), c.Server.Addr().String(), port, c.Server.Port()
	if s.Back {
		from, to, sport, dport = to, from, dport, sport
	}
	b := binary.BigEndian.AppendUint16(nil, sport)
	b = binary.BigEndian.AppendUint16(b, dport)
	b = binary.BigEndian.AppendUint32(b, s.Seq)
	b = binary.BigEndian.AppendUint32(b, s.Acked)
	b = append(b, 5<<4, s.Flags, 0xff, 0xff, 0, 0, 0, 0)
	binary.BigEndian.PutUint16(b[16:], ^pkt.Sum(pkt.PseudoHeader(from, to, pkt.ProtoTCP, len(b)), b))
	return pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoTCP, TTL: 64, Fragment: 0x4000}.Packet(b)
}

// Segments sends a segment of each connection in turn.
func (f *Filtered) Segments(c Connections, s Segment) (*Stream, error) {
	out := streamOf("segments", f.objects, f.Left)
	if s.Back {
		out = streamOf("segments", f.back, f.Right)
	}
	ip := c.packet(netip.IPv4Unspecified(), 0, s)
	copy(ip[10:], []byte{0, 0}) // checksums
	copy(ip[36:], []byte{0, 0})
	frame := f.frameOf(ip)
	if s.Back {
		frame = pkt.EthernetFrame(f.Right.OuterMAC, f.Right.MAC, 0x0800, ip)
	}
	if err := putFrames(out.objects, [][]byte{frame}); err != nil {
		return nil, err
	}
	first := c.First.As4()
	pseudo := append([]byte{0, pkt.ProtoTCP, 0, 20}, ip[12:20]...)
	var errs []error
	for name, value := range map[string]uint32{
		"gen_flows": uint32(c.Count), "gen_first": binary.BigEndian.Uint32(first[:]), "gen_random": flag(c.Random),
		"gen_back": flag(s.Back), "gen_ip_sum": half(words(ip[:20])), "gen_l4_sum": half(words(pseudo) + words(ip[20:])),
	} {
		errs = append(errs, out.objects.Variables[name].Set(value))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("generator: %w", err)
	}
	return out, nil
}

func flag(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// half leaves room in a sum for more words.
func half(sum uint32) uint32 { return sum>>16 + sum&0xffff }

// Restart lets a stream begin with its first frame or connection.
func (s *Stream) Restart() error {
	cpus, err := ebpf.PossibleCPU()
	if err == nil {
		err = s.objects.Maps["sent"].Put(uint32(0), make([]streamState, cpus))
	}
	if err != nil {
		return fmt.Errorf("generator: %w", err)
	}
	return nil
}

type streamState struct {
	Packets      uint64
	Next, Random uint32
}

func total(m *ebpf.Map) (uint64, error) {
	var all []streamState
	if err := m.Lookup(uint32(0), &all); err != nil {
		return 0, fmt.Errorf("counter: %w", err)
	}
	var n uint64
	for _, s := range all {
		n += s.Packets
	}
	return n, nil
}

// Passage is what a number of frames took, and how many arrived.
type Passage struct {
	NS             int64 // CPU time in all, of the sender
	Process        int64 // CPU time of the process that forwards
	Sent, Received uint64
}

// PerFrame is the CPU time of a frame sent.
func (p Passage) PerFrame() float64 { return float64(p.NS) / float64(p.Sent) }

// Send sends a number of frames from CPU 0.
func (s *Stream) Send(n int) (p Passage, err error) {
	var before, after [2]uint64
	read := func(into *[2]uint64) (err error) {
		if into[0], err = total(s.objects.Maps["sent"]); err == nil {
			into[1], err = total(s.received)
		}
		return err
	}
	if err := read(&before); err != nil {
		return p, err
	}
	p.NS, err = CPUTime(0, func() error { return netns.Uninterrupted(func() error { return s.burst(n) }) })
	if err != nil {
		return p, err
	}
	const quiet = 50 * time.Millisecond
	for last := time.Now(); ; {
		was := after[1]
		if err := read(&after); err != nil {
			return p, err
		}
		p.Sent, p.Received = after[0]-before[0], after[1]-before[1]
		if p.Received >= p.Sent || p.Received == 0 && time.Since(last) > time.Millisecond || time.Since(last) > quiet {
			return p, nil
		}
		if after[1] > was {
			last = time.Now()
		}
		time.Sleep(time.Millisecond)
	}
}

// Fill writes packets, as frames that come from the left host, to the table of a harness for programs.
func (f *Filtered) Fill(harness *ebpf.Collection, packets [][]byte) error {
	frames := make([][]byte, len(packets))
	for i, p := range packets {
		frames[i] = f.frameOf(p)
	}
	return putFrames(harness, frames)
}

// Flood sends frames from CPU 0 that need not arrive.
func (s *Stream) Flood(n int) (p Passage, err error) {
	before, err := total(s.objects.Maps["sent"])
	if err != nil {
		return p, err
	}
	if err := netns.OnCPU(0, func() error { return s.burst(n) }); err != nil {
		return p, err
	}
	after, err := total(s.objects.Maps["sent"])
	p.Sent = after - before
	return p, err
}

// Through sends frames to a process that forwards them, as fast as it goes, and also returns the CPU time of that process
// meanwhile. Frames may be lost.
func (s *Stream) Through(n, pid int) (p Passage, err error) {
	if pid == 0 {
		return s.Send(n)
	}
	var sent, received, process [2]int64
	read := func(i int) error {
		a, err := total(s.objects.Maps["sent"])
		if err != nil {
			return err
		}
		b, err := total(s.received)
		if err != nil {
			return err
		}
		sent[i], received[i] = int64(a), int64(b)
		process[i], err = threadsTime(pid)
		return err
	}
	if err := netns.OnCPU(0, func() error { return s.burst(n) }); err != nil { // it is busy from the beginning on
		return p, err
	}
	if err := read(0); err != nil {
		return p, err
	}
	p.NS, err = CPUTime(0, func() error { return s.burst(8 * n) })
	if err != nil {
		return p, err
	}
	err = read(1)
	p.Sent, p.Received, p.Process = uint64(sent[1]-sent[0]), uint64(received[1]-received[0]), process[1]-process[0]
	return p, err
}

// burst sends frames on the calling thread's CPU.
func (s *Stream) burst(n int) error {
	return s.from.Do(func() error { return live(s.objects.Programs[s.program], Template(s.size), n) })
}
