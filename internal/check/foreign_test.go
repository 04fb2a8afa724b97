// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

func TestAServiceIsCheckedFromItsModelToTheKernel(t *testing.T) {
	model, err := os.ReadFile("../../cubes/helloworld/helloworld.yang")
	if err != nil {
		t.Fatal(err)
	}
	good := Foreign{Model: string(model), Objects: map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {2}},
		Allowed: func(map[cube.Hook][]byte) error { return nil }}
	for _, tt := range []struct {
		what   string
		change func(*lab, *Foreign)
		says   []string
		runs   bool
	}{
		{"everything is good", func(*lab, *Foreign) {}, []string{"ok  model         service helloworld", "TC programs   the kernel accepts them; at most 7",
			"XDP programs", "polycubed accepts the service"}, true},
		{"one hook", func(_ *lab, f *Foreign) { f.Objects = map[cube.Hook][]byte{cube.XDP: {2}} }, []string{"XDP programs", "accepts"}, true},
		{"no module", func(_ *lab, f *Foreign) { f.Model = "module {" }, []string{"refused  model", "polycubed refuses the service: 1 refused"}, false},
		{"not allowed", func(_ *lab, f *Foreign) {
			f.Allowed = func(map[cube.Hook][]byte) error { return errors.New("not that") }
		},
			[]string{"refused  programs  not that"}, false},
		{"the verifier refuses", func(l *lab, _ *Foreign) {
			l.Try = func(context.Context, datapath.Trial) (datapath.TrialReport, error) {
				return datapath.TrialReport{}, &datapath.TrialError{Service: "helloworld", At: "a cube", Err: errors.New("R1 is a scalar")}
			}
		}, []string{"refused  TC programs", "R1 is a scalar", "2 refused"}, false},
		{"no rights", func(l *lab, _ *Foreign) { l.Capabilities = func() (uint64, error) { return 0, nil } },
			[]string{"unknown  TC programs", "run it as root", "polycubed may accept the service: 2 could not be checked"}, true},
		{"a kernel that fails", func(l *lab, _ *Foreign) {
			l.Try = func(context.Context, datapath.Trial) (datapath.TrialReport, error) {
				return datapath.TrialReport{}, errors.New("out of memory")
			}
		}, []string{"unknown  TC programs", "out of memory"}, true},
	} {
		l, f := newLab(), good
		l.Try = func(_ context.Context, trial datapath.Trial) (datapath.TrialReport, error) {
			if !trial.External || trial.Service != "helloworld" || trial.Transparent {
				t.Errorf("%s: the trial is %+v", tt.what, trial)
			}
			return datapath.TrialReport{Loads: []datapath.TrialLoad{{Verified: 7}}}, nil
		}
		tt.change(l, &f)
		report := Service(t.Context(), l.Machine, f, false)
		var out bytes.Buffer
		if err := report.ServiceTable(&out); err != nil {
			t.Fatal(err)
		}
		for _, says := range tt.says {
			if !strings.Contains(out.String(), says) {
				t.Errorf("%s: %q is not in\n%s", tt.what, says, &out)
			}
		}
		if report.Runs() != tt.runs {
			t.Errorf("%s: accepted is %v\n%s", tt.what, report.Runs(), &out)
		}
	}
}
