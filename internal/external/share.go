// SPDX-License-Identifier: Apache-2.0

package external

// Maps that a service maps into its own memory: its ring and its arrays. The descriptors are of use for memory and for
// waiting alone: a process that the daemon started may not call bpf(). What the service writes there is outside of the
// journal of a Commit, and affects its own cube only.

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// share passes a descriptor of a map to the process, with the number of the request.
func (i *instance) share(t *table, id uint64) error {
	switch {
	case i.l.process == nil:
		return fmt.Errorf("map %s: only a service that the daemon starts (type lib) can map it into memory: %w", t.name, cube.ErrUnsupported)
	case t.inner != nil:
		return fmt.Errorf("map %s: the inner maps of a map of maps cannot be mapped into memory: %w", t.name, cube.ErrUnsupported)
	case t.m.Type() != ebpf.RingBuf && (t.m.Type() != ebpf.Array || t.m.Flags()&unix.BPF_F_MMAPABLE == 0):
		return fmt.Errorf("map %s: only a ring, or an array with the flag BPF_F_MMAPABLE, can be mapped into memory: %w", t.name, cube.ErrInvalid)
	}
	err := i.l.process.Pass(binary.LittleEndian.AppendUint64(nil, id), t.m.FD())
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ETOOMANYREFS) {
		return fmt.Errorf("map %s: the service does not take the descriptors that were passed to it: %w", t.name, cube.ErrFull)
	}
	if err != nil {
		return fmt.Errorf("map %s: pass its descriptor: %w", t.name, err)
	}
	return nil
}
