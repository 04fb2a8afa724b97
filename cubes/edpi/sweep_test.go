// SPDX-License-Identifier: Apache-2.0

package edpi

import (
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/netns"
)

// TestTheClassOfASilentFlowIsReadEveryFewSweeps: a packet has it read at once.
func TestTheClassOfASilentFlowIsReadEveryFewSweeps(t *testing.T) {
	netns.NeedRoot(t)
	var key dpi.Key
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: uint32(unsafe.Sizeof(key)), ValueSize: uint32(unsafe.Sizeof(dpi.Decision{})), MaxEntries: 4})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	decisions, err := table.Of[dpi.Key, dpi.Decision]("decisions", m)
	if err != nil {
		t.Fatal(err)
	}
	f := &flows{decisions: decisions, late: map[uint64]lateClass{}}
	decide := func(protocol uint16) {
		t.Helper()
		if err := decisions.Set(key, dpi.Decision{ID: 3, Class: dpi.Class{Protocol: protocol}}); err != nil {
			t.Fatal(err)
		}
	}
	is := dpi.Flow{ID: 3, Inspected: 1, Packets: [2]uint64{1, 0}}
	class := func() uint16 {
		t.Helper()
		c, known, late := f.class(key, &is)
		if known != late {
			t.Fatalf("known is %t and late %t", known, late)
		}
		return c.Protocol
	}
	for range rereads {
		if got := class(); got != 0 {
			t.Fatalf("before the decision, the protocol is %d", got)
		}
		f.sweeps++
	}
	decide(5)
	if got := class(); got != 5 {
		t.Errorf("the protocol is %d, want 5 in the first sweep after the decision", got)
	}
	decide(9)
	read := 0
	for range 2 * rereads {
		f.sweeps++
		if class() == 9 {
			read++
		}
	}
	if read < rereads || read == 2*rereads {
		t.Errorf("in %d of %d sweeps the new decision is known, want it after at most %d, and not from the first on", read, 2*rereads, rereads)
	}
	decide(11)
	is.Packets[1]++
	if got := class(); got != 11 {
		t.Errorf("after a packet, the protocol is %d, want 11", got)
	}
	is.Flags |= dpi.Decided
	is.Class.Protocol = 3
	if c, known, late := f.class(key, &is); c.Protocol != 3 || !known || late {
		t.Errorf("%d, known %t, late %t; want the class that the program has adopted", c.Protocol, known, late)
	}
	is = dpi.Flow{ID: 8, Inspected: 1}
	if _, known, _ := f.class(key, &is); known {
		t.Error("a flow has the decision about an earlier one")
	}
}
