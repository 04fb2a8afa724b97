// SPDX-License-Identifier: Apache-2.0

package dpi

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, hook := range []string{"tc", "xdp"} {
		object, err := os.ReadFile("../cubes/edpi/edpi." + hook + ".o")
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "flows", Flow{})
		bpftest.Layout(t, object, "decisions", Decision{})
		bpftest.Layout(t, object, "classifier", Classifier{})
		bpftest.Layout(t, object, "ended", Ended{})
	}
}
