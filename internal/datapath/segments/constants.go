// SPDX-License-Identifier: Apache-2.0

package segments

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Constants of a segment's programs are in one map. If it is frozen, the verifier knows their values and removes the
// code that they disable. If it is live, they can be written while the programs run, which then contain the code for
// every value.

// Freeze puts the constants into a read-only map, so the verifier knows their values.
func Freeze(data []byte) (*ebpf.Map, error) {
	m, err := newConstants("pcn_rodata", data, flagRdonlyProg)
	if err != nil {
		return nil, err
	}
	if err := m.Freeze(); err != nil {
		_ = m.Close()
		return nil, fmt.Errorf("freeze constants: %w", err)
	}
	return m, nil
}

// Flags of maps.
const (
	flagRdonlyProg = 1 << 7  // BPF_F_RDONLY_PROG
	flagMmapable   = 1 << 10 // BPF_F_MMAPABLE
)

func newConstants(name string, data []byte, flags uint32) (*ebpf.Map, error) {
	if len(data) == 0 {
		data = make([]byte, 16)
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{
		Name: name, Type: ebpf.Array, KeySize: 4, ValueSize: uint32(len(data)), MaxEntries: 1,
		Flags: flags, Contents: []ebpf.MapKV{{Key: uint32(0), Value: data}},
	})
	if err != nil {
		return nil, fmt.Errorf("constants: %w", withoutDescriptors(err))
	}
	return m, nil
}

// liveConstants are constants that programs read from memory that the daemon maps. Its owner serializes its methods.
type liveConstants struct {
	memory []byte // whole pages; the constants are at the beginning
	values []byte // what is there now
}

// makeLive puts the constants into a writable map. The map need not stay open once programs use it. The kernel does not
// map memory for writing if programs must not write it; those of the segment do not write, or the verifier would have
// refused them when the constants were frozen.
func makeLive(data []byte) (*ebpf.Map, *liveConstants, error) {
	m, err := newConstants("pcn_live", data, flagMmapable)
	if err != nil {
		return nil, nil, err
	}
	page := unix.Getpagesize()
	size := (int(m.ValueSize()) + page - 1) / page * page
	memory, err := unix.Mmap(m.FD(), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = m.Close()
		return nil, nil, fmt.Errorf("map constants: %w", err)
	}
	return m, &liveConstants{memory: memory, values: bytes.Clone(data)}, nil
}

// word is the unit of one store; programs see all of it or nothing.
const word = 8

// differingWord returns the position of the only word that differs; ok is false if there is none, or several.
func (l *liveConstants) differingWord(values []byte) (at int, ok bool) {
	if len(values) != len(l.values) {
		return 0, false
	}
	for i := 0; i < len(values); i += word {
		end := min(i+word, len(values))
		if bytes.Equal(values[i:end], l.values[i:end]) {
			continue
		}
		if ok {
			return 0, false
		}
		at, ok = i, true
	}
	return at, ok
}

// write writes all values, each word that differs by one store.
func (l *liveConstants) write(values []byte) {
	for i := 0; i < len(values); i += word {
		end := min(i+word, len(values))
		if bytes.Equal(values[i:end], l.values[i:end]) {
			continue
		}
		var next [word]byte
		copy(next[:], values[i:end])
		atomic.StoreUint64((*uint64)(unsafe.Pointer(&l.memory[i])), *(*uint64)(unsafe.Pointer(&next)))
	}
	l.values = bytes.Clone(values)
}

func (l *liveConstants) close() {
	_ = unix.Munmap(l.memory)
	l.memory = nil
}
