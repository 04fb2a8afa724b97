// SPDX-License-Identifier: Apache-2.0

package pdusession

import (
	"os"
	"testing"

	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/bpftest"
)

func TestMapsAreLaidOutAsInC(t *testing.T) {
	for _, hook := range []string{"tc", "xdp"} {
		object, err := os.ReadFile("../cubes/upf/upf." + hook + ".o")
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "tunnels", tunnel{})
		bpftest.Layout(t, object, "devices4", device{})
		bpftest.Layout(t, object, "devices6", device{})
		bpftest.Layout(t, object, "routes", device{})
		bpftest.Layout(t, object, "rules", rule{})
		bpftest.Layout(t, object, "meters", meter{})
		bpftest.Layout(t, object, "usages", usage{})
		bpftest.Layout(t, object, "queues", queue{})
		bpftest.Layout(t, object, "lists", sdf.List{})
		bpftest.Layout(t, object, "redirects", redirect{})
		bpftest.Layout(t, object, "notices", notice{})
	}
}
