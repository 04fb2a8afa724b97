// SPDX-License-Identifier: Apache-2.0

package edpi

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		object := modeltest.Service(t, files).Objects[hook]
		bpftest.Layout(t, object, "rules", rule{})
		bpftest.Layout(t, object, "policies", policy{})
		bpftest.Layout(t, object, "counts", count{})
		bpftest.Layout(t, object, "moved", count{})
	}
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
