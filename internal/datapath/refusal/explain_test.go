// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// Logs as kernels write them.
func TestLogsAreReadOnEveryKernel(t *testing.T) {
	tests := []struct {
		name, log, sentences string
		at, verified         int
		depths               string
	}{
		{"6.1", "Validating c1i_f() func#1...\n824: R1=ctx(off=0,imm=0) R10=fp0\n; return p->a; @ x\n824: (61) r2 = *(u32 *)(r1 +0)\n" +
			"R1 invalid mem access 'mem_or_null'\nprocessed 1229 insns (limit 1000000) max_states_per_insn 2\n",
			"R1 invalid mem access 'mem_or_null'", 824, 1229, "[]"},
		{"two sentences", "7: (71) r0 = *(u8 *)(r1 +20)\ninvalid access to packet, off=20 size=1, R1(id=0,off=20,r=0)\nR1 offset is outside of the packet\n" +
			"verification time 12 usec\nstack depth 104+0+8\nprocessed 8 insns (limit 1000000)\n",
			"invalid access to packet, off=20 size=1, R1(id=0,off=20,r=0)|R1 offset is outside of the packet", 7, 8, "[104 0 8]"},
		{"states are no reason", "6: (56) if w2 != 0x1 goto pc-2\ninfinite loop detected at insn 6\ncur state: frame1: R1=mem(sz=64) R10=fp0\nold state: R1=1\n",
			"infinite loop detected at insn 6", 6, 0, "[]"},
		{"calls are no reason", "3: (85) call pc+2\ncaller:\n R6=fp-8\ncallee:\n frame1: R1=1\n6: frame1: R1=1\n6: (95) exit\nR0 !read_ok\n", "R0 !read_ok", 6, 0, "[]"},
		{"the reason alone", "arg#0 reference type('FWD __sk_buff') size cannot be determined: -22\nBPF program is too large. Processed 1000001 insn\nprocessed 1000001 insns (limit 1000000)\n",
			"BPF program is too large. Processed 1000001 insn", -1, 1000001, "[]"},
		{"nothing", "", "", -1, 0, "[]"},
	}
	for _, test := range tests {
		got := read(test.log)
		if s := strings.Join(got.sentences, "|"); s != test.sentences || got.at != test.at || got.verified != test.verified || fmt.Sprint(got.depths) != test.depths {
			t.Errorf("%s: %q at %d, %d verified, stack %v", test.name, s, got.at, got.verified, got.depths)
		}
	}
}

func TestANumberThatIsZeroIsAPointerThatIsNull(t *testing.T) {
	const end = "9: (61) r1 = *(u32 *)(r7 +0)\nR7 invalid mem access 'scalar'\n"
	for states, want := range map[string]bool{
		"736: (55) if r7 != 0x0 goto pc+4 ; R7=0\n":                                 true,
		"7: (55) if r7 != 0x0 goto pc+4 ; R7_w=0 R8=1\n8: (b7) r0 = 0 ; R0_w=0\n":   true,
		"7: (b7) r7 = 0 ; R7=0\n8: (61) r7 = *(u32 *)(r1 +8) ; R7=scalar(umax=1)\n": false,
		"7: (55) if r1 != 0x0 goto pc+4 ; R1=0\n":                                   false,
		"": false,
	} {
		if got := read(states + end).isNull(); got != want {
			t.Errorf("%q: %t, want %t", states, got, want)
		}
	}
}

// What kernels from 6.1 to 6.18 say, and what of the hint tells that it is the right one.
func TestKnownReasonsHaveAHint(t *testing.T) {
	for sentence, want := range map[string]string{
		"combined stack size of 4 calls is 720. Too large":                                                             "share 512 bytes",
		"tail_calls are not allowed when call stack of previous frames is 288 bytes. Too large":                        "tail call",
		"the call stack of 9 frames is too deep !":                                                                     "eight deep",
		"invalid variable-offset write to stack R2 var_off=(0x0; 0x3f) off=-16 size=1":                                 "on the stack",
		"invalid write to stack R10 off=-520 size=8":                                                                   "on the stack",
		"invalid indirect read from stack R3 off -16+0 size 16":                                                        "not all of its bytes",
		"R1 invalid mem access 'mem_or_null'":                                                                          "PCN_NONNULL",
		"R0 invalid mem access 'map_value_or_null'":                                                                    "may be NULL",
		"Possibly NULL pointer passed to trusted arg0":                                                                 "may be NULL",
		"R6 invalid mem access 'scalar'":                                                                               "may have moved",
		"R6 invalid mem access 'inv'":                                                                                  "may have moved",
		"invalid access to packet, off=20 size=1, R1(id=0,off=20,r=0); R1 offset is outside of the packet":             "pcn_cursor_take",
		"R4 invalid zero-sized read: u64=[0,16]":                                                                       "may be 0",
		"R4 invalid zero-sized read":                                                                                   "n - 1",
		"R4 min value is negative, either use unsigned or 'var &= const'":                                              "may be negative",
		"R4 unbounded memory access, use 'var &= const' or 'if (var < const)'":                                         "no upper bound",
		"R0 unbounded memory access, make sure to bounds check any such access":                                        "no upper bound",
		"invalid access to map value, value_size=8 off=24 size=8; R0 max value is outside of the allowed memory range": "outside of the object",
		"invalid access to memory, mem_size=64 off=64 size=4; R2 offset is outside of the packet":                      "outside of the object",
		"BPF program is too large. Processed 1000001 insn":                                                             "1,000,000",
		"The sequence of 8193 jumps is too complex.":                                                                   "1,000,000",
		"infinite loop detected at insn 880":                                                                           "no end",
		"back-edge from insn 9 to 3":                                                                                   "no end",
		"invalid func unknown#4711":                                                                                    "no such function",
		"unknown func bpf_sk_assign#124":                                                                               "no such function",
		"program of this type cannot use helper bpf_sk_assign#124":                                                     "no such function",
		"kernel function bpf_cast_to_kern_ctx is not there":                                                            "no such function",
		"calling kernel function bpf_cast_to_kern_ctx is not allowed":                                                  "not for programs of this hook",
		"Unreleased reference id=2 alloc_insn=12; BPF_EXIT instruction in main prog would lead to reference leak":      "not given back",
		"R9 !read_ok": "not set",
		"cannot return stack pointer to the caller":                                     "use the value",
		"same insn cannot be used with different pointers":                              "different kinds of memory",
		"dereference of modified ctx ptr R1 off=4 disallowed":                           "context",
		"invalid bpf_context access off=200 size=4":                                     "context",
		"math between pkt pointer and register with unbounded min value is not allowed": "negative",
		"R2 pointer arithmetic on map_ptr prohibited, null-check it first":              "computed with a pointer",
		"R1 type=scalar expected=fp, pkt, map_key":                                      "kind of argument",
		"the verifier says something new":                                               "",
	} {
		if got := hint(sentence); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%q is explained by %q, want %q", sentence, got, want)
		}
	}
}

// program is a driver with a cube's function and one of the framework, as the linker makes them.
func program(functions ...asm.Instructions) (asm.Instructions, []link.Place) {
	var out asm.Instructions
	for _, f := range functions {
		out = append(out, f...)
	}
	return out, link.Places(out)
}

func function(name string, body ...asm.Instruction) asm.Instructions {
	fn := &btf.Func{Name: name, Type: &btf.FuncProto{Return: &btf.Int{Size: 4}}, Linkage: btf.StaticFunc}
	body[0] = btf.WithFuncMetadata(body[0], fn).WithSymbol(name)
	return body
}

func TestTheDeepestChainIsFound(t *testing.T) {
	insns, places := program(
		function("pcn_driver", asm.Call.Label("a"), asm.Call.Label("b"), asm.Return()),
		function("a", asm.Call.Label("c"), asm.Return()),
		function("b", asm.Call.Label("c"), asm.Return()),
		function("c", asm.Return()))
	var names []string
	for _, f := range deepest(insns, places, []int{104, 300, 200, 150}) {
		names = append(names, fmt.Sprint(f.Function, f.Bytes))
	}
	if got := strings.Join(names, " "); got != "pcn_driver104 a300 c150" {
		t.Errorf("the deepest chain is %s", got)
	}
	if got := deepest(insns, places, nil); got != nil {
		t.Errorf("of a kernel that does not tell: %v", got)
	}
}

// A fault in the framework's own code is the daemon's, with cubes beside it or without.
func TestAFaultOfTheFrameworkIsOurs(t *testing.T) {
	insns, places := program(function("pcn_driver", asm.Call.Label("pcn_core_up"), asm.Return()),
		function("pcn_core_up", asm.LoadMem(asm.R0, asm.R1, 0, asm.Word), asm.Return()))
	r := explain(&ebpf.ProgramSpec{Instructions: insns}, places, unix.EACCES,
		read("0: (18) r1 = 0xffff8881de71c400 ; R1=map_ptr(map=table)\n2: (61) r0 = *(u32 *)(r1 +0)\nR1 invalid mem access 'scalar'\nprocessed 3 insns\n"))
	if strings.Contains(strings.Join(r.Log, ""), "ffff8881") || !strings.Contains(r.Log[0], "(18) r1 = ...") {
		t.Errorf("the log tells where a map is in the kernel: %v", r.Log)
	}
	if !r.Ours() || r.Function != "pcn_core_up" || errors.Is(r, cube.ErrRefused) || !errors.Is(r, unix.EACCES) {
		t.Errorf("%v: ours %t, in %q", r, r.Ours(), r.Function)
	}
	if !strings.HasPrefix(r.Error(), "the framework: ") {
		t.Errorf("it reads %q", r)
	}
}

func TestWhereSeveralCubesMayBeAtFaultAllAreNamed(t *testing.T) {
	r := &Error{Among: []link.Origin{{Cube: "br1", Service: "bridge"}, {Cube: "n1"}}, Sentence: "too much", cause: unix.E2BIG}
	if want := "one of cube br1 (bridge), cube n1: the kernel's verifier refuses its program: too much"; r.Error() != want {
		t.Errorf("it reads %q, want %q", r, want)
	}
	if r.Ours() || !errors.Is(r, cube.ErrRefused) {
		t.Error("it is taken for a fault of the daemon")
	}
}

func TestAFunctionThatTheKernelLacksIsNamed(t *testing.T) {
	call := asm.Call.Label("bpf_new_thing")
	call.Src = asm.PseudoKfuncCall
	insns, places := program(function("pcn_driver", asm.Mov.Imm(asm.R1, 0), call, asm.Return()))
	err := fmt.Errorf("fixing up kfuncs: kfunc %q: %w", "bpf_new_thing", btf.ErrNotFound)
	r := missingFunction(&ebpf.ProgramSpec{Instructions: insns}, places, err)
	if r == nil || r.Sentence != "kernel function bpf_new_thing is not there" || r.Hint == "" {
		t.Errorf("%+v", r)
	}
	if r := missingFunction(&ebpf.ProgramSpec{Instructions: insns}, places, unix.EINVAL); r != nil {
		t.Errorf("of another error: %v", r)
	}
}

// TestAProgramThatDoesWithoutAFunctionIsExplained: a function that the kernel lacks and the program never calls is not why
// the verifier refuses it.
func TestAProgramThatDoesWithoutAFunctionIsExplained(t *testing.T) {
	netns.NeedRoot(t)
	call := asm.Call.Label("pcn_function_of_no_kernel")
	call.Src = asm.PseudoKfuncCall
	insns, _ := program(function("pcn_driver",
		asm.Mov.Imm(asm.R0, 1), asm.JEq.Imm(asm.R0, 1, "refused"), call, asm.LoadMem(asm.R0, asm.R9, 0, asm.Word).WithSymbol("refused"), asm.Return()))
	b, err := assemble(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: insns})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	if log, _, err := b.load(levelSteps, logStart); !errors.Is(err, unix.EACCES) || !strings.Contains(log, "R9 !read_ok") {
		t.Errorf("%v: %s", err, log)
	}
}
