// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestModelAndCodeSayTheSame(t *testing.T) {
	schema := modeltest.Load(t, modeltest.Service(t, files).Model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "service", Service{})
	modeltest.MatchEntry(t, schema, "service/backend", Backend{})
}

func TestMapsAreLaidOutAsInC(t *testing.T) {
	object, err := files.ReadFile("lbrp.xdp.o")
	if err != nil {
		t.Fatal(err)
	}
	bpftest.Layout(t, object, "ports", portEntry{})
	bpftest.Layout(t, object, "settings", settingsEntry{})
	bpftest.Layout(t, object, "service_settings", serviceEntry{})
	bpftest.Layout(t, object, "servers", serverEntry{})
	bpftest.Layout(t, object, "server_counts", counts{})
	bpftest.Layout(t, object, "check_source", sourceEntry{})
}
