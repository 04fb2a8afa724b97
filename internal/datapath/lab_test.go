// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// TestMain runs more tests in parallel than there are processors: most of their time they wait for the kernel's grace
// periods. The flag still overrides it.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // the testing package has another name for it
	}
	os.Exit(netns.CheckLeaks(m))
}

var (
	//go:embed testdata/probe.tc.o
	probeTC []byte
	//go:embed testdata/probe.xdp.o
	probeXDP []byte
	//go:embed testdata/gate.tc.o
	gateTC []byte
	//go:embed testdata/gate.xdp.o
	gateXDP []byte
	//go:embed testdata/hostile.tc.o
	hostileTC []byte
	//go:embed testdata/hostile.xdp.o
	hostileXDP []byte
	//go:embed testdata/refused.tc.o
	refusedTC []byte
	//go:embed testdata/refused.xdp.o
	refusedXDP []byte
	//go:embed testdata/globalnull.tc.o
	globalNullTC []byte
	//go:embed testdata/globalnull.xdp.o
	globalNullXDP []byte
	//go:embed testdata/sets.tc.o
	setsTC []byte
	//go:embed testdata/sets.xdp.o
	setsXDP []byte
	//go:embed testdata/setsout.tc.o
	setsoutTC []byte
	//go:embed testdata/setsout.xdp.o
	setsoutXDP []byte
	//go:embed testdata/offering.tc.o
	offeringTC []byte
	//go:embed testdata/offering.xdp.o
	offeringXDP []byte
	//go:embed testdata/taker.tc.o
	takerTC []byte
	//go:embed testdata/taker.xdp.o
	takerXDP []byte
	//go:embed testdata/detour.tc.o
	detourTC []byte
	//go:embed testdata/detour.xdp.o
	detourXDP []byte
	//go:embed testdata/echoer.tc.o
	echoerTC []byte
	//go:embed testdata/echoer.xdp.o
	echoerXDP []byte
	//go:embed testdata/twoway.tc.o
	twowayTC []byte
	//go:embed testdata/twoway.xdp.o
	twowayXDP []byte
)

// bench is a plane in a network namespace of its own, with a graph that tests extend.
type bench struct {
	t      *testing.T
	lab    *netns.Lab
	dir    string
	opts   Options
	plane  *Plane
	g      *Graph
	typ    cube.Type
	slots  uint16
	nextID CubeID
	// streams counts started streams: each one sends from another CPU than the previous one.
	streams int
}

// setting is how a test runs: hook and mode.
type setting struct {
	typ    cube.Type
	mode   Mode
	clsact bool
	cut    int  // the cubes of one segment, 0 for as many as fit
	old    bool // the kernel lacks all optional features
	spares bool // segments have spare programs; other tests count programs
}

func (s setting) String() string {
	name := fmt.Sprintf("%s_%s", s.typ, s.mode)
	if s.clsact {
		name += "_clsact"
	}
	if s.cut > 0 {
		name += "_cut"
	}
	if s.old {
		name += "_old"
	}
	if s.spares {
		name += "_spares"
	}
	return name
}

var settings = []setting{
	{typ: cube.TypeTC, mode: ModeCall},
	{typ: cube.TypeTC, mode: ModeInline},
	{typ: cube.TypeTC, mode: ModeInline, clsact: true},
	{typ: cube.TypeXDPDRV, mode: ModeCall},
	{typ: cube.TypeXDPDRV, mode: ModeInline},
	{typ: cube.TypeXDPSKB, mode: ModeInline},
	{typ: cube.TypeTC, mode: ModeInline, cut: 1},
	{typ: cube.TypeXDPDRV, mode: ModeCall, cut: 1},
}

// whole are the settings for tests of what is true for uncut graphs only.
var whole = settings[:6]

// hooksAndModes are the settings for tests of what depends on the programs only, which filters and generic XDP share
// with tcx and native XDP.
var hooksAndModes = []setting{settings[0], settings[1], settings[3], settings[4]}

// inlined covers each way to attach programs once.
var inlined = []setting{settings[1], settings[4], settings[5]}

// everywhere runs a test in all settings, in parallel: each has a network namespace of its own.
func everywhere(t *testing.T, test func(*testing.T, *bench)) { in(t, settings, test) }

// in runs a test in some settings.
func in(t *testing.T, some []setting, test func(*testing.T, *bench)) {
	netns.NeedRoot(t)
	t.Parallel()
	for _, s := range some {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, s))
		})
	}
}

func newBench(t *testing.T, s setting) *bench {
	b := &bench{
		t: t, lab: netns.NewLab(t), typ: s.typ, dir: filepath.Join(netns.Bpffs(t), "pcn"),
		g: &Graph{Cubes: map[CubeID]*Node{}, Netdevs: map[string]*Netdev{}},
	}
	b.opts = Options{
		Dir: b.dir, Instance: "test", Mode: s.mode, Clsact: s.clsact,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), SegmentCubes: s.cut, NoSpares: !s.spares,
	}
	if s.old {
		b.opts.Kernel = &kernel.Features{}
	}
	b.open()
	t.Cleanup(func() {
		if b.plane != nil {
			b.must(b.plane.Cleanup)
		}
		b.plane, b.g = nil, nil // package testing keeps what cleanups refer to until all tests have ended
	})
	return b
}

func (b *bench) open() {
	b.t.Helper()
	b.must(func() (err error) {
		if b.plane, err = Open(b.opts); err != nil {
			return err
		}
		b.plane.mu.Lock()
		b.plane.inline.spareWithin = soon // on a machine that is busy, or emulated
		b.plane.mu.Unlock()
		return register(b.plane)
	})
}

// register registers the tests' services with a plane.
func register(p *Plane) error {
	var errs []error
	for name, objects := range map[string]map[cube.Hook][]byte{
		"probe":      {cube.TC: probeTC, cube.XDP: probeXDP},
		"gate":       {cube.TC: gateTC, cube.XDP: gateXDP},
		"hostile":    {cube.TC: hostileTC, cube.XDP: hostileXDP},
		"refused":    {cube.TC: refusedTC, cube.XDP: refusedXDP},
		"globalnull": {cube.TC: globalNullTC, cube.XDP: globalNullXDP},
		"sets":       {cube.TC: setsTC, cube.XDP: setsXDP},
		"setsout":    {cube.TC: setsoutTC, cube.XDP: setsoutXDP},
		"twoway":     {cube.TC: twowayTC, cube.XDP: twowayXDP},
		"offering":   {cube.TC: offeringTC, cube.XDP: offeringXDP},
		"detour":     {cube.TC: detourTC, cube.XDP: detourXDP},
		"echoer":     {cube.TC: echoerTC, cube.XDP: echoerXDP},
		"taker":      {cube.TC: takerTC, cube.XDP: takerXDP},
	} {
		errs = append(errs, p.CheckObject(name, objects))
	}
	return errors.Join(errs...)
}

// close stops the daemon; programs stay.
func (b *bench) close() {
	b.t.Helper()
	b.must(b.plane.Close)
	b.plane = nil
}

func (b *bench) must(fn func() error) {
	b.t.Helper()
	if err := b.lab.Do(fn); err != nil {
		b.t.Fatal(err)
	}
}

// transparent are the services of transparent cubes.
var transparent = map[string]bool{"gate": true, "taker": true, "detour": true, "echoer": true}

// cube makes a cube of a service with n ports.
func (b *bench) cube(service string, ports int, constants map[string]any) *Node {
	b.t.Helper()
	b.nextID++
	n := &Node{
		ID: b.nextID, Name: fmt.Sprintf("%s%d", service, b.nextID), Type: b.typ, LogLevel: LogInfo,
		Constants: constants,
	}
	b.must(func() error {
		return b.plane.CreateCube(Spec{
			ID: n.ID, UUID: n.Name, Name: n.Name, Service: service, Type: b.typ, Transparent: transparent[service],
		})
	})
	b.g.Cubes[n.ID] = n
	if !transparent[service] {
		n.Ports = map[uint16]*Port{}
	}
	for i := range uint16(ports) {
		n.Ports[i] = &Port{Index: i, Name: fmt.Sprintf("p%d", i), Slot: b.slots}
		b.slots++
	}
	return n
}

// link connects two ports of cubes.
func (b *bench) link(a *Node, p uint16, c *Node, q uint16) {
	a.Ports[p].Peer = Peer{Cube: c.ID, Port: q}
	c.Ports[q].Peer = Peer{Cube: a.ID, Port: p}
}

// host makes a host behind a port.
func (b *bench) host(name, addr string, n *Node, p uint16) *netns.Node {
	b.t.Helper()
	h := b.lab.Host(name, addr, netns.WithGRO())
	b.netdev(name)
	n.Ports[p].Peer = Peer{Netdev: name}
	return h
}

func (b *bench) netdev(name string) *Netdev {
	b.t.Helper()
	d := &Netdev{Name: name}
	b.must(func() error {
		i, err := ifindex(name)
		d.Index = i
		return err
	})
	b.g.Netdevs[name] = d
	return d
}

// commit commits the graph.
func (b *bench) commit() {
	b.t.Helper()
	b.must(b.tryCommit)
}

func (b *bench) tryCommit() error {
	ch, err := b.plane.Prepare(context.Background(), cloneOf(b.g))
	if err != nil {
		return err
	}
	if err := ch.Commit(); err != nil {
		return err
	}
	b.wantWhole()
	return nil
}

// cloneOf copies the graph deeply, as the caller of a plane does for each change.
func cloneOf(g *Graph) *Graph {
	out := &Graph{Cubes: map[CubeID]*Node{}, Netdevs: map[string]*Netdev{}, Trace: g.Trace}
	for id, n := range g.Cubes {
		c := *n
		c.Outputs = slices.Clone(n.Outputs)
		if n.Ports != nil {
			c.Ports = map[uint16]*Port{}
		}
		for i, p := range n.Ports {
			q := *p
			q.Tcubes = append([]CubeID(nil), p.Tcubes...)
			c.Ports[i] = &q
		}
		if n.Shadow != nil {
			c.Shadow = &Shadow{Span: n.Shadow.Span, Ends: maps.Clone(n.Shadow.Ends)}
		}
		out.Cubes[id] = &c
	}
	for name, d := range g.Netdevs {
		c := *d
		c.Tcubes = append([]CubeID(nil), d.Tcubes...)
		out.Netdevs[name] = &c
	}
	if g.Host != nil {
		out.Host = &Host{Tcubes: slices.Clone(g.Host.Tcubes), Netdevs: slices.Clone(g.Host.Netdevs)}
	}
	return out
}

// fate returns how many packets ended in this way in a cube.
func (b *bench) fate(n *Node, name string) uint64 {
	b.t.Helper()
	fs, err := b.plane.Fates(n.ID)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, f := range fs {
		if f.Name == name {
			return f.Packets
		}
	}
	b.t.Fatalf("%s has no fate %q", n.Name, name)
	return 0
}

func (b *bench) counters(n *Node, port uint16) PortCounters {
	b.t.Helper()
	c, err := b.plane.PortCounters(n.Ports[port].Slot)
	if err != nil {
		b.t.Fatal(err)
	}
	return c
}

// frame is a test frame: broadcast by default, with an ethertype that no stack answers.
func frame(payload string) []byte {
	data := make([]byte, 50)
	copy(data[16:], payload)
	return pkt.Eth("02:aa:00:00:00:01", "02:aa:00:00:00:02").Data(data).Bytes()
}

func isTest(f []byte) bool { return len(f) > 14 && f[12] == 0x88 && f[13] == 0xb5 }

var soon = pace.Stretch(15 * time.Second)

// passes sends a frame from one host and returns it as another one receives it.
func (b *bench) passes(from, to *netns.Node, f []byte) []byte {
	b.t.Helper()
	rx := netns.OpenRaw(b.t, to, netns.Inner)
	tx := netns.OpenRaw(b.t, from, netns.Inner)
	if err := tx.Send(f); err != nil {
		b.t.Fatal(err)
	}
	got, err := rx.Recv(isTest, soon)
	if err != nil {
		b.t.Fatalf("from %s to %s: %v", from.Outer, to.Outer, err)
	}
	return got
}
