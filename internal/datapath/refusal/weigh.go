// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/cilium/ebpf"

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
// calls. round is how many bytes of stack a function counts for, which depends on the kernel.
func WeighWhole(spec *ebpf.ProgramSpec, round func(bytes int) int) (Weight, error) {
	prog, cost, err := Load(spec, round)
	if err != nil {
		return Weight{}, err
	}
	return Weight{cost.Verified, cost.Stack}, prog.Close()
}

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
