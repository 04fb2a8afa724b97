// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const threePorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]}`

func TestModelAndCodeSayTheSame(t *testing.T) {
	schema := modeltest.Load(t, model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "rules", Rule{})
	for _, object := range [][]byte{tc, xdp} {
		bpftest.Layout(t, object, "counters", counter{})
	}
}

func send(to string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "send", Sent: "f:" + to} }
func drop(why string) bpftest.Outcome { return bpftest.Outcome{Verdict: "drop", Fate: "f " + why} }

func TestSmoke(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", threePorts)
		frame := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(30).Bytes()
		if got := l.Run("veth1", frame); got != drop("no-rule") {
			t.Errorf("got %+v", got)
		}
		l.Set("POST", "f rules 1", `{"dst_port":53,"action":"FORWARD","out_port":"p2"}`)
		if got := l.Run("veth1", frame); got != send("p2") {
			t.Errorf("got %+v", got)
		}
		t.Log(l.Read("f rules"))
	})
}
