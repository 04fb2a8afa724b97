// SPDX-License-Identifier: Apache-2.0

package confine

// Resource limits of a service. Limits of a process always apply; control groups, which limit a service as a whole,
// are used if the daemon may create them (cgroup.go).

import (
	"cmp"
	"fmt"

	"golang.org/x/sys/unix"
)

// Limits limit the resources of a service; 0 is the default.
type Limits struct {
	// Memory is in bytes: the private memory of each process, and all memory of the service with control groups.
	Memory uint64
	// Processes includes threads. Files are open descriptors of each process.
	Processes, Files uint64
	// CPU is in hundredths of one processor, with control groups.
	CPU uint64
}

// Defaults are for services in languages with a run-time system.
var defaults = Limits{Memory: 512 << 20, Processes: 256, Files: 512, CPU: 100}

// Other limits, the same for all.
const (
	niceness   = 5
	maxFile    = 16 << 20 // maximum file size in bytes
	addresses  = 16       // address space, as a multiple of its memory: language run-times reserve more than they use
	stackBytes = 8 << 20
	lockBytes  = 64 << 10
)

// withDefaults fills in the defaults.
func (l Limits) withDefaults() Limits {
	return Limits{
		Memory: cmp.Or(l.Memory, defaults.Memory), Processes: cmp.Or(l.Processes, defaults.Processes),
		Files: cmp.Or(l.Files, defaults.Files), CPU: cmp.Or(l.CPU, defaults.CPU),
	}
}

// setEarly sets limits that do not hinder the rest of the setup.
func (l Limits) setEarly() error {
	return setLimits(map[int]uint64{
		unix.RLIMIT_CORE: 0, unix.RLIMIT_FSIZE: maxFile, unix.RLIMIT_NOFILE: l.Files, unix.RLIMIT_STACK: stackBytes,
		unix.RLIMIT_MEMLOCK: lockBytes, unix.RLIMIT_MSGQUEUE: 0, unix.RLIMIT_SIGPENDING: 1024, unix.RLIMIT_NICE: 0,
		unix.RLIMIT_RTPRIO: 0,
	})
}

// setLate sets the remaining limits.
func (l Limits) setLate() error {
	return setLimits(map[int]uint64{
		unix.RLIMIT_NPROC: l.Processes, unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_AS: addresses * l.Memory,
	})
}

func setLimits(limits map[int]uint64) error {
	for what, n := range limits {
		if err := unix.Prlimit(0, what, &unix.Rlimit{Cur: n, Max: n}, nil); err != nil {
			return fmt.Errorf("limit %d to %d: %w", what, n, err)
		}
	}
	return nil
}
