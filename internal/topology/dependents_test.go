// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// landlord is a bridge whose entries of the large list fdb entry are deleted with the port that they name, and whose note is
// deleted with the last port.
type landlord struct{ toyBridge }

// Dependents returns what is deleted with a port.
func (c *landlord) Dependents(_ context.Context, before, after json.RawMessage) ([]cube.Edit, error) {
	if err := c.b.call(c.env.Name(), "Dependents"); err != nil {
		return nil, err
	}
	type config struct {
		Ports []struct{ Name string }
		Note  string
	}
	var was, is config
	if err := errors.Join(json.Unmarshal(before, &was), json.Unmarshal(after, &is)); err != nil {
		return nil, err
	}
	var edits []cube.Edit
	for _, p := range was.Ports {
		if !strings.Contains(string(after), `"`+p.Name+`"`) {
			edits = append(edits, cube.Edit{Delete: true, Path: []string{"fdb", "entry", "of-" + p.Name}})
		}
	}
	if len(is.Ports) == 0 && is.Note == "bad" {
		return []cube.Edit{{Path: []string{"fdb", "aging-time"}, Value: "not a number"}}, nil
	}
	if len(is.Ports) == 0 && is.Note != "" {
		edits = append(edits, cube.Edit{Delete: true, Path: []string{"note"}})
	}
	return edits, nil
}

func newLandlordLab(t *testing.T) *lab {
	l := newLab(t)
	model := strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "landlord")
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, WholeLists: true, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&landlord{toyBridge{toy{e, l.b}}}), nil
	}}}
	l.restart()
	l.must(`create landlord l1 <<< {"note":"x","ports":[{"name":"p1"},{"name":"p2"}],
		"fdb":{"entry":[{"address":"of-p1","port":"p1"},{"address":"of-p2","port":"p2"}]}}`)
	return l
}

func (l *lab) configOf(name string) string {
	l.t.Helper()
	<-l.token
	defer func() { l.token <- struct{}{} }()
	w := l.view.Load()
	text := string(w.Cubes[name].Saved)
	return text + fmt.Sprintf(" %d entries", w.Cubes[name].Tables.Len())
}

// TestConfigurationGoesWithWhatItDependsOn: in the same transaction, so that it is persisted with it.
func TestConfigurationGoesWithWhatItDependsOn(t *testing.T) {
	l := newLandlordLab(t)
	for _, tt := range []struct {
		do            string
		entries, note string
	}{
		{`patch l1 loglevel <<< "DEBUG"`, "2 entries", `"x"`},
		{`del l1 ports p1`, "1 entries", `"x"`},
		{`post l1 ports p3 <<< {}`, "1 entries", `"x"`}, // nothing depends on it
		{`del l1 ports p3`, "1 entries", `"x"`},         // its dependents were deleted before
		{`put l1 ports <<< []`, "0 entries", ""},
	} {
		l.must(tt.do)
		for _, when := range []string{"", ", after a restart"} {
			got := l.configOf("l1")
			if !strings.HasSuffix(got, tt.entries) || strings.Contains(got, `"note"`) != (tt.note != "") {
				t.Errorf("%s%s: the configuration is %s, want %s, note %s", tt.do, when, got, tt.entries, tt.note)
			}
			l.restart()
		}
	}
}

func TestWhatDependsOnAChangeComesBackWithIt(t *testing.T) {
	l := newLandlordLab(t)
	for _, step := range []string{"Prepare", "Commit", "store", "Dependents"} {
		before := l.state()
		entries := l.configOf("l1")
		fail := func(what string) error {
			if what == step || strings.HasSuffix(what, " "+step) {
				return errInjected
			}
			return nil
		}
		l.plane.setFail(fail)
		l.b.setFail(fail)
		err := l.do(`put l1 ports <<< []`)
		l.plane.setFail(nil)
		l.b.setFail(nil)
		if !errors.Is(err, errInjected) {
			t.Errorf("%s fails: %v", step, err)
		}
		l.wantState(before)
		if got := l.configOf("l1"); got != entries {
			t.Errorf("%s fails: the configuration is %s, was %s", step, got, entries)
		}
	}
	l.must(`patch l1 note <<< "bad"`)
	before := l.state()
	if err := l.do(`put l1 ports <<< []`); err == nil || !strings.Contains(err.Error(), "fdb aging-time, which depends on the change") {
		t.Errorf("an edit that does not fit the model: %v", err)
	}
	l.wantState(before)
}
