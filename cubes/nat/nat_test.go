// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"os"
	"testing"

	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cubes/nat/policy"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestModelAndCodeSayTheSame(t *testing.T) {
	schema := modeltest.Load(t, modeltest.Service(t, files).Model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "rule/snat/entry", SnatEntry{})
	modeltest.MatchEntry(t, schema, "rule/dnat/entry", DnatEntry{})
	modeltest.MatchEntry(t, schema, "rule/port-forwarding/entry", ForwardEntry{})
}

func TestTypesAreThoseOfTheTables(t *testing.T) {
	for _, object := range modeltest.Service(t, files).Objects {
		bpftest.Layout(t, object, "sources", source{})
		bpftest.Layout(t, object, "forwards", forward{})
		bpftest.Layout(t, object, "members", member{})
		bpftest.Layout(t, object, "links", link{})
		bpftest.InnerLayout(t, object, "policy", policy.Row{})
		bpftest.InnerLayout(t, object, "ct_entries", conns.Entry{}) // as which session is checked
	}
}
