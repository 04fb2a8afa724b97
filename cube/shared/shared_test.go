// SPDX-License-Identifier: Apache-2.0

package shared

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
)

// thing is a value that counts how often it was opened and closed.
type thing struct{ opened, closed int }

func (x *thing) open() (*thing, error) { x.opened++; return x, nil }
func (x *thing) close() error          { x.closed++; return nil }

// newMap is a map; it skips the test if not root.
func newMap(t *testing.T) *ebpf.Map {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestAValueIsOpenAsLongAsItIsInUse(t *testing.T) {
	var r Registry[*thing]
	m, other := newMap(t), newMap(t)
	same, err := m.Clone() // another descriptor of the same map
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = same.Close() }()
	x, y, unused := &thing{}, &thing{}, &thing{}
	open := func(m *ebpf.Map, x, want *thing) {
		t.Helper()
		if got, err := r.Open(m, x.open); got != want || err != nil {
			t.Fatalf("got %p, %v, want %p", got, err, want)
		}
	}
	release := func(x *thing, opened, closed int) {
		t.Helper()
		if err := r.Release(x, x.close); err != nil {
			t.Fatal(err)
		}
		if x.opened != opened || x.closed != closed {
			t.Errorf("it was opened %d times and closed %d times, want %d and %d", x.opened, x.closed, opened, closed)
		}
	}
	open(m, x, x)
	open(same, unused, x)
	open(other, y, y)
	release(x, 1, 0)
	release(y, 1, 1)
	release(x, 1, 1)
	open(same, x, x)
	release(x, 2, 2)
	if unused.opened != 0 {
		t.Error("a value was opened for a map that has one")
	}
	if err := r.Release(x, x.close); !errors.Is(err, cube.ErrNotFound) || x.closed != 2 {
		t.Errorf("released once too often: the error is %v, want %v", err, cube.ErrNotFound)
	}
}

func TestAValueThatDoesNotOpenIsNotInUse(t *testing.T) {
	var r Registry[*thing]
	m, x, fails := newMap(t), &thing{}, errors.New("it fails")
	if _, err := r.Open(m, func() (*thing, error) { return nil, fails }); !errors.Is(err, fails) {
		t.Errorf("the error is %v, want %v", err, fails)
	}
	if got, err := r.Open(m, x.open); got != x || err != nil {
		t.Errorf("then it is %p, %v, want %p", got, err, x)
	}
	if err := r.Release(x, func() error { return fails }); !errors.Is(err, fails) {
		t.Errorf("an error of closing is %v, want %v", err, fails)
	}
}

func TestAMapThatIsClosedHasNoValue(t *testing.T) {
	var r Registry[*thing]
	m, x := newMap(t), &thing{}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(m, x.open); err == nil || x.opened != 0 {
		t.Errorf("the error is %v, and the value was opened %d times, want an error and none", err, x.opened)
	}
}

func TestManyUsersOpenAndCloseOneValue(t *testing.T) {
	var r Registry[*thing]
	m, x := newMap(t), &thing{}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got, err := r.Open(m, x.open)
				if err != nil || got.opened != got.closed+1 {
					t.Errorf("the value is not open: %v", err)
					return
				}
				if err := r.Release(got, got.close); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if x.opened != x.closed || x.opened == 0 {
		t.Errorf("it was opened %d times and closed %d times", x.opened, x.closed)
	}
}
