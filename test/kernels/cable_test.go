// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bytes"
	"strings"
	"testing"
)

func TestCablesConnectEachNetdevToOneOfTheOtherMachine(t *testing.T) {
	a, b := cables("dir", 3, 0, 2), cables("dir", 3, 1, 2)
	macs := map[string]bool{}
	for n := range a {
		if m := len(a) - 1 - n; a[n].remote != b[m].local || b[m].remote != a[n].local || a[n].local == a[n].remote {
			t.Errorf("eth%d of the first machine is %+v, eth%d of the second one %+v: they are not connected", n, a[n], m, b[m])
		}
		macs[a[n].mac], macs[b[n].mac] = true, true
	}
	if len(macs) != 4 {
		t.Errorf("4 netdevs have the addresses %v", macs)
	}
	m := machine{arch: "amd64", cables: a}
	args := strings.Join(m.args(), " ")
	for n, c := range a {
		if first, second := strings.Index(args, a[0].mac), strings.Index(args, c.mac); second < first || !strings.Contains(args, "local.path="+c.local+",") {
			t.Errorf("eth%d is not in the emulator's arguments, or not in its place: %s", n, args)
		}
	}
}

func TestCablesNeedTwoMachinesAtTheSameTime(t *testing.T) {
	c, err := OpenCache(t.TempDir(), "amd64", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	jobs := [][]Job{{{Name: "a"}}, {{Name: "b"}}}
	for _, o := range []Options{{Cables: 1, Side: 2, Jobs: jobs[:1]}, {Cables: 1, Side: 1, Jobs: jobs}} {
		if _, err := c.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "cables connect two machines") {
			t.Errorf("%d machines, %d at a time: %v", len(o.Jobs), o.Side, err)
		}
	}
	if o := EVNF(Options{}); len(o.Jobs) != 2 || o.Side != 2 || o.Cables == 0 {
		t.Errorf("the chain of network functions: %+v", o)
	}
}
