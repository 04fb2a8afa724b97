// SPDX-License-Identifier: Apache-2.0

package ipset

import (
	"testing"

	"github.com/polycube/polycube/ipset"
	"github.com/polycube/polycube/ipset/elements"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), ipset.Config{})
}

func TestElementsAreThoseOfThePrograms(t *testing.T) {
	for _, name := range []string{"ipset.tc.o", "ipset.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "elements", elements.Value{})
		bpftest.Layout(t, object, "elements_slots", elements.Slot{})
	}
}
