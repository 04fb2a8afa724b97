// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

// Of clients that saw the same revision, one may change the cube, even if their changes are made together.
func TestOneChangeARevision(t *testing.T) {
	l := newLab(t)
	l.must("create toybridge br1")
	seen, err := l.CubeRevision("br1")
	if err != nil {
		t.Fatal(err)
	}
	ctx := IfRevision(context.Background(), "br1", seen)
	const clients = 40
	errs := make([]error, clients)
	var done sync.WaitGroup
	for i := range clients {
		done.Go(func() {
			level := []string{`"DEBUG"`, `"TRACE"`}[i%2]
			errs[i] = l.Edit(ctx, "toybridge", "br1", yang.Merge, yang.Path{{Name: "loglevel"}}, []byte(level))
		})
	}
	done.Wait()
	won := 0
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, cube.ErrStale):
			t.Errorf("a late change: %v, want %v", err, cube.ErrStale)
		}
	}
	if won != 1 {
		t.Errorf("%d of %d changes on one revision were made, want 1", won, clients)
	}
	now, err := l.CubeRevision("br1")
	if err != nil || now == seen || now != l.Revision() {
		t.Errorf("revision %d (%v) after %d, the whole is at %d", now, err, seen, l.Revision())
	}
}
