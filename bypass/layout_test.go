// SPDX-License-Identifier: Apache-2.0

package bypass

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
)

func TestTheNetdevIsThatOfThePrograms(t *testing.T) {
	for _, name := range []string{"fastpath.tc.o", "fastpath.xdp.o"} {
		object, err := os.ReadFile("../examples/cubes/fastpath/" + name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "bypass_netdev", netdev{})
		bpftest.Layout(t, object, "bypass_vlans", netdev{})
		bpftest.Layout(t, object, "bypass_exits", exit{})
	}
}
