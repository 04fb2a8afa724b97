// SPDX-License-Identifier: Apache-2.0

package series

// Entries as bytes, by the batch operations of the kernel.

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Entries are those of a map, as bytes.
type Entries struct {
	// Keys has those of all entries, one behind the other; it is empty for queues and stacks.
	Keys []byte
	// Values has as many values for each entry as there are CPUs in a map with one for each, otherwise one.
	Values []byte
	// Len is the number of entries, and CPUs that of the values of each.
	Len, CPUs int
	// keySize and valueSize are in bytes, stride is the distance of values.
	keySize, valueSize, stride int
}

// Key is that of an entry.
func (e *Entries) Key(i int) []byte { return e.Keys[i*e.keySize:][:e.keySize] }

// Value is one of the values of an entry.
func (e *Entries) Value(i, cpu int) []byte { return e.Values[(i*e.CPUs+cpu)*e.stride:][:e.valueSize] }

// Commands and attributes of bpf(2).
const (
	cmdLookupBatch          = 24
	cmdLookupAndDeleteBatch = 25
	cmdUpdateBatch          = 26
)

type batchAttr struct {
	inBatch, outBatch, keys, values uint64
	count, fd                       uint32
	elemFlags, flags                uint64
}

// batchEntries is how many entries are read at once; buckets of a hash have fewer.
const batchEntries = 4096

// Kinds of maps.
func isArray(t ebpf.MapType) bool { return t == ebpf.Array || t == ebpf.PerCPUArray }
func isQueue(t ebpf.MapType) bool { return t == ebpf.Queue || t == ebpf.Stack }
func isHash(t ebpf.MapType) bool {
	return t == ebpf.Hash || t == ebpf.LRUHash || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

func isPerCPU(t ebpf.MapType) bool {
	return t == ebpf.PerCPUArray || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

// Read reads all entries of a map. With empty, a hash loses the entries that are read, and values of an array become zero;
// what programs add between the two is lost, unless no program uses the map. Queues and stacks are always emptied.
func Read(m *ebpf.Map, empty bool) (*Entries, error) {
	e := &Entries{keySize: int(m.KeySize()), valueSize: int(m.ValueSize()), stride: int(m.ValueSize()), CPUs: 1}
	if isPerCPU(m.Type()) {
		cpus, err := ebpf.PossibleCPU()
		if err != nil {
			return nil, fmt.Errorf("number of CPUs: %w", err)
		}
		e.CPUs, e.stride = cpus, (e.valueSize+7)&^7
	}
	var err error
	switch {
	case isQueue(m.Type()):
		err = e.pop(m)
	case isHash(m.Type()) && empty:
		err = e.batches(m, cmdLookupAndDeleteBatch)
	case isHash(m.Type()), isArray(m.Type()), m.Type() == ebpf.LPMTrie:
		if err = e.batches(m, cmdLookupBatch); err == nil && empty {
			err = e.clear(m)
		}
	default:
		err = fmt.Errorf("maps of type %s cannot be read: %w", m.Type(), ebpf.ErrNotSupported)
	}
	if err != nil {
		return nil, fmt.Errorf("read map %s: %w", m, err)
	}
	return e, nil
}

// pop empties a queue or a stack, of what is there at the beginning.
func (e *Entries) pop(m *ebpf.Map) error {
	value := make([]byte, e.valueSize)
	for range m.MaxEntries() {
		err := m.LookupAndDelete(nil, &value)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		e.Values = append(e.Values, value...)
		e.Len++
	}
	return nil
}

// batches reads all entries.
func (e *Entries) batches(m *ebpf.Map, cmd uintptr) error {
	width := e.stride * e.CPUs
	count := min(batchEntries, int(m.MaxEntries()))
	position := make([]byte, max(e.keySize, 8)) // a bucket, or a key
	for first := true; ; first = false {
		e.Keys = grow(e.Keys, (e.Len+count)*e.keySize)
		e.Values = grow(e.Values, (e.Len+count)*width)
		in := position
		if first {
			in = nil
		}
		n, err := batch(m, cmd, in, position, e.Keys[e.Len*e.keySize:], e.Values[e.Len*width:], count)
		switch {
		case errors.Is(err, unix.ENOSPC) && count < int(m.MaxEntries()):
			count = min(2*count, int(m.MaxEntries())) // a bucket with more entries
			continue
		case err != nil && !errors.Is(err, unix.ENOENT):
			return err
		}
		e.Len += n
		if err != nil || e.Len >= int(m.MaxEntries()) && isArray(m.Type()) || e.Len > 2*int(m.MaxEntries()) {
			e.Keys, e.Values = e.Keys[:e.Len*e.keySize], e.Values[:e.Len*width]
			return nil //nolint:nilerr // ENOENT is the end
		}
	}
}

// grow makes a slice at least n bytes long.
func grow(b []byte, n int) []byte {
	if n <= len(b) {
		return b
	}
	if n <= cap(b) {
		return b[:cap(b)]
	}
	out := make([]byte, max(n, 2*cap(b)))
	copy(out, b)
	return out
}

// batch is one system call.
func batch(m *ebpf.Map, cmd uintptr, in, out, keys, values []byte, count int) (int, error) {
	var pin runtime.Pinner
	defer pin.Unpin()
	address := func(b []byte) uint64 {
		if len(b) == 0 {
			return 0
		}
		pin.Pin(&b[0])
		return uint64(uintptr(unsafe.Pointer(&b[0])))
	}
	attr := batchAttr{inBatch: address(in), outBatch: address(out), keys: address(keys), values: address(values),
		count: uint32(count), fd: uint32(m.FD())}
	_, _, errno := unix.Syscall(unix.SYS_BPF, cmd, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m)
	if errno != 0 {
		return int(attr.count), errno
	}
	return int(attr.count), nil
}

// clear makes the values of an array zero, and removes the entries of a trie that were read.
func (e *Entries) clear(m *ebpf.Map) error {
	if e.Len == 0 {
		return nil
	}
	if isArray(m.Type()) {
		for at := 0; at < e.Len; at += batchEntries {
			n := min(batchEntries, e.Len-at)
			zeros := make([]byte, n*len(e.Values)/e.Len)
			if _, err := batch(m, cmdUpdateBatch, nil, nil, e.Keys[at*e.keySize:], zeros, n); err != nil {
				return fmt.Errorf("clear it: %w", err)
			}
		}
		return nil
	}
	for i := range e.Len {
		if err := m.Delete(e.Key(i)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("clear it: %w", err)
		}
	}
	return nil
}
