// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

// setSize is SET of testdata/sharer.bpf.c.
const setSize = 16

// version is a set of which all entries have the same value.
func version(v uint64, n int) iter.Seq2[uint32, uint64] {
	return func(yield func(uint32, uint64) bool) {
		for i := range uint32(n) {
			if !yield(i, v) {
				return
			}
		}
	}
}

// sets opens one of the maps of maps of a sharer.
func sets(b *bench, n *Node, name string) table.MapOf[uint32, uint32, uint64] {
	b.t.Helper()
	m, err1 := b.plane.Map(n.ID, name)
	inner, err2 := b.plane.Inner(n.ID, name)
	if err := errors.Join(err1, err2); err != nil {
		b.t.Fatal(err)
	}
	t, err := table.MapOfOver[uint32, uint32, uint64](name, m, inner)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// entered is the program that packets from a netdev enter.
func (b *bench) entered(n *Node) *ebpf.Program {
	b.t.Helper()
	for _, c := range b.plane.parts {
		for _, id := range c.IDs {
			if id != n.ID {
				continue
			}
			for _, prog := range c.entrance.Programs() {
				return prog
			}
		}
	}
	b.t.Fatalf("no program leads to %s", n.Name)
	return nil
}

func TestASetIsReplacedWhole(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.serve("sharer")
		n, x, y := b.pair("sharer", map[string]any{"what": uint32(4)})
		b.commit()
		b.stops(x, n, "no-set")
		set := sets(b, n, "sets")
		if err := set.Replace(0, version(1, setSize)); err != nil {
			t.Fatal(err)
		}
		b.passes(x, y, frame("the first set"))
		rx := netns.OpenRaw(t, y, netns.Inner)
		stop := stream(b, x, 500*time.Microsecond)
		for v := range uint64(200) {
			if err := set.Replace(0, version(v+2, setSize)); err != nil {
				t.Error(err)
				break
			}
		}
		arrive(b, rx, stop())
		if got := b.fate(n, "torn"); got != 0 {
			t.Errorf("%d packets saw a part of a set", got)
		}
		got, ok, err := set.Get(0)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		defer func() { _ = got.Close() }()
		if v, ok, err := got.Get(setSize - 1); v != 201 || !ok || err != nil {
			t.Errorf("the last entry is %d %v %v, want 201", v, ok, err)
		}
	})
}

func TestWhatDoesNotFitASetLeavesTheOldOne(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[1])
	b.serve("sharer")
	n, x, y := b.pair("sharer", map[string]any{"what": uint32(4)})
	b.commit()
	set, table := sets(b, n, "sets"), sets(b, n, "tables")
	if err := errors.Join(set.Replace(0, version(5, setSize)), table.Replace(77, version(5, 3))); err != nil {
		t.Fatal(err)
	}
	if err := set.Replace(0, version(6, setSize+1)); !errors.Is(err, cube.ErrFull) {
		t.Errorf("an entry too many for an array: %v", err)
	}
	if err := set.Replace(4, version(6, setSize)); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a set beyond the last: %v", err)
	}
	twice := func(yield func(uint32, uint64) bool) { _ = yield(99, 1) }
	if err := set.Replace(0, twice); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("an entry beyond the end of an array: %v", err)
	}
	b.passes(x, y, frame("the set is whole"))
	for k := range uint32(3) {
		if err := table.Replace(k, version(1, 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Replace(50, version(1, 1)); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a fifth table: %v", err)
	}
	if err := table.Replace(77, version(9, 100)); err != nil {
		t.Errorf("a hash inside grows with its entries: %v", err)
	}
	var err error
	keys := 0
	for range table.Keys(&err) {
		keys++
	}
	if gone, err1 := table.Delete(77); keys != 4 || err != nil || !gone || err1 != nil {
		t.Errorf("%d tables (%v), deleted %v (%v)", keys, err, gone, err1)
	}
	if _, ok, err := table.Get(77); ok || err != nil {
		t.Errorf("the deleted table: %v %v", ok, err)
	}
	if _, err := b.plane.Inner(n.ID, "own"); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("what is inside a map of no maps: %v", err)
	}
	if _, err := b.plane.Inner(n.ID, "nothing"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("what is inside nothing: %v", err)
	}
}

// Replacing from several goroutines while both CPUs read.
func TestSetsAreReplacedFromManySides(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, settings[1])
	b.serve("sharer")
	n, _, _ := b.pair("sharer", map[string]any{"what": uint32(4)})
	b.commit()
	set := sets(b, n, "sets")
	if err := set.Replace(0, version(1, setSize)); err != nil {
		t.Fatal(err)
	}
	prog := b.entered(n)
	skb := frame("run")
	ctx := struct {
		Skip    [10]uint32
		Ifindex uint32
	}{Ifindex: uint32(b.g.Netdevs["x"+n.Name].Index)} // struct __sk_buff
	var writers, readers sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		readers.Go(func() {
			err := b.inLab(func() error {
				for {
					select {
					case <-done:
						return nil
					default:
					}
					if _, err := prog.Run(&ebpf.RunOptions{Data: skb, Repeat: 500, Context: ctx}); err != nil {
						return err
					}
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for w := range uint64(3) {
		writers.Go(func() {
			for v := range uint64(60) {
				if err := set.Replace(0, version(w*1000+v+1, setSize)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if got := b.fate(n, "torn") + b.fate(n, "no-set"); got != 0 {
		t.Errorf("%d packets saw no whole set", got)
	}
	if got := b.counters(n, 0).RxPackets; got < 10000 {
		t.Errorf("only %d packets read sets", got)
	}
}
