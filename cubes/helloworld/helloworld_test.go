// SPDX-License-Identifier: Apache-2.0

package helloworld

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

var frame = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").Echo(1, 1).Payload(56).Bytes()

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestEachActionDecidesWhatHappens(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("helloworld", "h", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
		tests := []struct {
			name, method, words, body, dev string
			want                           bpftest.Outcome
		}{
			{"DROP is the default", "", "", "", "veth1", bpftest.Outcome{Verdict: "drop", Fate: "h action-drop"}},
			{"FORWARD without another port", "PATCH", "h action", `"FORWARD"`, "veth1", bpftest.Outcome{Verdict: "drop", Fate: "h no-other-port"}},
			{"FORWARD to the other port", "POST", "h ports p2", `{"peer":"veth2"}`, "veth1", bpftest.Outcome{Verdict: "send", Sent: "h:p2"}},
			{"and back", "", "", "", "veth2", bpftest.Outcome{Verdict: "send", Sent: "h:p1"}},
			{"to a port without peer", "PATCH", "h ports p1 peer", `""`, "veth2", bpftest.Outcome{Verdict: "drop", Fate: "h no-peer"}},
			{"with its peer again", "PATCH", "h ports p1 peer", `"veth1"`, "veth2", bpftest.Outcome{Verdict: "send", Sent: "h:p1"}},
			{"not to a port that is gone", "DELETE", "h ports p1", "", "veth2", bpftest.Outcome{Verdict: "drop", Fate: "h no-other-port"}},
			{"but to its successor", "POST", "h ports p3", `{"peer":"veth1"}`, "veth2", bpftest.Outcome{Verdict: "send", Sent: "h:p3"}},
			{"SLOWPATH", "PATCH", "h action", `"SLOWPATH"`, "veth2", bpftest.Outcome{Verdict: "drop", Fate: "h slowpath"}},
			{"DROP", "PATCH", "h action", `"DROP"`, "veth2", bpftest.Outcome{Verdict: "drop", Fate: "h action-drop"}},
		}
		for _, tt := range tests {
			if tt.method != "" {
				l.Set(tt.method, tt.words, tt.body)
			}
			if got := l.Run(tt.dev, frame); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
			}
		}
	})
}

func TestSlowpathLogsThePacket(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 1}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("helloworld", "h", `{"action":"SLOWPATH","ports":[{"name":"p1","peer":"veth1"}]}`)
		l.Run("veth1", frame)
		const want = "port=p1 length=98 from=02:00:00:00:00:01 to=02:00:00:00:00:02 ethertype=0x0800"
		wantLog(t, l, "level=INFO msg=packet service=helloworld cube=h "+want)
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
		l.Create("helloworld", "h", `{"action":"FORWARD","ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
		l.Run("veth1", frame)
		l.Set("PATCH", "h loglevel", `"DEBUG"`)
		l.Run("veth1", frame)
		wantLog(t, l, `"ingress: port 0, 98 bytes"`)
		wantLog(t, l, `"egress: port 1, 98 bytes"`)
		if n := strings.Count(l.Logs(), `"ingress: `); n != 1 {
			t.Errorf("%d lines of the ingress program, want 1: level INFO is quiet", n)
		}
	})
}

func TestThereAreAtMostTwoPorts(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("helloworld", "h", `{"ports":[{"name":"p1"},{"name":"p2"}]}`)
	if err := l.Try("POST", "h ports p3", "{}"); err == nil || !strings.Contains(err.Error(), "at most 2") {
		t.Errorf("a third port: %v", err)
	}
	h := newHello(nil)
	three := &Config{Ports: make([]cube.Port, 3)}
	if _, err := h.prepare(t.Context(), cube.ChangeOf[Config]{New: three}); err == nil || !strings.Contains(err.Error(), "at most 2 ports") {
		t.Errorf("three ports: %v", err)
	}
}

func TestAnUnknownActionIsRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("helloworld", "h", "")
	if err := l.Try("PATCH", "h action", `"BOUNCE"`); err == nil || !strings.Contains(err.Error(), "BOUNCE") {
		t.Errorf("action BOUNCE: %v", err)
	}
	if got := l.Read("h action"); got != `"DROP"` {
		t.Errorf("action is %s, want DROP", got)
	}
	var a Action
	if err := a.UnmarshalText([]byte("BOUNCE")); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("decoding BOUNCE: %v", err)
	}
}
