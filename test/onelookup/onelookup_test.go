// SPDX-License-Identifier: Apache-2.0

// Package onelookup measures a prototype: packets of known flows cross a chain of cubes by one lookup
// (docs/adr/0059-one-lookup-for-a-chain.md).
package onelookup

import (
	"bytes"
	"context"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/examples/cubes/ministate" // the firewall of the chain
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // router and nat
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

//go:embed onelookup.yang onelookup.tc.o onelookup.xdp.o headers.tc.o headers.xdp.o
var files embed.FS

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const (
	gatewayMAC, innerMAC = "02:00:00:00:00:01", "02:00:00:00:01:01"
	outerMAC, serverMAC  = "02:00:00:00:01:02", "02:00:00:00:00:02"
	external, server     = "203.0.113.1", "203.0.113.9"

	// chain is a router between a firewall, on the port inside, and a NAT, on the port outside. Clients are behind a
	// gateway.
	chain = `[{"service-name":"router","name":"r","arp":{"duplicate-detection":false},"ports":[
			{"name":"in","ip":"10.0.0.254/24","mac":"` + innerMAC + `","peer":"veth1","tcubes":["fw"]},
			{"name":"out","ip":"` + external + `/24","mac":"` + outerMAC + `","peer":"veth2","tcubes":["n"]}],
			"arp-table":[{"address":"10.0.0.1","mac":"` + gatewayMAC + `","interface":"in"},
				{"address":"` + server + `","mac":"` + serverMAC + `","interface":"out"}],
			"route":[{"network":"10.1.0.0/16","nexthop":"10.0.0.1"}]},
		{"service-name":"ministate","name":"fw","rules":[{"id":1}]},
		{"service-name":"nat","name":"n","max-sessions":65535,
			"rule":{"snat":{"entry":[{"id":1,"internal-net":"0.0.0.0/0","external-ip":"` + external + `"}]}}}]`

	headersLength = 56 // HEADERS
	frameLength   = 60
	side          = 1 << 31 // in action.Tracked
	zone          = 1
	output        = 1
)

// prototype is the cube, which the test controls by its maps.
type prototype struct{ env cube.Env }

// last is the cube that was created last; tests run one at a time.
var last *prototype

func init() {
	cube.Register(cube.Service{Files: files, New: func(env cube.Env) (cube.Instance, error) {
		last = &prototype{env}
		return cube.Instance{Prepare: func(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }}, nil
	}})
}

// action is struct onelookup_action.
type action struct {
	MACs                                [12]byte
	Source, Destination                 [4]byte
	Ports                               [4]byte
	Addresses, Covered, Header, Tracked uint32
}

// talk is a flow: the first packet of its client, and one of the open flow, as it enters the chain and as it leaves.
type talk struct{ first, in, out []byte }

func newTalk(i int, tcp bool) *talk {
	client, port := fmt.Sprintf("10.1.%d.%d", i>>9&255, i>>1&255), uint16(1024+i)
	there := func() *pkt.Frame { return pkt.Eth(gatewayMAC, innerMAC).IPv4(client, server) }
	if !tcp {
		frame := there().UDP(port, 53).Payload(18).Bytes()
		return &talk{first: frame, in: frame}
	}
	return &talk{first: there().TCP(port, 80, pkt.TCPFlags{SYN: true, Seq: 100}).Bytes(),
		in: there().TCP(port, 80, pkt.TCPFlags{ACK: true, Seq: 101, Ack: 501}).Payload(6).Bytes()}
}

// answer is what the server sends when it gets a frame.
func answer(frame []byte) []byte {
	f, _ := flow.Read(frame)
	back := pkt.Eth(serverMAC, outerMAC).IPv4(server, external)
	if f.Protocol == unix.IPPROTO_UDP {
		return back.UDP(53, f.SourcePort.Number()).Payload(18).Bytes()
	}
	return back.TCP(80, f.SourcePort.Number(), pkt.TCPFlags{SYN: true, ACK: true, Seq: 500, Ack: 101}).Bytes()
}

// open opens flows in the chain, some at a time: only so many may be half open.
func open(b testing.TB, l *bpftest.Lab, flows int, tcp bool) []*talk {
	b.Helper()
	talks := make([]*talk, flows)
	for i := range talks {
		talks[i] = newTalk(i, tcp)
	}
	for some := range slices.Chunk(talks, 4_000) {
		openSome(b, l, some)
	}
	return talks
}

func openSome(b testing.TB, l *bpftest.Lab, talks []*talk) {
	b.Helper()
	first, replies, last := make([][]byte, len(talks)), make([][]byte, len(talks)), make([][]byte, len(talks))
	for i, t := range talks {
		first[i], last[i] = t.first, t.in
	}
	for i, out := range l.RunAll("veth1", first) {
		if out == nil {
			b.Fatalf("the chain refuses the first packet of flow %d", i)
		}
		replies[i] = answer(out)
	}
	l.RunAll("veth2", replies)
	for i, out := range l.RunAll("veth1", last) {
		if out == nil {
			b.Fatalf("the chain refuses a packet of flow %d", i)
		}
		talks[i].out = out
	}
}

// difference is what changes in a sum of words.
func difference(from, to []byte) uint32 {
	sum := uint32(0)
	for i := 0; i < len(from); i += 2 {
		sum += uint32(^binary.NativeEndian.Uint16(from[i:])) + uint32(binary.NativeEndian.Uint16(to[i:]))
	}
	return sum
}

// actionOf is what the chain has done with a packet.
func actionOf(t *talk, tracked uint32) action {
	a := action{Addresses: difference(t.in[26:34], t.out[26:34]), Covered: difference(t.in[34:38], t.out[34:38]), Tracked: tracked}
	a.Header = a.Addresses + difference(t.in[22:24], t.out[22:24])
	copy(a.MACs[:], t.out)
	copy(a.Source[:], t.out[26:])
	copy(a.Destination[:], t.out[30:])
	copy(a.Ports[:], t.out[34:])
	return a
}

// state is that of the TCP connection of a flow, and the side of the client.
func state(t *talk) (conntrack.State, uint8) {
	var s conntrack.State
	f, _ := flow.Read(t.in)
	_, client, _ := table.KeyOf(&f, zone)
	s.TCP(client, conntrack.Segment{Seq: 100, Window: 65535, Flags: conntrack.SYN, Scale: conntrack.NoScale}, conntrack.Options{})
	s.TCP(client^1, conntrack.Segment{Seq: 500, Ack: 101, Window: 65535, Flags: conntrack.SYN | conntrack.ACK, Scale: conntrack.NoScale}, conntrack.Options{})
	s.TCP(client, conntrack.Segment{Seq: 101, Ack: 501, Length: 6, Window: 65535, Flags: conntrack.ACK, Scale: conntrack.NoScale}, conntrack.Options{})
	return s, client
}

// fill creates the prototype on the netdev where clients' packets enter, with an entry for each flow.
func fill(b testing.TB, l *bpftest.Lab, talks []*talk, tcp bool) {
	b.Helper()
	l.CreateAll(`[{"service-name":"onelookup","name":"one","parent":"veth1","outputs":[{"number":1,"to":"veth2"}]}]`)
	t, err := table.Open(last.env, 1<<16-1)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := t.Close(); err != nil {
			b.Error(err)
		}
	})
	states := l.Map("one", "states")
	for i, talk := range talks {
		f, _ := flow.Read(talk.in)
		key, _, ok := table.KeyOf(&f, zone)
		if !ok {
			b.Fatalf("flow %d has no key", i)
		}
		e, tracked := table.Entry{Key: key, Generation: t.Generation(zone), Mark: output}, uint32(0)
		if tcp {
			s, client := state(talk)
			if err := states.Put(uint32(i), &s); err != nil {
				b.Fatal(err)
			}
			tracked = uint32(i+1) | uint32(client)*side
		}
		*(*action)(unsafe.Pointer(&e.State)) = actionOf(talk, tracked)
		if added, err := t.Add(&e); err != nil || !added {
			b.Fatalf("flow %d: added %t, %v", i, added, err)
		}
	}
	check(b, l, talks)
}

// check compares what the prototype makes of packets with what the chain has made of them.
func check(b testing.TB, l *bpftest.Lab, talks []*talk) {
	b.Helper()
	for _, i := range []int{0, len(talks) / 2, len(talks) - 1} {
		out, got := l.RunBytes("veth1", talks[i].in)
		if out.Fate != "one redirected" || !bytes.Equal(got, talks[i].out) {
			b.Fatalf("flow %d: %+v\n got %x\nwant %x", i, out, got, talks[i].out)
		}
	}
}

// harness returns a program that writes the headers of the next flow into the packet, and then runs target. With a nil
// target it runs an empty program, which measures the harness itself.
func harness(b testing.TB, l *bpftest.Lab, talks []*talk, target *ebpf.Program) (*ebpf.Program, error) {
	prog, err := tryHarness(b, l, talks, target, 0)
	if errors.Is(err, unix.EINVAL) && l.Type.Hook() == cube.XDP {
		prog, err = tryHarness(b, l, talks, target, unix.BPF_F_XDP_HAS_FRAGS)
	}
	return prog, err
}

func tryHarness(b testing.TB, l *bpftest.Lab, talks []*talk, target *ebpf.Program, flags uint32) (prog *ebpf.Program, err error) {
	object, err := files.ReadFile("headers." + l.Type.Hook().String() + ".o")
	if err != nil {
		return nil, err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	if err := spec.Variables["flows"].Set(uint32(len(talks))); err != nil {
		return nil, err
	}
	for _, p := range spec.Programs {
		p.Flags |= flags
	}
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	b.Cleanup(c.Close) // a program array is emptied when nobody has it open
	for i, t := range talks {
		if err := c.Maps["headers"].Put(uint32(i), t.in[:headersLength]); err != nil {
			return nil, err
		}
	}
	if target == nil {
		target = c.Programs["nothing"]
	}
	if err := c.Maps["target"].Put(uint32(0), target); err != nil {
		return nil, err
	}
	return c.Programs["write_next"].Clone()
}

// TestThePrototypeDoesWhatTheChainDoes: byte for byte.
func TestThePrototypeDoesWhatTheChainDoes(t *testing.T) {
	for _, typ := range types {
		for _, tcp := range []bool{false, true} {
			t.Run(name(typ, tcp), func(t *testing.T) {
				l := newLab(t, typ)
				fill(t, l, open(t, l, 20, tcp), tcp)
				t.Logf("%d instructions are verified in a program of all four cubes", l.Verified("one"))
			})
		}
	}
}

// BenchmarkEstablished: packets of flows that are known to all cubes, through the chain, through the prototype, and
// through nothing, which is the cost of the harness.
func BenchmarkEstablished(b *testing.B) {
	for _, typ := range types {
		for _, tcp := range []bool{false, true} {
			for _, flows := range []int{1_000, 50_000} {
				if flows > 1_000 && typ.Hook() == cube.XDP {
					continue // to open them one by one takes minutes
				}
				b.Run(fmt.Sprintf("%s/%d", name(typ, tcp), flows), func(b *testing.B) { compare(b, typ, flows, tcp) })
			}
		}
	}
}

var types = []cube.Type{cube.TypeTC, cube.TypeXDPDRV}

func name(typ cube.Type, tcp bool) string {
	return strings.ToLower(string(typ)) + "/" + map[bool]string{false: "UDP", true: "TCP"}[tcp]
}

// newLab creates the chain. Its cubes are called: inlined, the three take more than 512 bytes of stack.
func newLab(t testing.TB, typ cube.Type) *bpftest.Lab {
	t.Helper()
	l := bpftest.New(t, bpftest.Options{Type: typ, Mode: datapath.ModeCall, Hosts: 2})
	l.CreateAll(chain)
	return l
}

func compare(b *testing.B, typ cube.Type, flows int, tcp bool) {
	b.Helper()
	l := newLab(b, typ)
	talks := open(b, l, flows, tcp)
	frame := append(bytes.Clone(talks[0].in), make([]byte, max(0, frameLength-len(talks[0].in)))...)
	time := func(name string, through bool) {
		b.Run(name, func(b *testing.B) {
			l.TimeWith(b, "veth1", frame, 0, func(carried *ebpf.Program) (*ebpf.Program, error) {
				if !through {
					carried = nil
				}
				return harness(b, l, talks, carried)
			})
		})
	}
	time("nothing", false)
	time("chain", true)
	fill(b, l, talks, tcp)
	time("one lookup", true)
}

var _ [unsafe.Sizeof(conntrack.State{}) - unsafe.Sizeof(action{})]byte // it has the place of the state
