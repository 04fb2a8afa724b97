// SPDX-License-Identifier: Apache-2.0

package efw

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapEntriesHaveTheLayoutOfTheProgram(t *testing.T) {
	for _, name := range []string{"efw.tc.o", "efw.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "gate", gateEntry{})
		bpftest.Layout(t, object, "hooks", hookEntry{})
		bpftest.Layout(t, object, "own", ownEntry{})
	}
}
