// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
)

// whileBusy starts requests, in order, while another goroutine has the writer's token, and returns their errors.
func (l *lab) whileBusy(lines ...string) []error {
	l.t.Helper()
	<-l.token
	errs := make([]error, len(lines))
	var done sync.WaitGroup
	for i, line := range lines {
		done.Go(func() { errs[i] = l.one(line) })
		eventually(l.t, "the change waits", func() bool {
			l.queue.mu.Lock()
			defer l.queue.mu.Unlock()
			return len(l.queue.list) == i+1
		})
	}
	l.token <- struct{}{}
	done.Wait()
	return errs
}

// prepares returns how often the data plane was asked to prepare a graph.
func (l *lab) prepares() int {
	l.plane.mu.Lock()
	defer l.plane.mu.Unlock()
	return l.plane.prepared
}

func TestChangesThatWaitAreMadeTogether(t *testing.T) {
	pair := []string{`create toybridge a <<< {"ports":[{"name":"p"},{"name":"q"}]}`, `create toybridge b <<< {"ports":[{"name":"p"},{"name":"q"}]}`}
	tests := []struct {
		name     string
		lines    []string
		prepares int
		refused  map[int]error
	}{
		{"cubes that do not know of each other", []string{
			`create toybridge c`, `create toybridge d`, `create toybridge e`, `create toybridge f`,
		}, 1, nil},
		{"links of different cubes and edits", []string{
			`connect a:p b:p`, `create toybridge c`, `create toybridge d`,
		}, 1, nil},
		{"ports of one cube", []string{
			`post a ports r`, `post a ports s`, `patch a loglevel <<< "DEBUG"`,
		}, 1, nil},
		{"links that look at the same cube, one after the other", []string{
			`connect a:p b:p`, `connect a:q b:q`,
		}, 2, nil},
		{"two that want the same port", []string{
			`connect a:p b:p`, `connect a:p b:q`,
		}, 1, map[int]error{1: cube.ErrInUse}},
		{"one that is wrong does not spoil the others", []string{
			`create toybridge c`, `create toybridge c`, `create toybridge d`,
		}, 2, map[int]error{1: cube.ErrExists}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := newLab(t)
			l.must(pair...)
			before := l.prepares()
			for i, err := range l.whileBusy(test.lines...) {
				if !errors.Is(err, test.refused[i]) {
					t.Errorf("%s: %v, want %v", test.lines[i], err, test.refused[i])
				}
			}
			if got := l.prepares() - before; got != test.prepares {
				t.Errorf("%d graphs were prepared, want %d", got, test.prepares)
			}
			// The same requests one by one lead to the same state.
			other := newLab(t)
			other.must(pair...)
			for _, line := range test.lines {
				_ = other.one(line) // some are refused, as above
			}
			if got, want := l.names(), other.names(); !slices.Equal(got, want) {
				t.Errorf("together %v, one by one %v", got, want)
			}
		})
	}
}

// names returns the cubes with their ports and peers.
func (l *lab) names() []string {
	var out []string
	w := l.view.Load()
	for _, rec := range w.Cubes {
		for _, p := range rec.Ports {
			out = append(out, rec.Name+":"+p.Name+"="+p.Peer)
		}
		out = append(out, rec.Name)
	}
	slices.Sort(out)
	return out
}

func TestAClientThatHangsUpTakesItsChangeBack(t *testing.T) {
	l := newLab(t)
	<-l.token
	ctx, cancel := context.WithCancel(context.Background())
	gone := make(chan error)
	go func() { gone <- l.Create(ctx, "toybridge", "a", nil) }()
	eventually(t, "the change waits", func() bool {
		l.queue.mu.Lock()
		defer l.queue.mu.Unlock()
		return len(l.queue.list) == 1
	})
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the client hears %v", err)
	}
	l.token <- struct{}{}
	l.must(`create toybridge b`)
	if got := l.names(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("there are %v, want b alone", got)
	}
}

func TestManyClientsLoseNoChange(t *testing.T) {
	l := newLab(t)
	const clients, each = 16, 12
	var done sync.WaitGroup
	errs := make(chan error, clients*each)
	for c := range clients {
		done.Go(func() {
			for i := range each {
				errs <- l.one(fmt.Sprintf("create toybridge c%dx%d", c, i))
			}
		})
	}
	done.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			t.Error(err)
		}
	}
	if got := len(l.names()); got != clients*each {
		t.Errorf("%d cubes, want %d", got, clients*each)
	}
}
