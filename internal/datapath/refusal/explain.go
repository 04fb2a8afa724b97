// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/internal/datapath/link"
)

// report is the parsed log of the verifier.
type report struct {
	// sentences contain the reason.
	sentences []string
	// steps are the lines of the verified path, in order.
	steps []string
	// at is the last instruction that it reached, -1 if it names none.
	at       int
	verified int
	// depths are the stack sizes of each function in bytes.
	depths []int
}

var (
	stepLine   = regexp.MustCompile(`^(\d+): \([0-9a-f]{2}\) `)
	processed  = regexp.MustCompile(`^processed (\d+) insns`)
	stackDepth = regexp.MustCompile(`\d+(?:\+\d+)*`)
	// Lines that are part of the path and not a reason: lines of C, states, functions.
	wayLine    = regexp.MustCompile(`^(?:; |\d+: |from \d+ to \d+|Validating |Func#|func#|caller:|callee:|returning from callee:|to caller at |propagating |cur state:|old state:|\s|arg#\d+ reference type|R\d+(?:_\w+)?=|frame\d+: )`)
	mapAddress = regexp.MustCompile(`(\(18\) r\d+ = )0xffff[0-9a-f]{12}\b`)
	noPointer  = regexp.MustCompile(`\b(R\d+) invalid mem access '(?:scalar|inv)'`)
	// named are instructions that a reason names: the one where a reference was acquired is more useful than the
	// one where its release is missing.
	namedInstruction = []*regexp.Regexp{regexp.MustCompile(`alloc_insn=(\d+)`), regexp.MustCompile(`insn (\d+)`)}
)

// read parses a log.
func read(log string) report {
	r := report{at: -1}
	for line := range strings.SplitSeq(strings.TrimSpace(log), "\n") {
		line = strings.TrimRight(line, " \t\r")
		switch {
		case line == "", strings.HasPrefix(line, "verification time "):
		case strings.HasPrefix(line, "processed "):
			if m := processed.FindStringSubmatch(line); m != nil {
				r.verified, _ = strconv.Atoi(m[1]) // no machine has too small an int
			}
		case strings.HasPrefix(line, "stack depth "):
			for d := range strings.SplitSeq(stackDepth.FindString(line), "+") {
				n, _ := strconv.Atoi(d)
				r.depths = append(r.depths, n)
			}
		default:
			r.step(line)
		}
	}
	return r
}

// step processes a line of the path, or returns why it ends.
func (r *report) step(line string) {
	r.steps = append(r.steps, line)
	if m := stepLine.FindStringSubmatch(line); m != nil {
		r.at, _ = strconv.Atoi(m[1])
		r.sentences = nil
	} else if !wayLine.MatchString(line) {
		r.sentences = append(r.sentences, line)
	}
}

// Limits of the output.
const (
	lastSteps = 12
	stepWidth = 200
)

// explain creates the refusal for an error, nil if the verifier gives no reason.
func explain(spec *ebpf.ProgramSpec, places []link.Place, err error, said report) *Error {
	if len(said.sentences) == 0 {
		return nil
	}
	r := &Error{
		Sentence: strings.Join(said.sentences[max(0, len(said.sentences)-3):], "; "), Among: cubesOf(places),
		Verified: said.verified, Instructions: len(spec.Instructions), cause: err,
	}
	r.Hint = hint(r.Sentence)
	if said.isNull() {
		r.Hint = hint("map_value_or_null")
	}
	for _, l := range said.steps[max(0, len(said.steps)-lastSteps):] {
		l = mapAddress.ReplaceAllString(l, "${1}...") // kernel addresses must not be shown to every user of the API
		r.Log = append(r.Log, l[:min(len(l), stepWidth)])
	}
	switch offset := instruction(r.Sentence, said.at); {
	case aboutStack(r.Sentence):
		r.Stack = deepest(spec.Instructions, places, said.depths)
		r.Place = largest(r.Stack, places)
	case offset >= 0:
		r.Place = placeAt(spec.Instructions, places, offset)
	}
	if tooMuch(r.Sentence) {
		r.Loops = r.loopsOf(spec.Instructions, places)
	}
	if r.Function == "" && len(r.Among) == 1 {
		r.Origin = r.Among[0]
	}
	return r
}

// isNull reports whether a value used as a pointer is known to be NULL: it was tested, and used in the wrong branch.
func (r report) isNull() bool {
	m := noPointer.FindStringSubmatch(strings.Join(r.sentences, "; "))
	if m == nil {
		return false
	}
	state := regexp.MustCompile(`\b` + m[1] + `(?:_\w+)?=(\S+)`)
	for _, step := range slices.Backward(r.steps) {
		if values := state.FindAllStringSubmatch(step, -1); values != nil {
			last := values[len(values)-1][1]
			return last == "0" || last == "inv0" || last == "P0"
		}
	}
	return false
}

// instruction returns the instruction that the sentence refers to, -1 if none.
func instruction(sentence string, last int) int {
	for _, re := range namedInstruction {
		if m := re.FindStringSubmatch(sentence); m != nil {
			n, _ := strconv.Atoi(m[1])
			return n
		}
	}
	return last
}

// placeAt returns the origin of the instruction at an offset, as the kernel counts.
func placeAt(insns asm.Instructions, places []link.Place, offset int) link.Place {
	var at link.Place
	for it := insns.Iterate(); it.Next() && int(it.Offset) <= offset; {
		at = places[it.Index]
	}
	return at
}

// callGraph lists the functions that each of n functions calls, by number. taken omits calls by the offset of their
// instruction.
func callGraph(insns asm.Instructions, places []link.Place, n int, taken func(offset int) bool) [][]int {
	bySymbol := map[string]int{}
	for _, p := range places {
		bySymbol[p.Symbol] = p.Subprogram
	}
	calls := make([][]int, n)
	for it := insns.Iterate(); it.Next(); {
		at := places[it.Index].Subprogram
		to, ok := bySymbol[it.Ins.Reference()]
		if ok && it.Ins.IsFunctionReference() && at >= 0 && at < n && to < n && taken(int(it.Offset)) && !slices.Contains(calls[at], to) {
			calls[at] = append(calls[at], to)
		}
	}
	return calls
}

// maxCalls is the kernel's limit of nested calls. It refuses recursion before it checks the stack.
const maxCalls = 8

// chainFrom returns the call chain from a function that takes most stack, and its size.
func chainFrom(calls [][]int, depths []int, from int) (chain []int, bytes int) {
	var walk func(f, level int) ([]int, int)
	walk = func(f, level int) ([]int, int) {
		var below []int
		most := 0
		if level < maxCalls {
			for _, c := range calls[f] {
				if chain, sum := walk(c, level+1); sum > most {
					below, most = chain, sum
				}
			}
		}
		return append([]int{f}, below...), most + depths[f]
	}
	return walk(from, 0)
}

// deepest returns the call chain that takes most stack. The verifier reports the size of each function, in order.
func deepest(insns asm.Instructions, places []link.Place, depths []int) []Frame {
	if len(depths) == 0 {
		return nil
	}
	chain, _ := chainFrom(callGraph(insns, places, len(depths), func(int) bool { return true }), depths, 0)
	var out []Frame
	for _, f := range chain {
		at := slices.IndexFunc(places, func(p link.Place) bool { return p.Subprogram == f })
		if at < 0 {
			continue
		}
		frame := Frame{Origin: places[at].Origin, Bytes: depths[f]}
		for _, p := range places[at:] {
			if p.Subprogram == f && !p.Framework() && p.Origin != frame.Origin && !slices.Contains(frame.Inlined, p.Cube) {
				frame.Inlined = append(frame.Inlined, p.Cube)
			}
		}
		out = append(out, frame)
	}
	return out
}

// largest returns the place of the largest frame that belongs to a cube: its first line.
func largest(frames []Frame, places []link.Place) link.Place {
	var ofCubes []Frame
	for _, f := range frames {
		if !f.Framework() {
			ofCubes = append(ofCubes, f)
		}
	}
	if len(ofCubes) == 0 {
		return link.Place{}
	}
	most := slices.MaxFunc(ofCubes, func(a, b Frame) int { return cmp.Compare(a.Bytes, b.Bytes) })
	at := slices.IndexFunc(places, func(p link.Place) bool { return p.Origin == most.Origin && p.Line.File != "" })
	if at < 0 {
		return link.Place{Origin: most.Origin}
	}
	return places[at]
}

// loopsOf returns the lines where the code at fault jumps back. The place where the verifier gave up is not always
// where most of its work was, or is unknown; then it is the cube with loops, if only one has some.
func (r *Error) loopsOf(insns asm.Instructions, places []link.Place) []link.Line {
	back := loops(insns, places)
	if r.Framework() {
		r.Place = common(back)
	}
	var out []link.Line
	for _, p := range back {
		if (r.Framework() || p.Cube == r.Cube) && (r.Function == "" || p.Function == r.Function) && p.Line.File != "" && !slices.Contains(out, p.Line) {
			out = append(out, p.Line)
		}
	}
	return out
}

// loops are the places where code of cubes jumps back.
func loops(insns asm.Instructions, places []link.Place) []link.Place {
	labels := map[string]int{}
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			labels[s] = i
		}
	}
	var out []link.Place
	for i := range insns {
		op := insns[i].OpCode
		to, ok := labels[insns[i].Reference()]
		if ok && to <= i && op.Class().IsJump() && op.JumpOp() != asm.Call && !places[i].Framework() {
			out = append(out, places[i])
		}
	}
	return out
}

// common returns what places have in common: place, function or cube.
func common(places []link.Place) link.Place {
	if len(places) == 0 {
		return link.Place{}
	}
	out := places[0]
	for _, p := range places[1:] {
		switch {
		case p.Cube != out.Cube:
			return link.Place{}
		case p.Function != out.Function:
			out = link.Place{Origin: link.Origin{Cube: p.Cube, Service: p.Service}}
		case p.Line != out.Line:
			out = link.Place{Origin: out.Origin}
		}
	}
	return out
}

// missingFunction returns the refusal of a program that calls a function which the kernel does not have. The verifier
// does not see it: the function has no number.
func missingFunction(spec *ebpf.ProgramSpec, places []link.Place, err error) *Error {
	if !errors.Is(err, btf.ErrNotFound) && !errors.Is(err, ebpf.ErrNotSupported) {
		return nil
	}
	for i := range spec.Instructions {
		ins := &spec.Instructions[i]
		if name := ins.Reference(); ins.IsKfuncCall() && name != "" && strings.Contains(err.Error(), name) {
			sentence := "kernel function " + name + " is not there"
			return &Error{Place: places[i], Sentence: sentence, Hint: hint(sentence), Instructions: len(spec.Instructions), cause: err}
		}
	}
	return nil
}
