// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// fakeKernel has a log of a size, with the reason at its end.
type fakeKernel struct {
	steps    int // bytes before the reason
	rotating bool
	asked    []string
}

const reason = "R1 invalid mem access 'scalar'\nprocessed 13 insns (limit 1000000)\n"

func (k *fakeKernel) load(level, size uint32) (string, uint32, error) {
	k.asked = append(k.asked, fmt.Sprintf("%d:%d", level, size>>10))
	log := reason
	if level == levelSteps {
		log = strings.Repeat("1: (b7) r0 = 0\n", k.steps/15) + "2: (61) r0 = *(u32 *)(r1 +0)\n" + reason
	}
	whole := uint32(len(log)) + 1
	if whole <= size {
		if !k.rotating {
			whole = 0
		}
		return log, whole, unix.EACCES
	}
	if k.rotating {
		return log[whole-size:], whole, unix.ENOSPC
	}
	return log[:size-1], 0, unix.ENOSPC
}

func TestTheEndOfTheLogIsHadOnEveryKernel(t *testing.T) {
	tests := []struct {
		name     string
		steps    int
		rotating bool
		heavy    bool
		asked    string
		at       int // the last step that is known
	}{
		{"a short log", 1 << 10, true, false, "5:256", 2},
		{"a long log that rotates", 100 << 20, true, false, "5:256", 2},
		{"a short log that does not", 1 << 10, false, false, "5:256", 2},
		{"a longer one", 300 << 10, false, false, "5:256 5:1024", 2},
		{"one that fits the bound", 15 << 20, false, false, "5:256 5:1024 5:4096 5:16384", 2},
		{"one that does not", 17 << 20, false, false, "5:256 5:1024 5:4096 5:16384 4:256", -1},
		{"a verifier that takes seconds, rotating", 100 << 20, true, true, "5:256", 2},
		{"a verifier that takes seconds, not rotating", 300 << 10, false, true, "5:256 4:256", -1},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k := &fakeKernel{steps: test.steps, rotating: test.rotating}
			got := read(logOf(k.load, test.heavy))
			if asked := strings.Join(k.asked, " "); asked != test.asked {
				t.Errorf("asked for %s, want %s", asked, test.asked)
			}
			if !slices.Equal(got.sentences, []string{"R1 invalid mem access 'scalar'"}) || got.verified != 13 || got.at != test.at {
				t.Errorf("read as %q at %d, %d verified, want it at %d", got.sentences, got.at, got.verified, test.at)
			}
		})
	}
}

func TestOnlyTheVerifiersWordIsARefusal(t *testing.T) {
	verifier := func(errno error) error { return &ebpf.VerifierError{Cause: errno} }
	for err, want := range map[error]bool{
		verifier(unix.EACCES): true, verifier(unix.EINVAL): true, verifier(unix.E2BIG): true, verifier(unix.Errno(524)): true,
		fmt.Errorf("load program: %w (hit verifier bug)", unix.EFAULT): true,
		verifier(unix.ENOMEM): false, verifier(unix.ENOSPC): false, verifier(unix.EMFILE): false, verifier(unix.EBADF): false,
		fmt.Errorf("load program: %w (MEMLOCK may be too low)", unix.EPERM): false, unix.EINVAL: false,
	} {
		if got := verdict(err); got != want {
			t.Errorf("%v: %t, want %t", err, got, want)
		}
	}
}

// The kernel's own answer before the verifier looks has no log: it is not dressed up.
func TestWhatIsNoRefusalStaysWhatItIs(t *testing.T) {
	if r := explain(&ebpf.ProgramSpec{}, nil, unix.EINVAL, read("")); r != nil {
		t.Errorf("without a log: %v", r)
	}
	if r := explain(&ebpf.ProgramSpec{}, nil, unix.EINVAL, read("processed 0 insns (limit 1000000)\n")); r != nil {
		t.Errorf("with a log that gives no reason: %v", r)
	}
}
