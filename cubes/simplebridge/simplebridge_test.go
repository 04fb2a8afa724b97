// SPDX-License-Identifier: Apache-2.0

package simplebridge

import (
	"os"
	"testing"

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
}

func walk(t *testing.T, l *bpftest.Lab, steps []step) {
	t.Helper()
	for _, s := range steps {
		if got := l.Run(s.dev, s.frame); got != s.want {
			t.Errorf("%s: got %+v, want %+v", s.name, got, s.want)
		}
	}
}

func frame(from, to string) []byte { return pkt.Eth(from, to).Payload(46).Bytes() }

func TestFramesGoWhereTheirAddressesWereLearned(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", threePorts)
		walk(t, l, []step{
			{"an unknown destination is flooded", "veth1", frame(one, two), flood("br:p2 br:p3")},
			{"the answer goes to the one port", "veth2", frame(two, one), send("br:p1")},
			{"and so does what follows", "veth1", frame(one, two), send("br:p2")},
			{"broadcast is flooded", "veth2", frame(two, pkt.Broadcast), flood("br:p1 br:p3")},
			{"so is multicast", "veth2", frame(two, "33:33:00:00:00:01"), flood("br:p1 br:p3")},
			{"and what a bridge with spanning tree would keep", "veth2", frame(two, "01:80:c2:00:00:00"), flood("br:p1 br:p3")},
			{"a destination on the same port needs no bridge", "veth1", frame(three, one), drop("same-port")},
			{"a station that moves is found at once", "veth3", frame(one, two), send("br:p2")},
			{"at its new port", "veth2", frame(two, one), send("br:p3")},
			{"no station sends from a group address", "veth1", frame("03:00:00:00:00:01", two), drop("group-source")},
			{"nor is one learned", "veth2", frame(two, "03:00:00:00:00:01"), flood("br:p1 br:p3")},
		})
	})
}
