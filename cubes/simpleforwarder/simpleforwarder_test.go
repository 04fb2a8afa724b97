// SPDX-License-Identifier: Apache-2.0

package simpleforwarder

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var frame = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").VLAN(7).IPv6("fd00::1", "fd00::2").UDP(1, 2).Payload(30).Bytes()

const threePorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]}`

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
	for _, object := range modeltest.Service(t, files).Objects {
		bpftest.Layout(t, object, "actions", entry{})
	}
}

func send(to string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "send", Sent: "f:" + to} }
func drop(why string) bpftest.Outcome { return bpftest.Outcome{Verdict: "drop", Fate: "f " + why} }

func TestTheTableDecides(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simpleforwarder", "f", threePorts)
		linked := l.Linked()
		tests := []struct {
			name, method, words, body, dev string
			want                           bpftest.Outcome
		}{
			{"no entry", "", "", "", "veth1", drop("no-action")},
			{"FORWARD", "POST", "f actions p1", `{"action":"FORWARD","outport":"p2"}`, "veth1", send("p2")},
			{"FORWARD without an outport", "POST", "f actions p3", `{"action":"FORWARD"}`, "veth3", drop("no-outport")},
			{"its outport", "PATCH", "f actions p3 outport", `"p1"`, "veth3", send("p1")},
			{"no outport any more", "PUT", "f actions p3", `{"action":"FORWARD"}`, "veth3", drop("no-outport")},
			{"an entry is for its port only", "", "", "", "veth2", drop("no-action")},
			{"another outport", "PATCH", "f actions p1 outport", `"p3"`, "veth1", send("p3")},
			{"back where it came from", "PATCH", "f actions p1 outport", `"p1"`, "veth1", send("p1")},
			{"SLOWPATH", "PATCH", "f actions p1", `{"action":"SLOWPATH"}`, "veth1", drop("slowpath")},
			{"DROP", "PATCH", "f actions p1", `{"action":"DROP"}`, "veth1", drop("action-drop")},
			{"several entries", "PUT", "f actions",
				`[{"inport":"p2","action":"FORWARD","outport":"p1"},{"inport":"p3","action":"FORWARD","outport":"p2"}]`, "veth3", send("p2")},
			{"the second of them", "", "", "", "veth2", send("p1")},
			{"what they replaced", "", "", "", "veth1", drop("no-action")},
			{"a deleted entry", "DELETE", "f actions p2", "", "veth2", drop("no-action")},
		}
		for _, tt := range tests {
			if tt.method != "" {
				l.Set(tt.method, tt.words, tt.body)
			}
			if got := l.Run(tt.dev, frame); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
			}
		}
		if now := l.Linked(); now != linked || now == 0 {
			t.Errorf("program %d runs, it was %d: an edit of an entry linked anew", now, linked)
		}
	})
}

func TestSlowpathLogsThePacket(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simpleforwarder", "f", strings.Replace(threePorts, "{", `{"actions":[{"inport":"p3","action":"SLOWPATH"}],`, 1))
		l.Run("veth3", frame)
		const want = "cube=f port=p3 length=96 from=02:00:00:00:00:01 to=02:00:00:00:00:02 ethertype=0x8100"
		netns.Eventually(t, bpftest.Patience, func() error {
			if logs := l.Logs(); !strings.Contains(logs, want) {
				return fmt.Errorf("%s is not in\n%s", want, logs)
			}
			return nil
		})
	})
}

func TestMistakesAreRefusedAndChangeNothing(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simpleforwarder", "f", strings.Replace(threePorts, "{", `{"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"}],`, 1))
	before := l.Read("f actions")
	for _, tt := range []struct{ name, method, words, body, says string }{
		{"to a port that is not there", "POST", "f actions p2", `{"action":"FORWARD","outport":"p9"}`, "p9"},
		{"from a port that is not there", "POST", "f actions p9", `{"action":"DROP"}`, "p9"},
		{"no action", "POST", "f actions p2", `{}`, "action"},
		{"an unknown action", "PATCH", "f actions p1 action", `"BOUNCE"`, "BOUNCE"},
		{"an outport that is not there", "PATCH", "f actions p1 outport", `"p9"`, "p9"},
		{"a port that the table names", "DELETE", "f ports p2", ``, "p2"},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v, it should name %s", tt.name, err, tt.says)
		}
		if after := l.Read("f actions"); after != before {
			t.Errorf("%s: the table became %s", tt.name, after)
		}
	}
	if got := l.Run("veth1", frame); got != send("p2") {
		t.Errorf("got %+v, want %+v", got, send("p2"))
	}
}

func TestARestartKeepsTheTable(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("simpleforwarder", "f", strings.Replace(threePorts, "{", `{"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"}],`, 1))
	l.Restart(nil)
	l.Set("DELETE", "f actions p1", "")
	if got := l.Run("veth1", frame); got != drop("no-action") {
		t.Errorf("a deleted entry of the last daemon: got %+v", got)
	}
}
