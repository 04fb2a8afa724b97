// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"bytes"
	"encoding/binary"
	"os"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const (
	one, two, three = "02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"

	threePorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]}`
)

func flood(sent string) bpftest.Outcome {
	return bpftest.Outcome{Verdict: "flood", Sent: sent, Fate: "br flood"}
}
func send(sent string) bpftest.Outcome { return bpftest.Outcome{Verdict: "send", Sent: sent} }
func drop(why string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "drop", Fate: "br " + why} }

// step is a frame and its expected result.
type step struct {
	name  string
	dev   string
	frame []byte
	want  bpftest.Outcome
	// becomes is the frame as it is sent; nil if it is unchanged.
	becomes []byte
}

func walk(t *testing.T, l *bpftest.Lab, steps []step) {
	t.Helper()
	for _, s := range steps {
		got, sent := l.RunBytes(s.dev, s.frame)
		if got != s.want {
			t.Errorf("%s: got %+v, want %+v", s.name, got, s.want)
		}
		want := s.becomes
		if want == nil {
			want = s.frame
		}
		// A tag changed at TC is in the skb, where only a test on the wire sees it.
		beside := l.Type == cube.TypeTC && s.becomes != nil && bytes.Equal(sent, untag(want))
		if got.Verdict == "send" && !bytes.Equal(sent, want) && !beside {
			t.Errorf("%s: the frame leaves as\n     %x\nwant %x", s.name, sent, want)
		}
	}
}

// untag removes the outer tag of a frame that has one.
func untag(f []byte) []byte {
	if proto := binary.BigEndian.Uint16(f[12:]); proto != 0x8100 && proto != 0x88a8 {
		return f
	}
	return slices.Concat(f[:12], f[16:])
}

func frame(from, to string) []byte { return pkt.Eth(from, to).Payload(46).Bytes() }

func tagged(vlan uint16, from, to string) []byte {
	return pkt.Eth(from, to).VLAN(vlan).Payload(46).Bytes()
}

func TestFramesGoWhereTheirAddressesWereLearned(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", threePorts)
		walk(t, l, []step{
			{"an unknown destination is flooded", "veth1", frame(one, two), flood("br:p2 br:p3"), nil},
			{"the answer goes to the one port", "veth2", frame(two, one), send("br:p1"), nil},
			{"and so does what follows", "veth1", frame(one, two), send("br:p2"), nil},
			{"broadcast is flooded", "veth2", frame(two, pkt.Broadcast), flood("br:p1 br:p3"), nil},
			{"so is multicast", "veth2", frame(two, "33:33:00:00:00:01"), flood("br:p1 br:p3"), nil},
			{"and what a spanning tree would keep", "veth2", frame(two, "01:80:c2:00:00:00"), flood("br:p1 br:p3"), nil},
			{"but nothing else for the neighbour", "veth2", frame(two, "01:80:c2:00:00:0e"), drop("link-local"), nil},
			{"a destination on the same port needs no bridge", "veth1", frame(three, one), drop("same-port"), nil},
			{"a station that moves is found at once", "veth3", frame(one, two), send("br:p2"), nil},
			{"at its new port", "veth2", frame(two, one), send("br:p3"), nil},
			{"no station sends from a group address", "veth1", frame("03:00:00:00:00:01", two), drop("group-source"), nil},
			{"nor is one learned", "veth2", frame(two, "03:00:00:00:00:01"), flood("br:p1 br:p3"), nil},
			{"an access port takes no tags", "veth1", tagged(1, one, two), drop("tagged"), nil},
			{"but a priority", "veth1", pkt.Eth(one, two).PriorityVLAN(0, 5).Payload(46).Bytes(), send("br:p2"), frame(one, two)},
			{"a service tag is payload", "veth1", pkt.Eth(one, two).ServiceVLAN(7).VLAN(8).Payload(46).Bytes(), send("br:p2"), nil},
			{"a tag that is cut", "veth1", append(frame(one, two)[:12], 0x81, 0), drop("truncated"), nil},
		})
		if got := l.Read("br fdb moves"); got != "2" {
			t.Errorf("moves is %s, want 2: there and back", got)
		}
	})
}
