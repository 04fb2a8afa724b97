// SPDX-License-Identifier: Apache-2.0

package datapath

// Programs that the verifier refuses: the error names the program, the line and what may help, and nothing else
// changes.

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/test/netns"
)

const refusedSource, globalNullSource = "internal/datapath/testdata/refused.bpf.c", "internal/datapath/testdata/globalnull.bpf.c"

// mistake is one of enum refused_mistake: the function it is in, and words of the hint.
type mistake struct{ name, function, hint string }

var mistakes = []mistake{
	{"STACK", "large", "share 512 bytes of stack"},
	{"NULL_ENTRY", "null_entry", "may be NULL"},
	{"NULL_NUMBER", "null_number", "only a number to the verifier"},
	{"ZERO_SIZE", "zero_size", "may be 0"},
	{"NEGATIVE_SIZE", "negative_size", "may be negative"},
	{"UNBOUNDED_SIZE", "unbounded_size", "no upper bound"},
	{"PACKET_END", "packet_end", "pcn_cursor_take"},
	{"PACKET_MOVED", "packet_moved", "may have moved the packet's bytes"},
	{"BEYOND_VALUE", "beyond_value", "outside of the object"},
	{"MANY_PATHS", "many_paths", "gives up after 1,000,000"},
	{"NO_HELPER", "no_helper", "this kernel has no such function"},
	{"ENDLESS", "endless", "no end that the verifier can see"},
	{"NOT_SET", "not_set", "not set on every path"},
	{"NOT_RELEASED", "not_released", "not given back on every path"},
	{"STACK_INDEX", "stack_index", "outside its bounds"},
	{"AFTER_CHECKSUM", "after_checksum", "may be NULL"},
}

// mistakeValues are those of the enum, as the compiler numbers them.
func mistakeValues(t *testing.T) map[string]uint32 {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(refusedTC))
	if err != nil {
		t.Fatal(err)
	}
	var enum *btf.Enum
	if err := spec.Types.TypeByName("refused_mistake", &enum); err != nil {
		t.Fatal(err)
	}
	out := map[string]uint32{}
	for _, v := range enum.Values {
		out[v.Name] = uint32(v.Value)
	}
	return out
}

// marked is the number of the line of a source with the comment.
func marked(t *testing.T, source, name string) int {
	t.Helper()
	text, err := os.ReadFile("testdata/" + path.Base(source))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(strings.Split(string(text), "\n"), func(l string) bool { return strings.Contains(l, "/* "+name+" */") })
	if at < 0 {
		t.Fatalf("no line is marked %s", name)
	}
	return at + 1
}

// refusing is a cube that is going to make mistakes, between a host and a cube that makes none.
func (b *bench) refusing() (bad *Node, a, z *netns.Node) {
	bad = b.cube("refused", 2, nil)
	good := b.cube("hostile", 2, nil)
	b.link(bad, 1, good, 0)
	a, z = b.host("a", "", bad, 0), b.host("z", "", good, 1)
	b.commit()
	return bad, a, z
}

func TestTheAuthorOfAMistakeIsNamed(t *testing.T) {
	values := mistakeValues(t)
	if len(values) != len(mistakes)+1 {
		t.Errorf("%d mistakes are tried of %d", len(mistakes), len(values)-1)
	}
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		bad, a, z := b.refusing()
		before := b.pins("generations")
		for _, m := range mistakes {
			bad.Constants = map[string]any{"mistake": values[m.name]}
			err := b.inLab(b.tryCommit)
			r := refusal.As(err)
			if r == nil {
				t.Errorf("%s: %v, want a refusal", m.name, err)
				continue
			}
			checkPlace(t, bad, m, refusedSource, r)
			if !errors.Is(err, cube.ErrRefused) || r.Ours() {
				t.Errorf("%s: it is no fault of a cube: %v", m.name, err)
			}
			if text := err.Error(); strings.Contains(text, "\n") || !strings.Contains(text, "cube "+bad.Name+" (refused)") {
				t.Errorf("%s: %q is not one sentence about the cube", m.name, text)
			}
			checkDetail(t, m, r)
		}
		if after := b.pins("generations"); !slices.Equal(before, after) {
			t.Errorf("after refusals there are the pins %v, before there were %v", after, before)
		}
		b.passes(a, z, frame("what was there goes on"))
	})
}

// TestAMistakeInAGlobalFunctionIsNamed: a function that is verified by itself, for every argument it could get.
func TestAMistakeInAGlobalFunctionIsNamed(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		bad := b.cube("globalnull", 2, nil)
		r := refusal.As(b.inLab(b.tryCommit))
		if r == nil {
			t.Fatal("it was taken")
		}
		m := mistake{"GLOBAL_NULL", "global_null", "PCN_NONNULL"}
		checkPlace(t, bad, m, globalNullSource, r)
		checkDetail(t, m, r)
	})
}

// checkPlace compares the place of a refusal with the source, and its hint. In a loop, the line at which a kernel gives
// up does not matter.
func checkPlace(t *testing.T, bad *Node, m mistake, source string, r *refusal.Error) {
	t.Helper()
	if service := strings.TrimSuffix(path.Base(source), ".bpf.c"); r.Cube != bad.Name || r.Service != service {
		t.Errorf("%s: it is said to be of %s (%s), want %s (%s)", m.name, r.Cube, r.Service, bad.Name, service)
	}
	if !strings.Contains(r.Hint, m.hint) {
		t.Errorf("%s: %q is explained by %q, want %q", m.name, r.Sentence, r.Hint, m.hint)
	}
	line := link.Line{File: source, Number: marked(t, source, m.name)}
	if m.name == "MANY_PATHS" {
		if !slices.ContainsFunc(r.Loops, func(l link.Line) bool { return l.String() == line.String() }) {
			t.Errorf("%s: loops are at %v, want %s", m.name, r.Loops, line)
		}
		return
	}
	if r.Function != m.function || r.Line.String() != line.String() {
		t.Errorf("%s: it is said to be in %s at %s, want %s at %s", m.name, r.Function, r.Line, m.function, line)
	}
}

// checkDetail compares the details printed with the message with the refusal.
func checkDetail(t *testing.T, m mistake, r *refusal.Error) {
	t.Helper()
	text := strings.Join(r.Detail(), "\n")
	for _, want := range []string{"/* " + m.name + " */", "Hint: ", "The verifier's last steps:", "instructions of a program of"} {
		if m.name != "MANY_PATHS" && !strings.Contains(text, want) {
			t.Errorf("%s: the detail has no %q:\n%s", m.name, want, text)
		}
	}
	if r.Verified == 0 || r.Instructions == 0 {
		t.Errorf("%s: %d instructions of %d were looked at", m.name, r.Verified, r.Instructions)
	}
	if strings.Contains(text, "Stack: ") != (m.name == "STACK") || strings.Contains(text, "Loops: ") != (m.name == "MANY_PATHS") {
		t.Errorf("%s: stack or loops are wrong:\n%s", m.name, text)
	}
	if m.name == "STACK" && !strings.Contains(text, "large 320 + "+r.Cube+" large_leaf 288") {
		t.Errorf("the chain of calls is not there:\n%s", text)
	}
}

// Another cube's mistake is not attributed to the first cube, although they are one program.
func TestTheRightOneOfSeveralCubesIsNamed(t *testing.T) {
	values := mistakeValues(t)
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		one, two := b.cube("refused", 2, nil), b.cube("refused", 2, map[string]any{"mistake": values["NULL_ENTRY"]})
		b.link(one, 1, two, 0)
		b.host("a", "", one, 0)
		b.host("z", "", two, 1)
		if r := refusal.As(b.inLab(b.tryCommit)); r == nil || r.Cube != two.Name {
			t.Errorf("%+v, want a refusal of %s", r, two.Name)
		}
		// A program of an object that was loaded at run time.
		two.Constants, two.Programs = nil, map[cube.ProgramSlot]cube.Program{{Index: 1}: {
			Objects: map[cube.Hook][]byte{cube.TC: hostileTC, cube.XDP: hostileXDP}, Function: "pcn_ingress"}}
		two.Constants = map[string]any{"what": uint32(2)}
		r := refusal.As(b.inLab(b.tryCommit))
		if r == nil || r.Cube != two.Name || r.Service != "refused" || r.Line.File != "internal/datapath/testdata/hostile.bpf.c" {
			t.Errorf("%+v, want a refusal of %s at a line of the other object", r, two.Name)
		}
	})
}

// If inlining is refused, the segment stays as it is, with a short note.
func TestWhatCannotBeInlinedStaysWithAShortNote(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeCall}) // nothing is inlined meanwhile
	b.close()
	var log bytes.Buffer // of one goroutine: the others are irrelevant
	b.opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
	b.open()
	bad, a, z := b.refusing()
	bad.Constants = map[string]any{"mistake": mistakeValues(t)["NULL_ENTRY"]}
	err := b.inLab(b.tryCommit)
	if refusal.As(err) == nil {
		t.Fatalf("%v, want a refusal", err)
	}
	p := b.plane
	p.mu.Lock()
	part := p.parts[0]
	log.Reset()
	p.inline.refuse(part.Description, link.Inline, err, 0)
	note := part.note
	p.mu.Unlock()
	if !strings.Contains(note, "refuses null_entry at "+refusedSource) || strings.Contains(note, "\n") {
		t.Errorf("the note is %q", note)
	}
	for _, want := range []string{"segment stays in call mode", "cube=" + bad.Name, "function=null_entry", "file=" + refusedSource, "line="} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %q:\n%s", want, log.String())
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("the log has %d lines about it:\n%s", n, log.String())
	}
	b.passes(a, z, frame("in call mode"))
}
