// SPDX-License-Identifier: Apache-2.0

package elb

import (
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestMapEntriesHaveTheLayoutOfTheProgram(t *testing.T) {
	for _, name := range []string{"elb.tc.o", "elb.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "settings", settingsEntry{})
		bpftest.Layout(t, object, "service_settings", serviceEntry{})
		bpftest.Layout(t, object, "servers", serverEntry{})
		bpftest.Layout(t, object, "server_counts", counts{})
	}
}
