// SPDX-License-Identifier: Apache-2.0

package bpftest_test

import (
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // something to run
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const one, two = "02:00:00:00:00:01", "02:00:00:00:00:02"

const twoPorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`

func TestALabRunsWhatTheDaemonRuns(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("simplebridge", "br", twoPorts)
		if mode := l.Mode("br"); !strings.HasSuffix(t.Name(), "/"+mode) {
			t.Errorf("the mode is %q", mode)
		}
		if want := `"` + string(l.Type) + `"`; l.Read("br type") != want {
			t.Errorf("the type is %s, want %s", l.Read("br type"), want)
		}
		for range 2 {
			linked := l.Linked()
			l.Set("PUT", "br fdb entry "+two, `{"port":"p2"}`)
			if now := l.Linked(); now != linked || now == 0 {
				t.Errorf("an entry of a map: program %d runs, it was %d", now, linked)
			}
			l.Set("PATCH", "br fdb aging-time", "77")
			if now := l.Linked(); now <= linked {
				t.Errorf("a constant: program %d runs still", now)
			}
			l.Set("PATCH", "br fdb aging-time", "300")
			frame := pkt.Eth(one, two).Payload(46).Bytes()
			if got, want := l.Run("veth1", frame), (bpftest.Outcome{Verdict: "send", Sent: "br:p2"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			l.Restart(func() {
				wires := l.Wires() // the last daemon's programs forward without it
				wires[0].Puts(frame)
				wires[1].Gets(frame)
			})
		}
	})
}

func TestMistakesOfATestAreErrors(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("simplebridge", "br", "")
	for name, err := range map[string]error{
		"no such cube":    l.Try("PATCH", "br9 fdb aging-time", "1"),
		"no such place":   l.Try("PATCH", "br fdb color", "1"),
		"no such method":  l.Try("SET", "br fdb aging-time", "1"),
		"no such service": l.TryCreate("nosuch", "x", ""),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
