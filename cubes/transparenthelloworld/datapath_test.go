// SPDX-License-Identifier: Apache-2.0

package transparenthelloworld_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var frame = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").UDP(1, 2).Payload(30).Bytes()

// forwarder creates a cube with two ports, each of which forwards to the other, and attaches th to the first.
func forwarder(l *bpftest.Lab) {
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("transparenthelloworld", "th", "")
	l.Attach("th", "f:p1")
}

func send(to string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "send", Sent: to} }
func drop(why string) bpftest.Outcome { return bpftest.Outcome{Verdict: "drop", Fate: why} }

func TestEachDirectionHasItsAction(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		forwarder(l)
		tests := []struct {
			ingress, egress string
			in, out         bpftest.Outcome
		}{
			{"", "", send("f:p2"), send("f:p1")}, // PASS is the default
			{"DROP", "", drop("th ingress-drop"), send("f:p1")},
			{"", "DROP", drop("th ingress-drop"), drop("th egress-drop")},
			{"PASS", "", send("f:p2"), drop("th egress-drop")},
			{"", "PASS", send("f:p2"), send("f:p1")},
		}
		for _, tt := range tests {
			for leaf, value := range map[string]string{"ingress-action": tt.ingress, "egress-action": tt.egress} {
				if value != "" {
					l.Set("PATCH", "th "+leaf, fmt.Sprintf("%q", value))
				}
			}
			if got := l.Run("veth1", frame); got != tt.in {
				t.Errorf("ingress %q, egress %q: in came %+v, want %+v", tt.ingress, tt.egress, got, tt.in)
			}
			if got := l.Run("veth2", frame); got != tt.out {
				t.Errorf("ingress %q, egress %q: out went %+v, want %+v", tt.ingress, tt.egress, got, tt.out)
			}
		}
	})
}

func TestTheSlowPathSendsFramesOn(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		forwarder(l)
		l.Set("PATCH", "th", `{"ingress-action":"SLOWPATH","egress-action":"SLOWPATH","loglevel":"DEBUG"}`)
		wires := l.Wires()
		for name, f := range map[string][]byte{
			"an untagged frame": frame,
			"a tagged frame":    pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").VLAN(7).IPv6("fd00::1", "fd00::2").UDP(1, 2).Payload(900).Bytes(),
		} {
			t.Run(name, func(t *testing.T) {
				wires[0].Puts(f)
				wires[1].Gets(f)
				wires[1].Puts(f)
				wires[0].Gets(f)
			})
		}
		if fates := l.Fates("th"); fates["slowpath"] != 4 || len(fates) != 1 {
			t.Errorf("fates are %v, want slowpath: 4", fates)
		}
		wantLog(t, l, `level=DEBUG msg=packet service=transparenthelloworld cube=th direction=ingress length=72`)
		wantLog(t, l, `level=DEBUG msg=packet service=transparenthelloworld cube=th direction=egress length=72`)
	})
}

func wantLog(t *testing.T, l *bpftest.Lab, text string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		if logs := l.Logs(); !strings.Contains(logs, text) {
			return fmt.Errorf("%s is not in\n%s", text, logs)
		}
		return nil
	})
}

func TestBothProgramsLogAtLevelDebug(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		forwarder(l)
		l.Run("veth1", frame)
		l.Set("PATCH", "th loglevel", `"DEBUG"`)
		l.Run("veth1", frame)
		l.Run("veth2", frame)
		wantLog(t, l, `"ingress: 72 bytes, action 1"`)
		wantLog(t, l, `"egress: 72 bytes, action 1"`)
		if n := strings.Count(l.Logs(), `"ingress: 72`); n != 1 {
			t.Errorf("%d lines of the ingress program, want 1: level INFO is quiet", n)
		}
	})
}

func TestOnANetdevTheStackIsBehindIt(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 1}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("transparenthelloworld", "th", "")
		l.Attach("th", "veth1")
		if got, want := l.Run("veth1", frame), (bpftest.Outcome{Verdict: "pass", Fate: "th pass"}); got != want {
			t.Errorf("PASS: got %+v, want %+v", got, want)
		}
		l.Set("PATCH", "th ingress-action", `"DROP"`)
		if got, want := l.Run("veth1", frame), drop("th ingress-drop"); got != want {
			t.Errorf("DROP: got %+v, want %+v", got, want)
		}
	})
}

func TestOnANetdevTheSlowPathLeadsToStackAndWire(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 1}, func(t *testing.T, l *bpftest.Lab) {
		l.Lab.Run("ip", "addr", "add", "10.7.0.1/24", "dev", "veth1")
		l.Hosts[0].Run("ip", "addr", "add", "10.7.0.2/24", "dev", "eth0")
		l.Create("transparenthelloworld", "th", "")
		l.Attach("th", "veth1")
		for n, body := range []string{
			`{"ingress-action":"PASS","egress-action":"PASS"}`, `{"ingress-action":"SLOWPATH"}`,
			`{"ingress-action":"PASS","egress-action":"SLOWPATH"}`, `{"ingress-action":"SLOWPATH"}`,
		} {
			l.Set("PATCH", "th", body)
			before := l.Fates("th")["slowpath"]
			if err := l.Hosts[0].Ping("10.7.0.1"); err != nil {
				t.Errorf("%s: %v", body, err)
			}
			if up := l.Fates("th")["slowpath"] - before; (up > 0) != (n > 0) {
				t.Errorf("%s: %d packets took the slow path", body, up)
			}
		}
	})
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
