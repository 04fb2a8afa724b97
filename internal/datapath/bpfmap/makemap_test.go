// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

// TestAMapThatDoesNotFitIsRefusedBeforeItIsMade: no machine has a petabyte.
func TestAMapThatDoesNotFitIsRefusedBeforeItIsMade(t *testing.T) {
	netns.NeedRoot(t)
	spec := &ebpf.MapSpec{Name: "large", Type: ebpf.Array, KeySize: 4, ValueSize: 1 << 20, MaxEntries: 1 << 30}
	m, err := New(spec)
	if err == nil {
		_ = m.Close()
		t.Fatal("a map of a petabyte was made")
	}
	if !errors.Is(err, cube.ErrFull) || !errors.Is(err, unix.ENOMEM) || !strings.Contains(err.Error(), "its 1073741824 entries need 1073745920 MB, and ") {
		t.Errorf("%v", err)
	}
	m, err = New(&ebpf.MapSpec{Name: "small", Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	_ = m.Close()
}

// TestTheFootprintIsAboutWhatTheKernelTakes: the kernel's own figure is the judge.
func TestTheFootprintIsAboutWhatTheKernelTakes(t *testing.T) {
	netns.NeedRoot(t)
	if !need.Linux(t, 6, 4) {
		t.Skip("before Linux 6.4 the kernel does not tell what a map takes")
	}
	for _, spec := range []*ebpf.MapSpec{
		{Type: ebpf.Hash, KeySize: 16, ValueSize: 88, MaxEntries: 100000},
		{Type: ebpf.Hash, KeySize: 40, ValueSize: 104, MaxEntries: 32768},
		{Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: 70000, Flags: unix.BPF_F_NO_PREALLOC},
		{Type: ebpf.LRUHash, KeySize: 40, ValueSize: 32, MaxEntries: 16384},
		{Type: ebpf.PerCPUHash, KeySize: 8, ValueSize: 16, MaxEntries: 40000},
		{Type: ebpf.Array, KeySize: 4, ValueSize: 64, MaxEntries: 50000},
		{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 64, MaxEntries: 20000},
	} {
		m, err := New(spec)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Info()
		if err != nil {
			t.Fatal(err)
		}
		is, ok := info.Memlock()
		_ = m.Close()
		if takes := footprint(spec); !ok || takes > is*21/20+1<<16 || takes < is*4/5 {
			t.Errorf("%v: %d bytes, want about %d", spec, takes, is)
		}
	}
}
