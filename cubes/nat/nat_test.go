// SPDX-License-Identifier: Apache-2.0

package nat

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
	modeltest.MatchEntry(t, schema, "rule/snat/entry", SnatEntry{})
	modeltest.MatchEntry(t, schema, "rule/dnat/entry", DnatEntry{})
	modeltest.MatchEntry(t, schema, "rule/port-forwarding/entry", ForwardEntry{})
}

// flat4 and flat6 are the sessions with the members of half among theirs, as the C structs have them.
type flat4 struct {
	Created, Seen, Packets, Bytes uint64
	Rule, State                   uint32
	AddrDelta, PortDelta          uint16
	Port                          port
	Flags                         uint8
	Origin                        origin
	Addr                          [4]byte
	_                             uint32
	InSeen, InPackets, InBytes    uint64
}

type flat6 struct {
	Created, Seen, Packets, Bytes uint64
	Rule, State                   uint32
	AddrDelta, PortDelta          uint16
	Port                          port
	Flags                         uint8
	Origin                        origin
	Addr                          [16]byte
	InSeen, InPackets, InBytes    uint64
}

func TestTypesAreThoseOfTheTables(t *testing.T) {
	for _, object := range modeltest.Service(t, files).Objects {
		bpftest.Layout(t, object, "sources", source{})
		bpftest.Layout(t, object, "forwards", forward{})
		bpftest.Layout(t, object, "egress4", flat4{})
		bpftest.Layout(t, object, "egress6", flat6{})
	}
	if !sameSize[flat4, session4]() || !sameSize[flat6, session6]() {
		t.Error("a session in parts has another size than the session")
	}
}
