// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	corebpf "github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
)

// A machine runs a component's linked programs on one packet, whose way the test says: each
// standard cube asks it for the verdict and the port.
type machine struct {
	t      *testing.T
	vm     *vm
	c      *Component
	core   *Core
	mode   Mode
	ctx    int
	arrive func(ctx []byte) // changes the context of a packet that arrives; nil for nothing
	script []uint64         // verdict<<16 | port, in the order in which cubes ask
	asked  int

	trail []string // the places passed, "in.1 in.2'"
	ports []uint16 // md.in_port there
	turns int      // tail calls
	sent  uint32   // the netdev of the last redirect
	// sentNeigh is the netdev of the last redirect to a neighbour.
	sentNeigh uint32
	up        []uint32 // who asked for the slow path
	dirtied   error
	programs  map[Role]asm.Instructions
}

// placeLabel matches the labels of cubes' places.
var placeLabel = regexp.MustCompile(`^(in|out)\.\d+(:\d+)?'?$`)

// placeCube is the cube of a place label.
func placeCube(label string) string {
	_, id, _ := strings.Cut(strings.TrimSuffix(label, "'"), ".")
	id, _, _ = strings.Cut(id, ":")
	return id
}

// fullTables are reserved for the framework maps whose rows are all there from the start, with their size.
var fullTables = map[string]int{
	"pcn_counters": slotSize * (Slots + 1), "pcn_fates": 8 * reasonMax, "pcn_resumes": 72,
}

func coreBytes(t testing.TB, hook cube.Hook) []byte {
	t.Helper()
	data, err := corebpf.Objects.ReadFile("core." + hook.String() + ".o")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// coreObject returns the framework's object, which nobody changes.
func coreObject(t testing.TB, hook cube.Hook) *Object {
	t.Helper()
	o, ok := coreObjects.Load(hook)
	if !ok {
		parsed, err := ParseObject(hook, coreBytes(t, hook))
		if err != nil {
			t.Fatal(err)
		}
		o, _ = coreObjects.LoadOrStore(hook, parsed)
	}
	return o.(*Object)
}

var coreObjects sync.Map // cube.Hook to *Object

func newMachine(t *testing.T, c *Component, mode Mode) *machine {
	m := &machine{t: t, vm: &vm{}, c: c, mode: mode, programs: map[Role]asm.Instructions{}}
	m.core = &Core{
		Object: coreObject(t, c.Hook), Maps: map[string]asm.FDer{}, Rodata: &table{name: "rodata"},
		Generation: &table{name: "generation"}, TapIndex: 7,
	}
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} { // the hooks share their maps
		for name := range coreObject(t, hook).Maps {
			if m.core.Maps[name] == nil {
				tb := &table{name: name, size: fullTables[name], rows: map[uint32]int{}}
				m.core.Maps[name], m.vm.tables = tb, append(m.vm.tables, tb)
			}
		}
	}
	m.ctx = m.vm.memory("ctx", make([]byte, 192))
	m.vm.helper, m.vm.framework, m.vm.at = m.help, m.coreCall, m.pass
	m.vm.resume = m.program(OnResume)
	return m
}

// program links the component for a role, once.
func (m *machine) program(role Role) asm.Instructions {
	m.t.Helper()
	if m.programs[role] == nil {
		spec, err := Program(m.c, m.core, m.mode, role)
		if err != nil {
			m.t.Fatal(err)
		}
		m.programs[role] = spec.Instructions
	}
	return m.programs[role]
}

// row writes a row of one of the framework's tables.
func (m *machine) row(name string, key uint32, value any) {
	m.t.Helper()
	var buf bytes.Buffer
	if err := binary.Write(&buf, binary.LittleEndian, value); err != nil {
		m.t.Fatal(err)
	}
	m.core.Maps[name].(*table).rows[key] = m.vm.memory(name, buf.Bytes())
}

// netdev puts a netdev behind a port: packets enter there and leave there.
func (m *machine) netdev(ifindex uint32, c *Cube, port, page, slot uint16) {
	m.t.Helper()
	m.row("pcn_entries", ifindex, [4]uint16{c.ID, port, page, slot})
	m.row("pcn_exits", uint32(c.ID)*MaxPorts+uint32(port), struct {
		Ifindex    uint32
		Page, Slot uint16
	}{ifindex, page, slot})
}

func (m *machine) help(v *vm, fn asm.BuiltinFunc) (uint64, error) {
	switch fn {
	case asm.FnGetPrandomU32:
		if m.asked == len(m.script) {
			return 0, fmt.Errorf("the script is at its end after %s", strings.Join(m.trail, " "))
		}
		m.asked++
		return m.script[m.asked-1], nil
	case asm.FnRedirect:
		m.sent = uint32(v.r[1])
		return 7, nil
	case asm.FnRedirectNeigh:
		if v.r[2] != 0 || v.r[3] != 0 || v.r[4] != 0 {
			return 0, fmt.Errorf("redirect to the neighbour %#x of length %d with flags %#x, want one that the kernel finds",
				v.r[2], v.r[3], v.r[4])
		}
		m.sentNeigh = uint32(v.r[1])
		return 7, nil
	case asm.FnRedirectMap:
		number := int(uint32(v.r[1]))
		if number >= len(v.tables) || v.tables[number].name != "pcn_devices" {
			return 0, fmt.Errorf("redirect by map %#x", v.r[1])
		}
		exits := m.core.Maps["pcn_exits"].(*table)
		ifindex, err := v.get(v.row(exits, uint32(v.r[2])), 4)
		m.sent = uint32(ifindex)
		return uint64(xdpRedirect), err
	case asm.FnXdpGetBuffLen:
		return 100, nil
	}
	return 0, fmt.Errorf("unexpected call of %v", fn)
}

func (m *machine) coreCall(v *vm, name string) (uint64, error) {
	if name != "pcn_core_up" {
		return 0, fmt.Errorf("unexpected call of %s", name)
	}
	m.up = append(m.up, uint32(v.r[3]))
	return 0, nil
}

// pass notes where the packet is, and whether the words that it brings are clean: only a cube's
// own egress program may see what its ingress program wrote.
func (m *machine) pass(v *vm, label string) error {
	if label == "pcn_driver" && len(m.trail) > 0 {
		m.turns++
	}
	if !placeLabel.MatchString(label) {
		return nil
	}
	m.trail = append(m.trail, label)
	md := v.r[10] - 80
	port, err := v.get(md, 2)
	if err != nil {
		return err
	}
	m.ports = append(m.ports, uint16(port))
	words, err := v.bytes(md+24, 16)
	own := len(m.trail) > 1 && placeCube(m.trail[len(m.trail)-2]) == placeCube(label)
	if err == nil && !own && !bytes.Equal(words, make([]byte, 16)) {
		m.dirtied = fmt.Errorf("%s gets the words % x of the cube before", label, words)
	}
	return err
}

// run sends one packet through a program. What the frame holds is checked on the way.
func (m *machine) run(role Role, ifindex uint32, script ...uint64) uint32 {
	m.t.Helper()
	m.script, m.asked, m.trail, m.ports, m.turns, m.up = script, 0, nil, nil, 0, nil
	m.sent, m.sentNeigh = 0, 0
	m.vm.steps, m.dirtied = 0, nil
	ctx := m.vm.regions[m.ctx].data
	clear(ctx)
	if m.c.Hook == cube.TC {
		binary.LittleEndian.PutUint32(ctx[skbLen:], 100)
		binary.LittleEndian.PutUint32(ctx[skbIfindex:], ifindex)
	} else {
		binary.LittleEndian.PutUint32(ctx[xdpDataEnd:], 100)
		binary.LittleEndian.PutUint32(ctx[xdpIngressIfindex:], ifindex)
	}
	if m.arrive != nil {
		m.arrive(ctx)
	}
	r0, err := m.vm.run(m.program(role), address(m.ctx, 0))
	if err != nil {
		m.t.Fatalf("%s program, after %s: %v", role, strings.Join(m.trail, " "), err)
	}
	if m.dirtied != nil {
		m.t.Error(m.dirtied)
	}
	return uint32(r0)
}

// counter reads a pair of counters of a slot: packets and bytes, received or sent.
func (m *machine) counter(page, slot uint16, off int) [2]uint64 {
	m.t.Helper()
	at := m.vm.row(m.core.Maps["pcn_counters"].(*table), uint32(page)) + uint64(slot)*slotSize + uint64(off)
	packets, err := m.vm.get(at, 8)
	if err != nil {
		m.t.Fatal(err)
	}
	size, err := m.vm.get(at+8, 8)
	if err != nil {
		m.t.Fatal(err)
	}
	return [2]uint64{packets, size}
}

func (m *machine) fate(c uint16, reason int) uint64 {
	m.t.Helper()
	n, err := m.vm.get(m.vm.row(m.core.Maps["pcn_fates"].(*table), uint32(c))+uint64(8*reason), 8)
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// body makes a cube's program of instructions.
func body(name string, insns ...asm.Instruction) *Function {
	insns[0] = btf.WithFuncMetadata(insns[0], &btf.Func{
		Name: name, Linkage: btf.GlobalFunc, Type: &btf.FuncProto{Return: &btf.Int{Name: "int", Size: 4}},
	}).WithSymbol(name)
	f := &Function{Name: name, Body: slices.Clone(insns), Callees: map[string]asm.Instructions{}}
	f.measure()
	return f
}

// scripted asks for its verdict and port, and leaves junk in the words and on its stack.
func scripted(name string) *Function {
	return body(name,
		asm.Mov.Reg(asm.R6, asm.R2),
		asm.FnGetPrandomU32.Call(),
		asm.StoreMem(asm.R6, 2, asm.R0, asm.Half),
		asm.RSh.Imm(asm.R0, 16),
		asm.StoreImm(asm.R6, 24, 0x5555, asm.Word),
		asm.StoreMem(asm.R10, -12, asm.R0, asm.Word),
		asm.Mov.Imm(asm.R1, 0x77),
		asm.StoreMem(asm.R6, 36, asm.R1, asm.Byte),
		asm.LoadMem(asm.R0, asm.R10, -12, asm.Word),
		asm.Return(),
	)
}

// passing lets everything by, with junk in the words.
func passing(name string) *Function {
	return body(name,
		asm.Mov.Imm(asm.R3, 0x1234),
		asm.StoreMem(asm.R2, 32, asm.R3, asm.DWord),
		asm.Mov.Imm(asm.R0, verdictPass),
		asm.Return(),
	)
}

func scriptedCube(id uint16, egress bool) *Cube {
	o := &Object{Functions: map[string]*Function{Ingress: scripted(Ingress)}}
	if egress {
		o.Functions[Egress] = passing(Egress)
	}
	return &Cube{ID: id, Name: fmt.Sprint("c", id), Object: o, Entry: true}
}

func gateCube(id uint16) *Cube {
	return &Cube{ID: id, Name: fmt.Sprint("t", id), Transparent: true, Object: &Object{
		Functions: map[string]*Function{Ingress: passing(Ingress), Egress: passing(Egress)},
	}}
}
