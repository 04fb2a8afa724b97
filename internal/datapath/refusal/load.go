// SPDX-License-Identifier: Apache-2.0

// Package refusal loads linked programs, and if the kernel's verifier refuses one, determines the cause: which cube,
// which of its functions, which line of C, and the remedy.
//
// Programs are loaded with the shortest log of the verifier, a few lines of figures. The log of its steps costs time and
// memory: only a refused program is loaded again with that, of limited size.
package refusal

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/link"
)

// Load loads a linked program. An error is a *Error if the verifier refuses the program. Any other failure (no memory,
// no privilege, a program of several cubes that is too large and will be split) is not. round is how many bytes of stack
// a function counts for.
func Load(spec *ebpf.ProgramSpec, round func(bytes int) int) (*ebpf.Program, Cost, error) {
	prog, err := ebpf.NewProgramWithOptions(withoutLines(spec), ebpf.ProgramOptions{LogLevel: ebpf.LogLevelStats})
	if err == nil {
		return prog, costOf(spec, read(prog.VerifierLog), round), nil
	}
	return nil, Cost{}, refused(spec, err)
}

// withoutLines returns a copy of a program whose instructions have no source lines. These take more kernel memory than the
// instructions themselves, and a tenth of the time to load them; only a refusal needs them.
func withoutLines(spec *ebpf.ProgramSpec) *ebpf.ProgramSpec {
	out := *spec
	out.Instructions = make(asm.Instructions, len(spec.Instructions))
	for i := range out.Instructions {
		out.Instructions[i] = spec.Instructions[i].WithSource(nil)
	}
	return &out
}

// refused returns why a program was refused.
func refused(spec *ebpf.ProgramSpec, err error) error {
	places := link.Places(spec.Instructions)
	if r := missingFunction(spec, places, err); r != nil {
		return r
	}
	if verdict(err) && (!errors.Is(err, unix.E2BIG) || len(cubesOf(places)) <= 1) {
		b, aerr := assemble(spec)
		if aerr != nil {
			return fmt.Errorf("%w (find the reason: %w)", err, aerr)
		}
		defer b.close()
		if r := explain(spec, places, err, read(logOf(b.load, heavy(err)))); r != nil {
			return r
		}
	}
	return fmt.Errorf("refused by the kernel: %w", err)
}

// verdicts are the errors of the verifier: EFAULT is also returned if there are too many jumps on a path, 524 is
// ENOTSUPP. The log tells whether the verifier ran at all.
var verdicts = []error{unix.EINVAL, unix.EACCES, unix.E2BIG, unix.EFAULT, unix.EPERM, unix.EOPNOTSUPP, unix.ERANGE, unix.Errno(524)}

// verdict reports whether an error may be the verifier's.
func verdict(err error) bool {
	if !errors.As(err, new(*ebpf.VerifierError)) && !errors.Is(err, unix.EFAULT) {
		return false
	}
	for _, v := range verdicts {
		if errors.Is(err, v) {
			return true
		}
	}
	return false
}

// heavy reports whether the verifier gave up, so that another run takes seconds.
func heavy(err error) bool { return errors.Is(err, unix.E2BIG) || errors.Is(err, unix.EFAULT) }

// cubesOf lists the cubes whose code a program contains, in order.
func cubesOf(places []link.Place) []link.Origin {
	var out []link.Origin
	seen := map[string]bool{}
	for _, p := range places {
		if !p.Framework() && !seen[p.Cube] {
			seen[p.Cube] = true
			out = append(out, link.Origin{Cube: p.Cube, Service: p.Service})
		}
	}
	return out
}
