// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/internal/datapath/link"
)

// Weight is the verifier's work for a function that it checks separately, and its stack usage, both including the
// functions that it calls.
type Weight struct {
	// Verified is the number of instructions that the verifier processes, each as often as it is reached; Stack is
	// in bytes.
	Verified, Stack int
}

// Weigh lets the kernel verify a program, and closes it. The weights are those of the driver and of the program's
// global functions, including those of cubes in call mode.
func Weigh(spec *ebpf.ProgramSpec) (map[link.Origin]Weight, error) {
	b, err := assemble(spec)
	if err != nil {
		return nil, err
	}
	defer b.close()
	log, _, err := b.load(levelAll, 8*logMost)
	if err != nil {
		return nil, fmt.Errorf("refused by the kernel: %w", err)
	}
	said, places := read(log), link.Places(spec.Instructions)
	verified := stepsOf(said)
	out := map[link.Origin]Weight{}
	calls := callsTaken(spec, places, said)
	for i, p := range places {
		if first := i == 0 || places[i-1].Subprogram != p.Subprogram; first && p.Subprogram < len(said.depths) && verified[p.Subprogram] > 0 {
			_, bytes := chainFrom(calls, said.depths, p.Subprogram)
			out[p.Origin] = Weight{Verified: verified[p.Subprogram], Stack: bytes}
		}
	}
	return out, nil
}

// WeighWhole lets the kernel verify a program, and closes it. The weight is that of the whole program, with all that it
// calls: its stack is that of the deepest chain of calls as the kernel counts it for its limit of 512 bytes. round is how
// many bytes a function counts for, which depends on the kernel.
func WeighWhole(spec *ebpf.ProgramSpec, round func(bytes int) int) (Weight, error) {
	b, err := assemble(spec)
	if err != nil {
		return Weight{}, err
	}
	defer b.close()
	log, _, err := b.load(levelReason, logStart)
	if err != nil {
		return Weight{}, fmt.Errorf("refused by the kernel: %w\n%s", err, log)
	}
	said, places := read(log), link.Places(spec.Instructions)
	if said.verified == 0 || len(said.depths) == 0 {
		return Weight{}, fmt.Errorf("no figures in the verifier's log: %q", log)
	}
	loops := map[int]bool{}
	for i, p := range places {
		if in := &spec.Instructions[i]; in.IsBuiltinCall() && in.Constant == int64(asm.FnLoop) {
			loops[p.Subprogram] = true
		}
	}
	for f, bytes := range said.depths {
		if loops[f] {
			bytes -= inlinedLoop
		}
		said.depths[f] = round(bytes)
	}
	every := func(int) bool { return true }
	_, bytes := chainFrom(callGraph(spec.Instructions, places, len(said.depths), every), said.depths, 0)
	return Weight{Verified: said.verified, Stack: bytes}, nil
}

// inlinedLoop is the number of bytes that the kernel adds to the stack of a function when it inlines calls of bpf_loop
// in it, after it has compared the stack with the limit, and before it logs it.
const inlinedLoop = 24

// levelAll keeps the steps of successful paths, in a log several times as long.
const levelAll = 2 | levelSteps

var validating = regexp.MustCompile(`^Validating \S+\(\) func#(\d+)`)

// stepsOf counts the steps of the verifier by function. The driver is the first.
func stepsOf(said report) map[int]int {
	steps, at := map[int]int{}, 0
	for _, line := range said.steps {
		if m := validating.FindStringSubmatch(line); m != nil {
			at, _ = strconv.Atoi(m[1])
		} else if stepLine.MatchString(line) {
			steps[at]++
		}
	}
	return steps
}

// callsTaken are the calls that the verifier reached, by function: those that constants disable are not among them.
func callsTaken(spec *ebpf.ProgramSpec, places []link.Place, said report) [][]int {
	taken := map[int]bool{}
	for _, step := range said.steps {
		if m := stepLine.FindStringSubmatch(step); m != nil {
			at, _ := strconv.Atoi(m[1])
			taken[at] = true
		}
	}
	return callGraph(spec.Instructions, places, len(said.depths), func(offset int) bool { return taken[offset] })
}
