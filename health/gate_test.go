// SPDX-License-Identifier: Apache-2.0

package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// pipe is a connection with a gate, and its other side.
func pipe(t *testing.T, ctx context.Context, count *counters) (*gatedConn, net.Conn) { //nolint:revive // t comes first in tests
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	return &gatedConn{Conn: near, ctx: ctx, count: count}, far
}

// TestAHandshakeThatWaitsForItsServerLetsOthersCompute: with a single place, it is free while the first one reads.
func TestAHandshakeThatWaitsForItsServerLetsOthersCompute(t *testing.T) {
	var count counters
	g := make(gate, 1)
	first, server := pipe(t, t.Context(), &count)
	second, _ := pipe(t, t.Context(), &count)
	must(t, first.pass(g))
	read := make(chan string)
	go func() {
		b := make([]byte, 8)
		n, err := first.Read(b)
		read <- fmt.Sprint(string(b[:n]), err)
	}()
	must(t, second.pass(g)) // would wait for ever
	if _, err := server.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	select { // the first one has read, and waits for its place
	case got := <-read:
		t.Fatalf("%q was read without a place", got)
	default:
	}
	second.leave()
	second.leave() // does nothing
	if got := <-read; got != "hello<nil>" {
		t.Errorf("%q", got)
	}
	first.leave()
	if len(g) != 0 {
		t.Errorf("%d places are taken", len(g))
	}
}

// TestTheTimeThatAHandshakeWaitsForOthersDoesNotCount: its deadline moves.
func TestTheTimeThatAHandshakeWaitsForOthersDoesNotCount(t *testing.T) {
	var count counters
	g := make(gate, 1)
	g <- struct{}{}
	c, _ := pipe(t, t.Context(), &count)
	begin := time.Now()
	expires := begin.Add(20 * time.Millisecond)
	c.extend(expires)
	passed := make(chan error)
	go func() { passed <- c.pass(g) }()
	netns.Eventually(t, patience, func() error {
		if time.Now().Before(expires) {
			return errors.New("the first deadline has not passed")
		}
		return nil
	})
	<-g
	must(t, <-passed)
	if !c.expires.After(expires) || c.expires.After(time.Now().Add(20*time.Millisecond)) {
		t.Errorf("the deadline was %v and is %v", expires.Sub(begin), c.expires.Sub(begin))
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	c.leave()
}

// TestASilentServerIsNotDelayedByHandshakesOfOthers: its deadline ends the wait for it, though no place is free.
func TestASilentServerIsNotDelayedByHandshakesOfOthers(t *testing.T) {
	var count counters
	g := make(gate, 1)
	silent, _ := pipe(t, t.Context(), &count)
	must(t, silent.pass(g))
	silent.extend(time.Now().Add(20 * time.Millisecond))
	read := make(chan error)
	go func() {
		_, err := silent.Read(make([]byte, 1))
		read <- err
	}()
	g <- struct{}{} // the others' one, for ever
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
	silent.leave() // has none
	if len(g) != 1 || count.waited.Load() != 0 {
		t.Errorf("%d places are taken, after a wait of %d ns", len(g), count.waited.Load())
	}
}

func TestAClosedCheckerLetsNoHandshakeWait(t *testing.T) {
	var count counters
	g := make(gate, 1)
	g <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 3 {
		c, _ := pipe(t, ctx, &count)
		all.Go(func() {
			if err := c.pass(g); !errors.Is(err, errClosed) {
				t.Error(err)
			}
		})
	}
	cancel()
	all.Wait()
}
