// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	_ "embed"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
)

//go:embed testdata/locked.tc.o
var lockedTC []byte

// guarded is struct guarded.
type guarded struct {
	Lock, Torn uint32
	Word       [48]uint64
}

func (g guarded) whole() error {
	for i, w := range g.Word {
		if w != g.Word[0] {
			return fmt.Errorf("word %d is %d, word 0 is %d", i, w, g.Word[0])
		}
	}
	if g.Lock != 0 {
		return fmt.Errorf("the lock is %d", g.Lock)
	}
	return nil
}

// TestValuesWithALockAreNeverTorn, while a program changes them under the lock: neither what is read, nor what is written.
func TestValuesWithALockAreNeverTorn(t *testing.T) {
	c := bpftest.Load(t, lockedTC)
	for _, name := range []string{"hash", "array"} {
		values, err := table.Of[uint32, guarded](name, c.Maps[name])
		if err == nil {
			err = values.Set(1, guarded{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		opts := ebpf.RunOptions{Data: make([]byte, 64), Repeat: 1000}
		for !stop.Load() {
			if _, err := c.Programs["change_all"].Run(&opts); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for _, name := range []string{"hash", "array"} {
		values, err := table.Of[uint32, guarded](name, c.Maps[name])
		if err == nil {
			err = whole(values, name == "hash")
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop.Store(true)
	wg.Wait()
}

// whole reads and writes a value in all ways many times.
func whole(values table.Table[uint32, guarded], pages bool) (err error) {
	check := func(how string, g guarded) {
		if broken := g.whole(); broken != nil && err == nil {
			err = fmt.Errorf("%s: %w", how, broken)
		}
		if g.Torn > 0 && err == nil {
			err = fmt.Errorf("%s: a program found a value that was half written", how)
		}
	}
	for n := uint64(0); n < 3000 && err == nil; n++ {
		g, _, failed := values.Get(1)
		if failed != nil {
			return failed
		}
		check("Get", g)
		for _, g := range values.All(&failed) {
			check("All", g)
		}
		if failed == nil && pages {
			var page []table.PageEntry[uint32, guarded]
			page, _, failed = values.Page("", 16, nil)
			for _, e := range page {
				check("Page", e.Value)
			}
		}
		fresh := guarded{}
		for i := range fresh.Word {
			fresh.Word[i] = n << 32
		}
		if failed == nil && n%2 == 0 {
			failed = values.Set(1, fresh)
		} else if failed == nil {
			_, failed = values.SetAll([]uint32{1}, []guarded{fresh})
		}
		if failed != nil {
			return failed
		}
	}
	return err
}
