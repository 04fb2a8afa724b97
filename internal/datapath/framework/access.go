// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"fmt"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
)

// Access gives callers of a Plane access to the framework's maps. None of it waits for a change.
type Access struct{ fw *Framework }

// NewAccess gives access to a Framework.
func NewAccess(fw *Framework) *Access { return &Access{fw} }

// FrameworkMap returns a map shared by the slow path and the programs: "pcn_ring", "pcn_control", "pcn_shares".
func (a *Access) FrameworkMap(name string) *ebpf.Map { return a.fw.Maps[name] }

// DownMap returns the hook's packet-out record.
func (a *Access) DownMap(h cube.Hook) *ebpf.Map { return a.fw.Hook[h][abi.MapDown] }

// TraceUntil lets traced programs record packets for a duration. It is a lease: a daemon that dies does not renew it.
func (a *Access) TraceUntil(d time.Duration) error {
	now, err := cube.Time()
	if err != nil {
		return err
	}
	if err := a.fw.Maps[abi.MapTracing].Put(uint32(0), now+uint64(d)); err != nil {
		return fmt.Errorf("renew the lease of tracing: %w", err)
	}
	return nil
}

// TraceLost returns how many records of traced packets did not fit the ring.
func (a *Access) TraceLost() (uint64, error) {
	var perCPU []uint64
	if err := a.fw.Maps[abi.MapTraceLost].Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("read the lost-steps counter: %w", err)
	}
	var sum uint64
	for _, n := range perCPU {
		sum += n
	}
	return sum, nil
}
