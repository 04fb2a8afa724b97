// SPDX-License-Identifier: Apache-2.0

package trials

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/cubes/all" // the services
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/netns"
)

// tableFile names a file to which a line of JSON is added for each program, with the constants that take the most
// verified instructions, and the most stack of any: the table of kernels, hooks and services is generated from such files.
const tableFile = "POLYCUBE_TRIAL_TABLE"

// line is a program in the table, or a service that was refused.
type line struct {
	Service      string `json:"service"`
	Hook         string `json:"hook"`
	At           string `json:"at,omitempty"`
	Role         string `json:"role,omitempty"`
	Mode         string `json:"mode,omitempty"`
	Constants    string `json:"constants,omitempty"`
	Instructions int    `json:"instructions,omitempty"`
	Verified     int    `json:"verified,omitempty"`
	Stack        int    `json:"stack,omitempty"`
	Microseconds int64  `json:"microseconds,omitempty"`
	Refused      string `json:"refused,omitempty"`
}

// TestEveryServiceOnTrial: the kernel accepts all programs of every service, with every pair of constant values, as
// functions and inlined, and they keep to their budgets.
func TestEveryServiceOnTrial(t *testing.T) {
	netns.NeedRoot(t)
	for _, s := range cube.Services() {
		schema, err := yang.Load(s.Model)
		if err != nil {
			t.Fatal(err)
		}
		info := schema.Service()
		schema.Close()
		t.Run(info.Name, func(t *testing.T) {
			report, err := datapath.Try(context.Background(), datapath.Trial{Service: info.Name, Objects: s.Objects, Transparent: info.Transparent,
				Frame: kernel.Features{}.Frame})
			table(t, info.Name, report, err)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d programs, %d more would have been the same, %d combinations, %d verified instructions in %s",
				report.Programs, report.Same, report.Combinations, report.Verified, report.Took)
			if report.Untried > 0 || report.Programs < 8 {
				t.Errorf("%d pairs of values were not tried, %d programs were", report.Untried, report.Programs)
			}
			if report.NotInlined != "" {
				t.Errorf("it cannot be inlined: %s", report.NotInlined)
			}
			for _, l := range report.Loads {
				if what := overBudget(info.Name, l); what != "" {
					t.Errorf("%s, %s program at %s, %s mode: %s", l.At, l.Role, l.Hook, l.Mode, what)
				}
			}
		})
	}
}

// table adds to the file that the environment names.
func table(t *testing.T, service string, report datapath.TrialReport, err error) {
	t.Helper()
	name := os.Getenv(tableFile)
	if name == "" {
		return
	}
	f, openErr := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if openErr != nil {
		t.Fatal(openErr)
	}
	out := json.NewEncoder(f)
	var lines []line
	for _, l := range report.Loads {
		lines = append(lines, line{service, l.Hook.String(), l.At, l.Role.String(), l.Mode.String(), l.Constants, l.Instructions, l.Verified, l.Stack, l.Took.Microseconds(), ""})
	}
	var r *datapath.TrialError
	if errors.As(err, &r) {
		lines = append(lines, line{Service: service, Hook: r.Hook.String(), At: r.At, Role: r.Role.String(), Mode: r.Mode.String(), Constants: r.Constants, Refused: strings.TrimSpace(err.Error())})
	}
	for _, l := range lines {
		if err := out.Encode(l); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
