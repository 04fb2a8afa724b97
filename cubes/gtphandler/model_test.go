// SPDX-License-Identifier: Apache-2.0

package gtphandler

import (
	"testing"

	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, name := range []string{"gtphandler.tc.o", "gtphandler.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "users4", downlink{})
		bpftest.Layout(t, object, "tunnels", uplink{})
		bpftest.Layout(t, object, "named_tunnels", uplink{})
		bpftest.Layout(t, object, "counts", counts{})
		bpftest.Layout(t, object, "sessions", row{})
		bpftest.Layout(t, object, "macs", place{})
		bpftest.Layout(t, object, "links", ownEnd{})
		bpftest.Layout(t, object, "limits", gtppath.Limits{})
	}
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
