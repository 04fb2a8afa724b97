// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/world"
)

func TestActionsChangeTheConfiguration(t *testing.T) {
	l := newLab(t)
	l.must(bridges[0], `act br1 fdb learn <<< {"address":"bb"}`)
	l.wantRead(`"learned bb"`, "br1", "note")
	l.wantRead(`{"address":"bb","port":"p1"}`, "br1", "fdb", "entry", "bb")
	if !strings.Contains(string(l.records[world.CubeKey+"br1"]), "learned bb") {
		t.Error("the change is not in the store")
	}
	out, err := l.act("br1", []string{"fdb", "flush"}, "")
	if err != nil || out != `{"flushed":0}` {
		t.Errorf("flush answers %s, %v", out, err)
	}
	before := l.state()
	for _, body := range []string{`{}`, `{"address":"cc","nope":1}`, `[`, `{"address":`} {
		if _, err := l.act("br1", []string{"fdb", "learn"}, body); err == nil {
			t.Errorf("learn %s is accepted", body)
		}
	}
	l.wantState(before)
}

// TestOtherChangesAreMadeDuringTheRestOfAnAction: the output comes from the rest.
func TestOtherChangesAreMadeDuringTheRestOfAnAction(t *testing.T) {
	l := newLab(t)
	l.must(bridges[0])
	value, failure := any(map[string]any{"flushed": 7}), error(nil)
	l.b.rest = func(context.Context) (any, error) {
		l.must(`patch br1 note <<< "meanwhile"`)
		return value, failure
	}
	if out, err := l.act("br1", []string{"fdb", "flush"}, ""); err != nil || out != `{"flushed":7}` {
		t.Errorf("flush answers %s, %v", out, err)
	}
	l.wantRead(`"meanwhile"`, "br1", "note")
	value = map[string]any{"nope": 1}
	if _, err := l.act("br1", []string{"fdb", "flush"}, ""); err == nil || !strings.Contains(err.Error(), "br1: fdb flush: its output") {
		t.Errorf("output that does not fit the model: %v", err)
	}
	failure = cube.ErrFull
	if _, err := l.act("br1", []string{"fdb", "flush"}, ""); !errors.Is(err, cube.ErrFull) {
		t.Errorf("the rest ends in %v", err)
	}
	failure = nil
	l.b.rest = func(context.Context) (any, error) { l.must(`delete br1`); return value, nil }
	if _, err := l.act("br1", []string{"fdb", "flush"}, ""); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("the cube is deleted meanwhile: %v", err)
	}
}
