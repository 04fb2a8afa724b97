// SPDX-License-Identifier: Apache-2.0

package foreign

// What shipped cubes are made of is allowed; what could hurt is refused, each with its sentence.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// What ships runs as a part of the daemon, and some of it uses what foreign programs may not: by the file, what is said of it.
var oursAlone = map[string]string{
	"ddosmitigator.tc.o":  "foreign programs may not use callbacks",
	"ddosmitigator.xdp.o": "foreign programs may not use callbacks",
	"classifier.tc.o":     "shared between services",
	"classifier.xdp.o":    "shared between services",
	"efw.tc.o":            "shared between services",
	"efw.xdp.o":           "shared between services",
	"elb.tc.o":            "the limit is 256",
	"elb.xdp.o":           "the limit is 256",
	"firewall.tc.o":       "shared between services",
	"firewall.xdp.o":      "shared between services",
	"ipset.tc.o":          "shared between services",
	"ipset.xdp.o":         "shared between services",
	"iptables.tc.o":       "shared between services",
	"iptables.xdp.o":      "shared between services",
	"lbdsr.tc.o":          "the limit is 256",
	"lbdsr.xdp.o":         "the limit is 256",
	"lbrp.tc.o":           "the limit is 256",
	"lbrp.xdp.o":          "the limit is 256",
	"nat.tc.o":            "the limit is 256",
	"nat.xdp.o":           "the limit is 256",
	"policer.tc.o":        "calls bpf_spin_lock",
	"policer.xdp.o":       "calls bpf_spin_lock",
	"pbforwarder.tc.o":    "shared between services",
	"pbforwarder.xdp.o":   "shared between services",
	"router.tc.o":         "the limit is 256",
	"router.xdp.o":        "the limit is 256",
	"synflood.tc.o":       "bpf_skc_lookup_tcp",
	"synflood.xdp.o":      "bpf_skc_lookup_tcp",
}

func TestAllThatCubesAreMadeOfIsAllowed(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{"../../cubes/*/*.o", "../../test/cubeapi/*.o", "../../examples/services/*/*.o"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Errorf("no objects at %s, %v (run make generate)", pattern, err)
		}
		for _, file := range files {
			h := cube.TC
			if strings.HasSuffix(file, ".xdp.o") {
				h = cube.XDP
			}
			elf, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			err = Check(map[cube.Hook][]byte{h: elf})
			if why, ok := oursAlone[filepath.Base(file)]; ok {
				if err == nil || !strings.Contains(err.Error(), why) {
					t.Errorf("%s: %v, want %s", file, err, why)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

func forbidden(t *testing.T, h cube.Hook) *ebpf.CollectionSpec {
	t.Helper()
	elf, err := os.ReadFile("testdata/forbidden." + h.String() + ".o")
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		t.Fatal(err)
	}
	if err := Check(map[cube.Hook][]byte{h: elf}); err == nil {
		t.Errorf("%s: the object with all of it is allowed", h)
	}
	return spec
}

func TestProgramsThatCouldHurtAreRefused(t *testing.T) {
	t.Parallel()
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		oneHook := map[cube.Hook]string{cube.TC: "", cube.XDP: ""}
		says := map[string]string{
			"fine":                "",
			"one_hook":            oneHook[h],
			"redirects":           "calls bpf_redirect, which foreign programs may not; return pcn_pkt_send(ctx, md, port)",
			"redirects_to_host":   "calls pcn_pkt_redirect_netdev or pcn_pkt_redirect_neigh, which foreign programs may not; return pcn_pkt_send",
			"prints":              "calls bpf_trace_printk, which foreign programs may not; use pcn_log",
			"tail_calls":          "calls bpf_tail_call, which foreign programs may not; return pcn_call_program",
			"reads_the_kernel":    "calls bpf_probe_read_kernel, which foreign programs may not",
			"writes_to_processes": "calls bpf_probe_write_user, which foreign programs may not",
			"signals":             "calls bpf_send_signal, which foreign programs may not",
			"asks_who":            "calls bpf_get_current_pid_tgid, which foreign programs may not",
			"emits":               "", // its map is refused
			"calls_back":          "takes the address of a function",
			"calls_the_kernel":    `calls the kernel function "bpf_kernel_function"`,
			"calls_by_number":     "calls bpf_sys_bpf, which foreign programs may not",
			"elsewhere":           `wrong section "kprobe/do_exit"`,
			"keeps_variables":     "", // its map is refused
		}
		spec := forbidden(t, h)
		if got, want := slices.Sorted(maps.Keys(spec.Programs)), slices.Sorted(maps.Keys(says)); !slices.Equal(got, want) {
			t.Errorf("programs are %v, the test knows %v", got, want)
		}
		for name, want := range says {
			t.Run(fmt.Sprintf("%s/%s", h, name), func(t *testing.T) {
				one := spec.Copy()
				one.Programs = map[string]*ebpf.ProgramSpec{name: one.Programs[name]}
				judge(t, checkPrograms(h, one), want)
				if err := checkPrograms(h, one); want != "" && strings.Contains(want, "calls bpf_") && !strings.Contains(err.Error(), "forbidden.bpf.c:") {
					t.Errorf("%v does not say where", err)
				}
			})
		}
		other := map[cube.Hook]cube.Hook{cube.TC: cube.XDP, cube.XDP: cube.TC}[h]
		one := spec.Copy()
		judge(t, checkInstructions(other, one, one.Programs["one_hook"].Instructions), "which is only for programs at "+h.String())
	}
}

func judge(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestMapsThatCouldHurtAreRefused(t *testing.T) {
	t.Parallel()
	spec := forbidden(t, cube.TC)
	says := map[string]string{
		"good": "", "ours": "", "sets": "",
		"programs": "may not have maps of type ProgramArray",
		"devices":  "may not have maps of type DevMap",
		"sockets":  "may not have maps of type SockHash",
		"ring":     "a ring buffer is declared with PCN_RING",
		"many":     "it has 2097152 entries, the range is 1 to 1048576",
		"fat":      "MiB, the limit is 256",
		"fat_sets": "the limit is 256",
		"mapped":   "", "mapped_hash": "only an array can have the flag BPF_F_MMAPABLE",
		"common": "shared between services (shared:space)",
		"theirs": "shared between services (extern:bridge)",
		"pinned": "it requests pinning by name",
		".bss":   "global variables must be constants",
	}
	for name, m := range spec.Maps {
		want, known := says[name]
		if !known && !strings.HasPrefix(name, ".rodata") {
			t.Errorf("the test does not know %s", name)
		}
		judge(t, checkMaps(map[string]*ebpf.MapSpec{name: m}), want)
		delete(says, name)
	}
	if len(says) > 0 {
		t.Errorf("not in the object: %v", says)
	}
	crowd := map[string]*ebpf.MapSpec{}
	for i := range maxMaps + 1 {
		crowd[fmt.Sprint("m", i)] = spec.Maps["good"]
	}
	judge(t, checkMaps(crowd), "too many maps, the limit is 32")
}

// rings are the maps of PCN_RING, of a number of rings.
func rings(n int, change func(of *ebpf.MapSpec)) map[string]*ebpf.MapSpec {
	out := map[string]*ebpf.MapSpec{}
	for i := range n {
		name := fmt.Sprint("r", i)
		out[name] = &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 1 << 20}
		change(out[name])
		out[name+"_reader"] = &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 16, MaxEntries: 1, Flags: flagMmapable}
		out[name+"_counts"] = &ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 24, MaxEntries: 1}
	}
	return out
}

func TestACubeHasOneRingOfALimitedSize(t *testing.T) {
	t.Parallel()
	size := func(n uint32) func(*ebpf.MapSpec) { return func(m *ebpf.MapSpec) { m.MaxEntries = n } }
	judge(t, checkMaps(rings(1, size(1<<20))), "")
	judge(t, checkMaps(rings(1, size(maxRing))), "")
	judge(t, checkMaps(rings(2, size(1<<20))), "a cube has one ring")
	for _, n := range []uint32{0, 2048, 12288, 2 * maxRing} {
		judge(t, checkMaps(rings(1, size(n))), "a power of two from 4096 to 16777216 bytes")
	}
	for _, part := range []string{"r0_reader", "r0_counts"} {
		half := rings(1, size(1<<20))
		delete(half, part)
		judge(t, checkMaps(half), "declared with PCN_RING")
	}
	sets := &ebpf.MapSpec{Type: ebpf.HashOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 1, InnerMap: &ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096}}
	judge(t, checkMaps(map[string]*ebpf.MapSpec{"sets": sets}), "inner maps cannot be ring buffers")
}

// TestInstructionsThatNoCompilerMakes: who writes an object by hand is refused anyway.
func TestInstructionsThatNoCompilerMakes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		ins  asm.Instruction
		want string
	}{
		{"a number", asm.LoadImm(asm.R1, 1<<40, asm.DWord), ""},
		{"a map by number", asm.LoadMapPtr(asm.R1, 7), "refers to a map by number"},
		{"a value of a map by number", asm.LoadMapValue(asm.R1, 7, 8), "refers to a map by number"},
		{"a map by index", asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Src: 5, Constant: 1}, "refers to the kernel symbol"},
		{"a kernel variable", asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Src: 3, Constant: 1}, "refers to the kernel symbol"},
		{"an old packet read", asm.LoadAbs(0, asm.Word), "use a cursor"},
		{"an old packet read by index", asm.LoadInd(asm.R0, asm.R1, 0, asm.Word), "use a cursor"},
		{"an unknown helper", asm.BuiltinFunc(9999).Call(), "which foreign programs may not"},
		{"a jump by register", asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Ja).SetSource(asm.RegSource)}, "uses a jump instruction"},
		{"may_goto", asm.Instruction{OpCode: asm.OpCode(asm.JumpClass) | 0xe0}, "uses a jump instruction"},
		{"a function that is not there", asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: asm.PseudoCall}.WithReference("x"), "is not in the object"},
		{"a call of no kind", asm.Instruction{OpCode: asm.OpCode(asm.JumpClass).SetJumpOp(asm.Call), Src: 9}, "is an unknown kind of call"},
		{"an end", asm.Return(), ""},
		{"an atomic", asm.StoreXAdd(asm.R1, asm.R2, asm.DWord), ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			judge(t, checkInstructions(cube.TC, &ebpf.CollectionSpec{}, asm.Instructions{tt.ins}), tt.want)
		})
	}
}

func TestFilesThatAreNoObjectsAreRefused(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile("../../cubes/helloworld/helloworld.tc.o")
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
	}
	license := bytes.Replace(whole, []byte("Dual BSD/GPL\x00"), []byte("Proprietary.\x00"), 1)
	// The flags of the last section's header, which begins 64 bytes before the end of the table.
	packed := bytes.Clone(whole)
	table, count := binary.LittleEndian.Uint64(packed[40:]), uint64(binary.LittleEndian.Uint16(packed[60:]))
	packed[table+64*(count-1)+8+1] |= 8
	for _, tt := range []struct {
		name string
		elf  []byte
		want string
	}{
		{"a compressed section", packed, "compress"},
		{"nothing", nil, "read it"},
		{"text", []byte("hello"), "read it"},
		{"half", whole[:len(whole)/2], "read it"},
		{"too much", make([]byte, MaxObject+1), "the limit is 4194304"},
		{"another licence", license, `its licence "Proprietary." cannot be linked`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			judge(t, Check(map[cube.Hook][]byte{cube.TC: tt.elf}), "tc object: ")
			judge(t, Check(map[cube.Hook][]byte{cube.TC: tt.elf}), tt.want)
		})
	}
	judge(t, Check(nil), "no programs")
	judge(t, Check(map[cube.Hook][]byte{cube.XDP: whole}), "wrong section")
}

func FuzzObjectsAreReadWithoutHarm(f *testing.F) {
	whole, err := os.ReadFile("../../cubes/helloworld/helloworld.tc.o")
	if err != nil {
		f.Fatalf("%v (run make generate)", err)
	}
	f.Add(whole)
	f.Fuzz(func(_ *testing.T, elf []byte) {
		_ = Check(map[cube.Hook][]byte{cube.TC: elf}) // it may say what it likes, but must say it
	})
}
