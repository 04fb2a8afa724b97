// SPDX-License-Identifier: Apache-2.0

// The framework's own programs, for tests: its functions are called with the metadata that a test wants, over real maps.

package slowpath

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	running "github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const coreDir = "../../bpf/core"

// loadSpec reads a compiled program file of the framework.
func loadSpec(t testing.TB, file string) *ebpf.CollectionSpec {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpec(filepath.Join(coreDir, file))
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v: run `make generate` first", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

// kernel is the framework's maps, and programs over them.
type kernel struct {
	t    testing.TB
	maps map[string]*ebpf.Map
}

// newKernel makes the maps that name programs of a file use.
func newKernel(t testing.TB) *kernel {
	t.Helper()
	netns.NeedRoot(t)
	return &kernel{t: t, maps: map[string]*ebpf.Map{}}
}

// load loads programs, with the maps made for others before where they have them in common.
func (k *kernel) load(spec *ebpf.CollectionSpec) map[string]*ebpf.Program {
	k.t.Helper()
	spec.Variables = nil // of .rodata, which these functions do not use
	used := map[string]bool{}
	for _, p := range spec.Programs {
		for _, ins := range p.Instructions {
			if ins.IsLoadFromMap() {
				used[ins.Reference()] = true
			}
		}
	}
	shared := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if !used[name] {
			delete(spec.Maps, name)
		} else if have := k.maps[name]; have != nil && m.Type != ebpf.ProgramArray {
			shared[name] = have
		}
	}
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: shared})
	if err != nil {
		k.t.Fatalf("load: %v", err)
	}
	k.t.Cleanup(coll.Close)
	for name, m := range coll.Maps {
		if k.maps[name] == nil {
			k.maps[name] = m
		}
	}
	return maps.Clone(coll.Programs)
}

// caller is a program that calls one function of core.bpf.c for a cube.
func (k *kernel) caller(hook cube.Hook, fn string, who int32, prepare asm.Instructions) *ebpf.Program {
	k.t.Helper()
	spec := loadSpec(k.t, "core."+hook.String()+".o")
	p := spec.Programs["pcn_core"]
	parts := functions(p.Instructions)
	features, err := running.Probe()
	if err != nil {
		k.t.Fatal(err)
	}
	for name, body := range parts {
		if !features.NonNullArgs {
			parts[name] = link.Guard(body) // as the linker does
		}
	}
	main := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	main = append(main, prepare...)
	call := asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall, Constant: -1}
	main = append(main,
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Imm(asm.R3, who), call.WithReference(fn), asm.Mov.Imm(asm.R0, 0), asm.Return())
	main[0].Metadata = parts["pcn_core"][0].Metadata // the name and the type of the function
	for i := range main[1:] {
		main[i+1] = main[i+1].WithSource(asm.Comment(""))
	}
	p.Instructions = append(main, reachable(parts, fn)...)
	spec.Programs = map[string]*ebpf.ProgramSpec{"pcn_core": p}
	return k.load(spec)["pcn_core"]
}

// functions splits the instructions of a program at its symbols.
func functions(insns asm.Instructions) map[string]asm.Instructions {
	parts, at := map[string]asm.Instructions{}, ""
	for _, ins := range insns {
		if s := ins.Symbol(); s != "" {
			at = s
		}
		parts[at] = append(parts[at], ins)
	}
	return parts
}

// reachable is a function and all that it refers to.
func reachable(parts map[string]asm.Instructions, fn string) asm.Instructions {
	var out asm.Instructions
	for todo, done := []string{fn}, []string{}; len(todo) > 0; todo = todo[1:] {
		if slices.Contains(done, todo[0]) {
			continue
		}
		done = append(done, todo[0])
		out = append(out, parts[todo[0]]...)
		for _, ins := range parts[todo[0]] {
			if ins.IsFunctionReference() {
				todo = append(todo, ins.Reference())
			}
		}
	}
	return out
}

// withMD puts a struct on the stack and its address into R2.
func withMD(b []byte) asm.Instructions {
	var out asm.Instructions
	for i := 0; i < len(b); i += 4 {
		out = append(out, asm.StoreImm(asm.RFP, int16(i-len(b)), int64(int32(binary.NativeEndian.Uint32(b[i:]))), asm.Word))
	}
	return append(out, asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, int32(-len(b))))
}

func mdBytes(m md) []byte { return (*[unsafe.Sizeof(md{})]byte)(unsafe.Pointer(&m))[:] }

// egress and throughEgress are bits beside the cube, as core.bpf.c has them.
const egress = 0x10000

// run runs a program on a frame, repeat times.
func run(t testing.TB, p *ebpf.Program, frame []byte, repeat uint32, ctx any) {
	t.Helper()
	if _, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: repeat, Context: ctx}); err != nil {
		t.Fatalf("run: %v", err)
	}
}

// open opens the ring over the maps of k.
func (k *kernel) open() *Ring {
	k.t.Helper()
	r, err := OpenRing(k.maps["pcn_ring"], k.maps["pcn_control"], k.maps["pcn_shares"])
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() {
		if err := r.Close(); err != nil {
			k.t.Error(err)
		}
	})
	return r
}

// share reads a cube's share with a system call, as somebody else would.
func (k *kernel) share(id uint32) share {
	k.t.Helper()
	var s share
	if err := k.maps["pcn_shares"].Lookup(id, &s); err != nil {
		k.t.Fatal(err)
	}
	return s
}

// Values of enum pcn_reason.
const reasonSlowpath, reasonShed = 2, 8

// fate is how many packets of a cube ended in a way.
func (k *kernel) fate(id uint32, reason int) (sum uint64) {
	k.t.Helper()
	var perCPU [][64]uint64
	if err := k.maps["pcn_fates"].Lookup(id, &perCPU); err != nil {
		k.t.Fatal(err)
	}
	for _, f := range perCPU {
		sum += f[reason]
	}
	return sum
}

// event is one call of a Handler.
type event struct {
	What   string
	Cube   uint16
	Packet cube.PacketIn
	Meta   Meta
	Level  uint32
	Line   string
}

// collector keeps what it is called with.
type collector struct {
	mu     sync.Mutex
	events []event
}

func (c *collector) add(e event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

func (c *collector) Packet(id uint16, p *cube.PacketIn, m Meta) { c.packet("packet", id, p, m) }
func (c *collector) Flood(id uint16, p *cube.PacketIn, m Meta)  { c.packet("flood", id, p, m) }
func (c *collector) Log(id uint16, level uint32, line string) {
	c.add(event{What: "log", Cube: id, Level: level, Line: line})
}

func (c *collector) Notify(id uint16, kind uint32, message []byte) {
	c.add(event{What: "notify", Cube: id, Level: kind, Line: string(message)})
}

func (c *collector) packet(what string, id uint16, p *cube.PacketIn, m Meta) {
	kept := *p
	kept.Data = slices.Clone(p.Data)
	clear(p.Data) // a handler may
	c.add(event{What: what, Cube: id, Packet: kept, Meta: m})
}

func (c *collector) all() []event {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.events)
}

// want returns an error until there are n events.
func (c *collector) want(n int) error {
	if got := len(c.all()); got != n {
		return fmt.Errorf("%d events, want %d", got, n)
	}
	return nil
}

// start runs a ring until the test ends or stop is called.
func start(t testing.TB, r *Ring, h Handler) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- r.Run(ctx, h) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-result; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// frame makes a frame of n bytes that are all different from their neighbours.
func frame(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	if n >= ethernetHead {
		copy(b[12:], []byte{0x88, 0xb5})
	}
	return b
}
