// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pace"
)

// TestGoroutinesOfACubeEnterItsTurn: many goroutines and a handler count without a lock, and none waits for a clock.
func TestGoroutinesOfACubeEnterItsTurn(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	env := l.envOf("br1")
	const goroutines, each = 8, 200
	count := 0
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range each {
				if err := env.Do(func() { count++ }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range each {
		l.view.Load().Units["br1"].PacketIn(&cube.PacketIn{Data: []byte("x")})
	}
	all.Wait()
	if err := env.Do(func() {
		if count != goroutines*each {
			t.Errorf("called %d times, want %d", count, goroutines*each)
		}
	}); err != nil {
		t.Error(err)
	}
}

// TestAGoroutineOfACubeThatGoesIsNotHeldUp: it gets an error, whatever happened to the cube, and its function is not called.
func TestAGoroutineOfACubeThatGoesIsNotHeldUp(t *testing.T) {
	for what, end := range map[string]func(l *lab, env cube.Env){
		"deleted": func(l *lab, _ cube.Env) { l.must(`delete br1`) },
		"panics":  func(_ *lab, env cube.Env) { _ = env.Do(func() { panic("no") }) },
	} {
		l := newLab(t)
		l.must(`create toybridge br1`)
		env := l.envOf("br1")
		end(l, env)
		ended := make(chan error, 1)
		go func() { ended <- env.Do(func() { t.Errorf("%s: it is called", what) }) }()
		select {
		case err := <-ended:
			if !errors.Is(err, cube.ErrNotFound) {
				t.Errorf("%s: %v, want %v", what, err, cube.ErrNotFound)
			}
		case <-time.After(pace.Stretch(10 * time.Second)):
			t.Fatalf("%s: it waits", what)
		}
	}
}
