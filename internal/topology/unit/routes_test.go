// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pace"
)

// listens counts the routes in its notifications.
type listens struct{ routes atomic.Int64 }

func (l *listens) RoutesChanged(changes []cube.RouteChange, _ bool) {
	l.routes.Add(int64(len(changes)))
}

// TestRoutesThatComeWhileTheirCubeGoesHoldNobodyUp: routes that change while the daemon ends or a cube is deleted do not
// block anything.
func TestRoutesThatComeWhileTheirCubeGoesHoldNobodyUp(t *testing.T) {
	change := []cube.RouteChange{{Route: cube.Route{Prefix: netip.MustParsePrefix("10.0.0.0/8")}}}
	for range 200 {
		u, watcher := &Unit{}, &listens{}
		u.mail = newMailbox(func(context.Context, []letter) {}, func(t Task) { t.Run() })
		n := &RouteNews{Unit: u, Changed: watcher.RoutesChanged}
		n.Take(change, true)
		for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); watcher.routes.Load() != 1; {
			if time.Now().After(deadline) {
				t.Fatal("the routes are not told within 10 s")
			}
			<-time.After(time.Millisecond)
		}
		var both sync.WaitGroup
		both.Go(func() {
			for range 20 {
				n.Take(change, false)
			}
		})
		both.Go(u.mail.close)
		ended := make(chan struct{})
		go func() { both.Wait(); n.Take(change, false); close(ended) }()
		select {
		case <-ended:
		case <-time.After(pace.Stretch(10 * time.Second)):
			t.Fatal("routes and the end of their cube wait for each other")
		}
	}
}
