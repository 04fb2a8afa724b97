// SPDX-License-Identifier: Apache-2.0

package service

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// TestTheNameOfTheOutputsIsReserved in transparent services, for the list that the framework reads.
func TestTheNameOfTheOutputsIsReserved(t *testing.T) {
	const transparent, standard = "uses t:transparent-base-yang-module;", "uses s:standard-base-yang-module;"
	for _, c := range []struct {
		what, body string
		refused    bool
	}{
		{"without outputs", transparent, false},
		{"with those of the framework", transparent + "uses t:redirect-outputs;", false},
		{"with fewer", transparent + `uses t:redirect-outputs { refine "outputs" { max-elements 2; } }`, false},
		{"another list", transparent + "list outputs { key number; leaf number { type uint8; } }", true},
		{"other keys", transparent + "list outputs { key to; leaf to { type string; } leaf received { type boolean; } leaf number { type uint8; } }", true},
		{"a leaf", transparent + "leaf outputs { type string; }", true},
		{"a list of a standard service", standard + "list outputs { key x; leaf x { type string; } }", false},
	} {
		model := "module m { yang-version 1.1; namespace \"urn:m\"; prefix m; import polycube-transparent-base { prefix t; } " +
			"import polycube-standard-base { prefix s; } " + c.body + " }"
		loaded, err := Load(cube.Service{Model: model, New: func(cube.Env) (cube.Instance, error) { return cube.Instance{}, nil }})
		if err == nil {
			loaded.Schema.Close()
		}
		if refused := errors.Is(err, cube.ErrInvalid) && strings.Contains(fmt.Sprint(err), "grouping polycube-transparent-base:redirect-outputs"); refused != c.refused {
			t.Errorf("%s: %v, want a refusal: %v", c.what, err, c.refused)
		}
	}
}
