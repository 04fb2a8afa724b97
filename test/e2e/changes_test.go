// SPDX-License-Identifier: Apache-2.0

// Changes under traffic: streams that are not affected do not lose a packet.

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
)

// changesPerRound are requests that leave everything as it was before them.
var changesPerRound = []struct{ method, path, body string }{
	{"POST", "/attach", `{"cube":"th1","port":"br1:p1"}`},
	{"PATCH", "/transparenthelloworld/th1/egress-action", `"DROP"`},
	{"PATCH", "/transparenthelloworld/th1/egress-action", `"PASS"`},
	{"PATCH", "/simplebridge/br1/fdb/aging-time", `60`},
	{"POST", "/attach", `{"cube":"th2","port":"veth1"}`},
	{"POST", "/simplebridge/br1/ports/spare", `{"peer":"veth4"}`},
	{"PATCH", "/simplebridge/br2/loglevel", `"DEBUG"`},
	{"POST", "/disconnect", `{"peer1":"br2:other","peer2":"br3:other"}`},
	{"POST", "/simplebridge/br2/fdb/entry/02:00:00:00:00:01", `{"port":"p3"}`},
	{"DELETE", "/simplebridge/br1/ports/spare", ""},
	{"POST", "/connect", `{"peer1":"br2:other","peer2":"br3:other"}`},
	{"POST", "/detach", `{"cube":"th1","port":"br1:p1"}`},
	{"PATCH", "/simplebridge/br2/loglevel", `"INFO"`},
	{"DELETE", "/simplebridge/br2/fdb/entry/02:00:00:00:00:01", ""},
	{"POST", "/detach", `{"cube":"th2","port":"veth1"}`},
	{"PATCH", "/simplebridge/br1/fdb/aging-time", `300`},
}

func TestChangesUnderTrafficLoseNothing(t *testing.T) {
	t.Parallel()
	rounds := 8
	if soak {
		rounds *= 250
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.lab.Host("veth4", "")
			d.twoBridges(kind)
			for _, th := range []string{"th1", "th2"} {
				d.Must(http.StatusCreated, "POST", "/transparenthelloworld/"+th, fmt.Sprintf(`{"type":%q}`, kind))
			}
			// br3 hangs on br2: joining and parting them splits and merges the component that forwards.
			d.Must(http.StatusCreated, "POST", "/simplebridge/br3", fmt.Sprintf(`{"type":%q,"ports":[{"name":"other"}]}`, kind))
			d.Must(http.StatusCreated, "POST", "/simplebridge/br2/ports/other", "")
			d.Must(http.StatusOK, "POST", "/connect", `{"peer1":"br2:other","peer2":"br3:other"}`)
			reaches(t, hosts[0], "10.0.0.3")
			before := withoutLearned(t, d.Configuration())
			s := startStream(t, hosts[0], hosts[2])
			for round := range rounds {
				for _, c := range changesPerRound {
					status, text, err := d.Request(c.method, c.path, c.body)
					if err != nil || status >= 300 {
						t.Fatalf("round %d: %s %s %s: status %d, %v: %s", round, c.method, c.path, c.body, status, err, text)
					}
				}
			}
			sent := s.Stop()
			if t.Failed() {
				d.logDrops("br1", "br2", "br3", "th1", "th2")
			}
			if after := withoutLearned(t, d.Configuration()); after != before {
				t.Errorf("the configuration is\n%s\nbefore\n%s", after, before)
			}
			t.Logf("%d changes, %d frames", rounds*len(changesPerRound), sent)
		})
	}
}

// logDrops logs why cubes dropped packets, and at which netdevs some were lost, for a test that lost some: a veth whose
// other end is not polled for long can queue 256 frames.
func (m *machine) logDrops(cubes ...string) {
	m.t.Helper()
	var devices []struct {
		Name  string `json:"ifname"`
		Stats struct {
			Rx, Tx struct{ Dropped, Errors uint64 }
		} `json:"stats64"`
	}
	if err := json.Unmarshal([]byte(m.lab.Run("ip", "-json", "-stats", "link")), &devices); err != nil {
		m.t.Error(err)
	}
	for _, d := range devices {
		if rx, tx := d.Stats.Rx, d.Stats.Tx; rx.Dropped+rx.Errors+tx.Dropped+tx.Errors > 0 {
			m.t.Logf("%s dropped %d packets that it received (%d errors) and %d to be sent (%d errors)", d.Name, rx.Dropped, rx.Errors, tx.Dropped, tx.Errors)
		}
	}
	for _, c := range cubes {
		for _, f := range m.Stats(c).Fates {
			if f.Drop && f.Packets > 0 {
				m.t.Logf("%s dropped %d packets: %s", c, f.Packets, f.Name)
			}
		}
	}
}
