// SPDX-License-Identifier: Apache-2.0

package efw

// Tells when a table of iptables-legacy is swapped, by a program on the function of the kernel that does it. The program runs when
// that function returns: the new table can be read then. On its entry, the old one would be read, and the change missed.

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
)

// swapFunction puts a table in place of another one, in any namespace and family.
const swapFunction = "xt_replace_table"

// swapRing is the size of the ring. A swap for which it has no room is noticed with those in front of it.
const swapRing = 1 << 16

// swaps reports replacements of iptables-legacy tables.
type swaps struct {
	open  []io.Closer
	ended sync.WaitGroup
}

// followSwaps tells after each call of the function that swaps tables, once for several that follow each other. The error is
// ebpf.ErrNotSupported if the kernel has no tables, or has not loaded the module with them.
func followSwaps(function string, tell func()) (*swaps, error) {
	s := &swaps{}
	reader, err := s.attach(function)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("watch for replacements of iptables-legacy tables: %w", err), s.close())
	}
	s.ended.Go(func() {
		var r ringbuf.Record
		for reader.ReadInto(&r) == nil { // until it is closed
			if r.Remaining == 0 {
				tell()
			}
		}
	})
	return s, nil
}

// attach loads and attaches the program, and opens its ring.
func (s *swaps) attach(function string) (*ringbuf.Reader, error) {
	ring, err := ebpf.NewMap(&ebpf.MapSpec{Name: "efw_swaps", Type: ebpf.RingBuf, MaxEntries: swapRing})
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, ring)
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "efw_swapped", Type: ebpf.Tracing, AttachType: ebpf.AttachTraceFExit, AttachTo: function, License: "Dual BSD/GPL",
		Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R0, 0), // that there is an entry says all
			asm.StoreMem(asm.RFP, -8, asm.R0, asm.DWord),
			asm.LoadMapPtr(asm.R1, ring.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -8),
			asm.Mov.Imm(asm.R3, 8),
			asm.Mov.Imm(asm.R4, 0),
			asm.FnRingbufOutput.Call(),
			asm.Mov.Imm(asm.R0, 0),
			asm.Return(),
		},
	})
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, program)
	attached, err := link.AttachTracing(link.TracingOptions{Program: program})
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, attached)
	reader, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, err
	}
	s.open = append(s.open, reader)
	return reader, nil
}

// close ends it, when the function has returned for the last time. There may be nothing to close.
func (s *swaps) close() error {
	if s == nil {
		return nil
	}
	var errs []error
	for i := len(s.open) - 1; i >= 0; i-- {
		errs = append(errs, s.open[i].Close())
	}
	s.ended.Wait()
	return errors.Join(errs...)
}
