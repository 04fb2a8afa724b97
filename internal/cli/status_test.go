// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sick is a daemon that is not well.
const sick = `{"status":"critical","troubles":[
	{"severity":"critical","where":"br1","what":"degraded: PacketIn: it broke\u001b[31m","remedy":"delete it"},
	{"severity":"warning","where":"br2:p1","what":"is DOWN: veth1 | is gone"}],"more-troubles":3,
	"daemon":{"version":"1.2","instance":"lab","pid":7,"uptime-seconds":3661,"loglevel":"INFO","kernel":"6.1","memory-bytes":52428800},
	"cubes":{"revision":12,"total":3,"degraded":1,"broken":0,"held":0},"ports":{"total":4,"up":2,"down":1,"free":1},
	"programs":{"total":2,"inline":1,"call":1,"reasons":[{"cube":"br1","cubes":2,"reason":"too large"}]},
	"slow-path":{"packets":9,"ring-bytes":8388608,"ring-used-bytes":512,"waiting":1,"shed":2,"lost-in-ring":0,"shed-by-cubes":3},
	"drops":[{"cube":"br1","reason":"no-peer","per-second":5,"packets":50}],
	"store":{"journal-bytes":2048,"journal-records":3,"state-bytes":100,"snapshots":1,"commit-failures":0,"repaired":[]},
	"services":[{"name":"simplebridge","cubes":3}]}`

const well = `{"status":"ok","troubles":[],"cubes":{"total":1},"ports":{"total":2,"up":2},"services":[]}`

// TestStatusScreen: everything is on the screen, and nothing of a response reaches the terminal as it is.
func TestStatusScreen(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, sick))
	r := d.run("status")
	want, err := os.ReadFile(filepath.Join("testdata", "status.golden"))
	if err != nil || r.out != string(want) || r.code != 0 || r.err != "" {
		t.Errorf("%v, exit %d, %s\n%s\nwant\n%s", err, r.code, r.err, r.out, want)
	}
	if seen := fmt.Sprint(d.requests()); !strings.Contains(seen, "GET /polycube/v1/status/") {
		t.Errorf("asked %s", seen)
	}
	if r := d.run("status", "show", "-json"); r.code != 0 || !json.Valid([]byte(r.out)) {
		t.Errorf("exit %d, %s", r.code, r.out)
	}
}

// TestStatusCheck: always one line. Where the daemon cannot be asked, the exit status is that of any other command.
func TestStatusCheck(t *testing.T) {
	tests := []struct {
		name   string
		status int
		answer string
		code   Exit
		line   string
	}{
		{"well", 200, well, 0, "POLYCUBE OK - 1 cubes, 2 of 2 ports up | cubes=1 degraded=0 broken=0 ports=2 up=2 down=0"},
		{"critical", 200, sick, ExitCritical, `POLYCUBE CRITICAL - br1 degraded: PacketIn: it broke\x1b[31m (and 4 more) | cubes=3`},
		{"warning", 200, strings.Replace(sick, `"status":"critical"`, `"status":"warning"`, 1), ExitWarning, "POLYCUBE WARNING - "},
		{"another status", 200, `{"status":"merry"}`, ExitContact, `POLYCUBE UNKNOWN - cannot parse the daemon's response: its status is "merry"`},
		{"no answer that is understood", 200, `[]`, ExitContact, "POLYCUBE UNKNOWN - cannot parse the daemon's response"},
		{"refused", 403, `{"ietf-restconf:errors":{"error":[{"error-type":"application","error-tag":"access-denied","error-message":"no"}]}}`, ExitServer, "POLYCUBE UNKNOWN - no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newDaemon(t, "unix", reply(tt.status, tt.answer)).run("status", "--check")
			if r.code != tt.code || !strings.HasPrefix(r.out, tt.line) || strings.Count(r.out, "\n") != 1 || r.err != "" || strings.Count(r.out, "|") > 1 {
				t.Errorf("exit %d, %q %q, want exit %d and %q", r.code, r.out, r.err, tt.code, tt.line)
			}
		})
	}
	nobody := func(key string) string {
		return map[string]string{"HOME": t.TempDir(), "POLYCUBECTL_SOCKET": filepath.Join(t.TempDir(), "none.sock")}[key]
	}
	if r := runWith(nobody, nil, "status", "--check"); r.code != ExitContact || !strings.HasPrefix(r.out, "POLYCUBE UNKNOWN - ") {
		t.Errorf("nobody is there: exit %d, %q", r.code, r.out)
	}
	if r := runWith(nobody, nil, "status"); r.code != ExitContact {
		t.Errorf("nobody is there: exit %d", r.code)
	}
	if r := runWith(nobody, nil, "status", "--chuck"); r.code != ExitUsage {
		t.Errorf("a wrong flag: exit %d", r.code)
	}
}

const someEvents = "retry: 2000\n\nid: r-1\nevent: port\ndata: {\"id\":\"r-1\",\"time\":\"2026-01-02T03:04:05Z\",\"type\":\"port\",\"message\":\"br1:p1 is DOWN: veth1\\u001b[2J went\"}\n\n" +
	": nothing new\n\nid: r-2\nevent: lost\ndata: {\"id\":\"r-2\",\"time\":\"2026-01-02T03:04:06Z\",\"type\":\"lost\",\"message\":\"7 events are missing\"}\n\n"

// TestEventsAreLines: one line for each event until the stream ends, or as many as are wanted.
func TestEventsAreLines(t *testing.T) {
	tests := []struct {
		args  []string
		code  Exit
		lines []string
		uri   string
	}{
		{[]string{"events"}, 0, []string{`port    br1:p1 is DOWN: veth1\x1b[2J went`, "lost    7 events are missing"}, "/polycube/v1/events/"},
		{[]string{"events", "br1", "--type", "port,cube", "--after=r-0"}, 0, []string{"port ", "lost "}, "/polycube/v1/events/?after=r-0&cube=br1&type=port%2Ccube"},
		{[]string{"events", "-c", "1", "-json"}, 0, []string{`"type":"port"`}, "/polycube/v1/events/"},
		{[]string{"events", "br1", "br2"}, ExitUsage, nil, ""},
		{[]string{"events", "-c", "none"}, ExitUsage, nil, ""},
		{[]string{"events", "--type"}, ExitUsage, nil, ""},
		{[]string{"events", "-x"}, ExitUsage, nil, ""},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, someEvents))
			r := d.run(tt.args...)
			got := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
			if tt.lines == nil {
				got = nil
			}
			if r.code != tt.code || !slices.EqualFunc(got, tt.lines, strings.Contains) {
				t.Errorf("exit %d, %q, want %d and %q: %s", r.code, got, tt.code, tt.lines, r.err)
			}
			if seen := d.requests(); tt.uri != "" && (len(seen) != 1 || seen[0].uri != tt.uri || seen[0].header.Get("Accept") != "text/event-stream") {
				t.Errorf("asked %v, want %s", seen, tt.uri)
			}
		})
	}
}

// TestDaemonCommand: the level is a leaf like those of models.
func TestDaemonCommand(t *testing.T) {
	for line, want := range map[string]string{
		"daemon": "GET /polycube/v1/daemon/ ", "daemon show": "GET /polycube/v1/daemon/ ", "daemon show loglevel": "GET /polycube/v1/daemon/loglevel/ ",
		"daemon set loglevel=debug": `PATCH /polycube/v1/daemon/loglevel/ "debug"`,
	} {
		d := newDaemon(t, "unix", reply(http.StatusOK, `"INFO"`))
		if r := d.run(strings.Fields(line)...); r.code != 0 || d.requests()[0].String() != want {
			t.Errorf("%s: exit %d, %v, want %s: %s", line, r.code, d.requests(), want, r.err)
		}
	}
	if r := newDaemon(t, "unix", reply(200, "")).run("del", "daemon"); r.code != ExitUsage {
		t.Errorf("del daemon: exit %d", r.code)
	}
}
