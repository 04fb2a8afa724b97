// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/test/pace"
)

// edits asks for edits in the name of a cube, and returns the result.
func (l *lab) edits(env cube.Env, wanted func() ([]cube.Edit, error)) error {
	l.t.Helper()
	done := make(chan error, 1)
	author.EditLater(env, wanted, func(err error) { done <- err })
	select {
	case err := <-done:
		return err
	case <-time.After(pace.Stretch(10 * time.Second)):
		l.t.Fatal("no answer")
		return nil
	}
}

// TestACubeEditsItsOwnConfiguration: as a change like any other, all or nothing, and without one if it wants none.
func TestACubeEditsItsOwnConfiguration(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	env, r := l.envOf("br1"), l.watched()
	note := func(text string) cube.Edit { return cube.Edit{Path: []string{"note"}, Value: text} }
	if err := l.edits(env, func() ([]cube.Edit, error) { return []cube.Edit{note("mine")}, nil }); err != nil {
		t.Fatal(err)
	}
	l.wantRead(`"mine"`, "br1", "note")
	if got, want := short(r), []string{"config br1:changed(note)"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
	wrong := errors.New("not now")
	for what, wanted := range map[string]func() ([]cube.Edit, error){
		"not now": func() ([]cube.Edit, error) { return nil, wrong },
		"no-leaf": func() ([]cube.Edit, error) {
			return []cube.Edit{note("half"), {Path: []string{"no-leaf"}, Value: 1}}, nil
		},
		"p9": func() ([]cube.Edit, error) {
			return []cube.Edit{note("half"), {Delete: true, Path: []string{"ports", "p9"}}}, nil
		},
	} {
		if err := l.edits(env, wanted); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := l.edits(env, func() ([]cube.Edit, error) { return nil, nil }); err != nil {
		t.Errorf("no edits: %v", err)
	}
	l.wantRead(`"mine"`, "br1", "note")
	if got := short(r); len(got) > 0 {
		t.Errorf("refused edits are announced: %q", got)
	}
	author.Announce(env, "listed", "10.0.0.1")
	if got, want := short(r), []string{"cube br1 listed"}; !slices.Equal(got, want) {
		t.Errorf("the events are %q, want %q", got, want)
	}
}

// TestEditsOfADeletedCubeAreDropped: another cube of the name is not changed.
func TestEditsOfADeletedCubeAreDropped(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	uuid := l.uuid("br1")
	l.must(`delete br1`)
	l.must(`create toybridge br1`)
	err := l.writer.editOwn("br1", uuid, func() ([]cube.Edit, error) {
		t.Error("its code is called")
		return nil, nil
	})
	if err != nil {
		t.Errorf("edits of a cube that is gone: %v", err)
	}
}

// TestEditsOfExternalServicesAreUnsupported, as of any Env that is no Author.
func TestEditsOfExternalServicesAreUnsupported(t *testing.T) {
	author.Announce(nil, "listed", "nothing happens")
	author.EditLater(nil, nil, func(err error) {
		if !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("%v, want %v", err, cube.ErrUnsupported)
		}
	})
}
