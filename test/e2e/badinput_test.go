// SPDX-License-Identifier: Apache-2.0

// For any input: an error with the correct status and an explanation, nothing changed, and the daemon survives.

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// withCubes is a machine with most things that a request can conflict with: br1 at TC with veth1 and veth2, th1 on
// br1:p1, x1 at XDP_SKB, and veth3 and veth4 unused, veth4 down.
func withCubes(t *testing.T) *daemon {
	t.Helper()
	d := start(t)
	threeHosts(d.machine, v4)
	d.lab.Host("veth4", "")
	d.lab.Run("ip", "link", "set", "veth4", "down")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2 peer=veth2")
	d.Do("br1 ports add p3")
	d.Do("simplebridge add x1 type=XDP_SKB")
	d.Do("x1 ports add p1")
	d.Do("transparenthelloworld add th1")
	d.Do("transparenthelloworld add tx type=XDP_SKB")
	d.Do("attach th1 br1:p1")
	d.Do("simpleforwarder add sf")
	d.Do("sf ports add p1")
	d.Do("helloworld add hw")
	d.Do("hw ports add p1")
	d.Do("hw ports add p2")
	return d
}

// deepJSON nests n objects.
func deepJSON(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }

var thousand = strings.Repeat("n", 1000)

// badRequests are requests with the status that each deserves and a part of the sentence.
var badRequests = []struct {
	name, method, path, body string
	status                   int
	says                     string
}{
	{"unknown service", "POST", "/nosuch/a/", "{}", 404, "nosuch"},
	{"unknown cube", "GET", "/simplebridge/nosuch/", "", 404, "nosuch"},
	{"unknown leaf in a body", "POST", "/simplebridge/br9/", `{"colour":"red"}`, 400, "colour"},
	{"unknown leaf in a path", "PATCH", "/simplebridge/br1/colour/", `"red"`, 404, "colour"},
	{"unknown member of a container", "PATCH", "/simplebridge/br1/fdb/", `{"colour":1}`, 400, "colour"},
	{"string for a number", "PATCH", "/simplebridge/br1/fdb/aging-time/", `"soon"`, 400, "soon"},
	{"object for a number", "PATCH", "/simplebridge/br1/fdb/aging-time/", `{}`, 400, "aging-time"},
	{"fraction for a whole number", "PATCH", "/simplebridge/br1/fdb/aging-time/", `1.5`, 400, "1.5"},
	{"negative number", "PATCH", "/simplebridge/br1/fdb/aging-time/", `-1`, 400, "-1"},
	{"number above its type", "PATCH", "/simplebridge/br1/fdb/aging-time/", `4294967296`, 400, "4294967296"},
	{"number outside its range", "POST", "/simplebridge/br9/", `{"fdb":{"max-entries":63}}`, 400, "max-entries"},
	{"enum that does not exist", "PATCH", "/helloworld/hw/action/", `"BOUNCE"`, 400, "BOUNCE"},
	{"boolean for an enum", "PATCH", "/helloworld/hw/action/", `true`, 400, "action"},
	{"not an address", "POST", "/simplebridge/br1/fdb/entry/zz/", `{"port":"p1"}`, 400, "zz"},
	{"group address", "POST", "/simplebridge/br1/fdb/entry/01:00:00:00:00:01/", `{"port":"p1"}`, 400, "group address"},
	{"reference to nothing", "POST", "/simplebridge/br1/fdb/entry/02:00:00:00:00:01/", `{"port":"p9"}`, 400, "p9"},
	{"mandatory leaf missing", "POST", "/simplebridge/br1/fdb/entry/02:00:00:00:00:01/", `{}`, 400, "port"},
	{"read-only leaf", "PATCH", "/simplebridge/br1/uuid/", `"0"`, 405, "uuid"},
	{"leaf that is set at creation only", "PATCH", "/simplebridge/br1/fdb/max-entries/", `100`, 405, "max-entries"},
	{"another type of a cube", "PATCH", "/simplebridge/br1/", `{"type":"XDP_SKB"}`, 400, "type"},
	{"a key that is not that of the path", "POST", "/simplebridge/br1/ports/p8/", `{"name":"p9"}`, 400, "p9"},
	{"a service that is not that of the path", "POST", "/simplebridge/br9/", `{"service-name":"helloworld"}`, 400, "helloworld"},
	{"cube that is there", "POST", "/simplebridge/br1/", "{}", 409, "exists"},
	{"cube of another service that is there", "POST", "/helloworld/br1/", "{}", 409, "br1"},
	{"port that is there", "POST", "/simplebridge/br1/ports/p1/", "{}", 409, "exists"},
	{"delete what is not there", "DELETE", "/simplebridge/br9/", "", 409, "br9"},
	{"delete a port that is not there", "DELETE", "/simplebridge/br1/ports/p9/", "", 409, "p9"},
	{"third port of helloworld", "POST", "/helloworld/hw/ports/p3/", "{}", 400, "at most 2"},
	{"missing netdev", "POST", "/simplebridge/br1/ports/p9/", `{"peer":"nosuch0"}`, 400, "nosuch0"},
	{"netdev that is down", "POST", "/simplebridge/br1/ports/p9/", `{"peer":"veth4"}`, 400, "veth4"},
	{"netdev in use by a port", "POST", "/simplebridge/br1/ports/p9/", `{"peer":"veth1"}`, 409, "in use"},
	{"netdev in use, by connect", "POST", "/connect", `{"peer1":"br1:p3","peer2":"veth2"}`, 400, "veth2"},
	{"port that has a peer", "POST", "/connect", `{"peer1":"br1:p1","peer2":"veth3"}`, 400, "p1"},
	{"XDP and TC ports", "POST", "/connect", `{"peer1":"br1:p3","peer2":"x1:p1"}`, 400, "XDP"},
	{"XDP cube on a TC port", "POST", "/attach", `{"cube":"tx","port":"br1:p1","position":"first"}`, 400, "XDP"},
	{"a standard cube attached", "POST", "/attach", `{"cube":"hw","port":"br1:p1"}`, 400, "hw"},
	{"attached twice", "POST", "/attach", `{"cube":"th1","port":"br1:p2"}`, 400, "th1"},
	{"two places at once", "POST", "/attach", `{"cube":"th1","port":"br1:p2","position":"first","before":"th2"}`, 400, "position"},
	{"detached where it is not", "POST", "/detach", `{"cube":"th1","port":"br1:p2"}`, 400, "th1"},
	{"connect to nothing", "POST", "/connect", `{"peer1":"br1:p3"}`, 400, "peer2"},
	{"connect to itself", "POST", "/connect", `{"peer1":"br1:p3","peer2":"br1:p3"}`, 400, "br1:p3"},
	{"disconnect what is not connected", "POST", "/disconnect", `{"peer1":"br1:p1","peer2":"veth2"}`, 400, "veth2"},
	{"JSON cut short", "POST", "/simplebridge/br9/", `{"ports":[`, 400, ""},
	{"two JSON values", "POST", "/simplebridge/br9/", `{} {}`, 400, ""},
	{"a member given twice", "POST", "/simplebridge/br9/", `{"loglevel":"INFO","loglevel":"DEBUG"}`, 400, "loglevel"},
	{"an array for an object", "POST", "/simplebridge/br9/", `[]`, 400, ""},
	{"not UTF-8", "POST", "/simplebridge/br9/", "{\"loglevel\":\"\xff\"}", 400, ""},
	{"YAML where JSON is expected", "POST", "/cubes", "- name: br9\n  service-name: simplebridge\n", 400, ""},
	{"deep nesting", "POST", "/simplebridge/br9/", deepJSON(100_000), 400, ""},
	{"deep nesting of arrays", "POST", "/cubes", strings.Repeat("[", 200_000), 400, ""},
	{"10 MB", "POST", "/simplebridge/br9/", `{"loglevel":"` + strings.Repeat("x", 10<<20) + `"}`, 413, ""},
	{"a cube in a batch that fails", "POST", "/cubes", `[{"service-name":"simplebridge","name":"br8"},{"service-name":"simplebridge","name":"br9","ports":[{"name":"p1","peer":"nosuch0"}]}]`, 400, "nosuch0"},
	{"path traversal, escaped", "POST", "/simplebridge/..%2F..%2Fetc/", "{}", 400, ""},
	{"path traversal as a name", "POST", "/simplebridge/%2E%2E/", "{}", 400, ""},
	{"a slash in the name of a port", "POST", "/simplebridge/br1/ports/a%2Fb/", "{}", 400, ""},
	{"NUL in a name", "POST", "/simplebridge/a%00b/", "{}", 400, ""},
	{"a line feed in a name", "POST", "/simplebridge/a%0Ab/", "{}", 400, ""},
	{"an empty name", "POST", "/simplebridge/%20/", "{}", 400, ""},
	{"a name of 1,000 characters", "POST", "/simplebridge/" + thousand + "/", "{}", 400, ""},
	{"a port's name of 1,000 characters", "POST", "/simplebridge/br1/ports/" + thousand + "/", "{}", 400, ""},
	{"a peer of 1,000 characters", "PATCH", "/simplebridge/br1/ports/p3/peer/", `"` + thousand + `"`, 400, ""},
	{"traversal as a peer", "PATCH", "/simplebridge/br1/ports/p3/peer/", `"../../etc/passwd"`, 400, ""},
	{"a word of the API as a name", "POST", "/simplebridge/cubes/", "{}", 400, "cubes"},
	{"a method that is not there", "PUT", "/connect", `{}`, 405, "PUT"},
	{"a made-up method", "BREW", "/simplebridge/br1/", ``, 405, ""},
	{"an action that does not exist", "POST", "/simplebridge/br1/fdb/explode/", ``, 404, "explode"},
	{"an entry of a table for a port that is not there", "POST", "/simpleforwarder/sf/actions/p7/", `{"action":"DROP"}`, 400, "p7"},
	{"FORWARD to a port that is not there", "POST", "/simpleforwarder/sf/actions/p1/", `{"action":"FORWARD","outport":"p7"}`, 400, "p7"},
}

func TestBadRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	d := withCubes(t)
	before := d.Configuration()
	for _, c := range badRequests {
		t.Run(c.name, func(t *testing.T) {
			status, text, err := d.Request(c.method, c.path, c.body)
			if err != nil {
				t.Fatalf("%s %s: %v", c.method, clip(c.path), err)
			}
			var body struct {
				Errors struct {
					Error []struct {
						Tag     string `json:"error-tag"`
						Message string `json:"error-message"`
					} `json:"error"`
				} `json:"ietf-restconf:errors"`
			}
			if err := json.Unmarshal([]byte(text), &body); err != nil || len(body.Errors.Error) == 0 ||
				body.Errors.Error[0].Tag == "" || body.Errors.Error[0].Message == "" {
				t.Errorf("%s %s: not the shape of an error (%v): %s", c.method, clip(c.path), err, clip(text))
			}
			if status != c.status || !strings.Contains(text, c.says) {
				t.Errorf("%s %s %s: status %d, want %d and %q: %s", c.method, clip(c.path), clip(c.body), status, c.status, c.says, clip(text))
			}
			if len(text) > 4096 {
				t.Errorf("an error of %d bytes", len(text))
			}
			if after := d.Configuration(); after != before {
				t.Errorf("the configuration is\n%s\nbefore\n%s", after, before)
				before = after
			}
		})
	}
	d.Alive()
}

func TestBadCommandsChangeNothing(t *testing.T) {
	t.Parallel()
	d := withCubes(t)
	before := d.Configuration()
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		says        string
	}{
		{"unknown leaf", "", []string{"br1", "set", "colour=red"}, 2, "colour"},
		{"wrong type", "", []string{"br1", "fdb", "set", "aging-time=soon"}, 2, "soon"},
		{"out of range", "", []string{"br1", "fdb", "set", "aging-time=4294967296"}, 2, "4294967296"},
		{"missing netdev", "", []string{"br1", "ports", "add", "p9", "peer=nosuch0"}, 2, "nosuch0"},
		{"netdev in use", "", []string{"br1", "ports", "add", "p9", "peer=veth1"}, 2, "in use"},
		{"netdev that is down", "", []string{"br1", "ports", "p3", "set", "peer=veth4"}, 2, "veth4"},
		{"XDP to TC", "", []string{"connect", "br1:p3", "x1:p1"}, 2, "XDP"},
		{"XDP cube on a TC port", "", []string{"attach", "tx", "br1:p1", "position=first"}, 2, "XDP"},
		{"malformed JSON", `{"ports":[`, []string{"simplebridge", "add", "br9"}, 64, ""},
		{"malformed YAML", "a: [1\nb: }", []string{"cubes", "add"}, 64, ""},
		{"YAML that is no object", "just words", []string{"simplebridge", "add", "br9"}, 2, ""},
		{"10 MB", `{"loglevel":"` + strings.Repeat("x", 10<<20) + `"}`, []string{"simplebridge", "add", "br9"}, 64, "8 MiB"},
		{"deep nesting", deepJSON(100_000), []string{"simplebridge", "add", "br9"}, 64, ""},
		{"YAML bomb", bomb(), []string{"simplebridge", "add", "br9"}, 64, ""},
		{"traversal in a name", "", []string{"simplebridge", "add", "../../etc"}, 2, ""},
		{"dots as a name", "", []string{"simplebridge", "add", ".."}, 64, ".."},
		{"a name of 1,000 characters", "", []string{"simplebridge", "add", thousand}, 2, ""},
		{"a slash in the name of a port", "", []string{"br1", "ports", "add", "a/b"}, 2, ""},
		{"a name with a blank", "", []string{"simplebridge", "add", "a b"}, 2, ""},
		{"a cube that is there", "", []string{"simplebridge", "add", "br1"}, 2, "br1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := d.CLIWith(c.stdin, c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.says) || strings.TrimSpace(r.stderr) == "" || r.stdout != "" {
				t.Errorf("want exit %d and %q on stderr: exit %d, stdout %q, stderr %q", c.code, c.says, r.code, clip(r.stdout), clip(r.stderr))
			}
			if len(r.stderr) > 4096 {
				t.Errorf("an error of %d bytes", len(r.stderr))
			}
			if after := d.Configuration(); after != before {
				t.Errorf("the configuration is\n%s\nbefore\n%s", after, before)
				before = after
			}
		})
	}
	d.Alive()
}

// bomb is a YAML document of a few lines that expands to a billion words.
func bomb() string {
	var b strings.Builder
	b.WriteString("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n")
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i), 10), ","))
	}
	return b.String()
}

// TestBytesThatAreNoRequest sends bytes that no HTTP client would send.
func TestBytesThatAreNoRequest(t *testing.T) {
	t.Parallel()
	d := withCubes(t)
	before := d.Configuration()
	for name, text := range map[string]string{
		"noise":                     string(noise(4096)),
		"no end of the header":      "GET /polycube/v1/cubes HTTP/1.1\r\nHost: x\r\n",
		"a header of 2 MB":          "GET /polycube/v1/cubes HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
		"less body than it says":    "POST /polycube/v1/simplebridge/br9 HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{}",
		"a length that overflows":   "POST /polycube/v1/simplebridge/br9 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
		"two lengths":               "POST /polycube/v1/simplebridge/br9 HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
		"a chunk without an end":    "POST /polycube/v1/simplebridge/br9 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffff\r\n{}",
		"traversal, not normalised": "POST /polycube/v1/simplebridge/../../../etc/passwd HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
	} {
		conn, err := net.Dial("unix", d.socket())
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(conn, strings.NewReader(text)) // the daemon may hang up in the middle
		if err := conn.(*net.UnixConn).CloseWrite(); err == nil {
			answer, _ := io.ReadAll(conn) // or answer nothing
			if bytes.HasPrefix(answer, []byte("HTTP/1.1 2")) {
				t.Errorf("%s is answered %s", name, clip(string(answer)))
			}
		}
		conn.Close()
		if after := d.Configuration(); after != before {
			t.Fatalf("%s: the configuration is\n%s\nbefore\n%s", name, after, before)
		}
	}
	d.Alive()
}

// atOnce sends requests at the same time and counts the statuses.
func (m *machine) atOnce(requests []func() (int, string, error)) (statuses []int, texts []string) {
	m.t.Helper()
	statuses, texts = make([]int, len(requests)), make([]string, len(requests))
	errs := make([]error, len(requests))
	begin := make(chan struct{})
	var done sync.WaitGroup
	for i, r := range requests {
		done.Go(func() {
			<-begin
			statuses[i], texts[i], errs[i] = r()
		})
	}
	close(begin)
	done.Wait()
	for _, err := range errs {
		if err != nil {
			m.t.Fatal(err)
		}
	}
	return statuses, texts
}

func TestOfConflictingRequestsOneWins(t *testing.T) {
	t.Parallel()
	d := start(t)
	threeHosts(d.machine, v4)
	const clients = 8
	for i := range clients {
		d.Must(http.StatusCreated, "POST", fmt.Sprintf("/simplebridge/br%d", i), `{"ports":[{"name":"p1"}]}`)
	}
	send := func(method, path, body string) func() (int, string, error) {
		return func() (int, string, error) { return d.Request(method, path, body) }
	}
	var connect, create, attach []func() (int, string, error)
	for i := range clients {
		connect = append(connect, send("POST", "/connect", fmt.Sprintf(`{"peer1":"br%d:p1","peer2":"veth1"}`, i)))
		create = append(create, send("POST", "/simplebridge/same", "{}"))
		attach = append(attach, send("POST", "/attach", fmt.Sprintf(`{"cube":"th","port":"br%d:p1"}`, i)))
	}
	d.Do("transparenthelloworld add th")
	rounds := 5
	for round := range rounds {
		for _, c := range []struct {
			name     string
			requests []func() (int, string, error)
			won      int
			lost     int
		}{
			{"connect the same netdev", connect, 200, 400},
			{"create the same cube", create, 201, 409},
			{"attach the same cube", attach, 200, 400},
		} {
			statuses, texts := d.atOnce(c.requests)
			slices.Sort(statuses)
			want := append([]int{c.won}, slices.Repeat([]int{c.lost}, clients-1)...)
			if !slices.Equal(statuses, want) {
				t.Errorf("round %d: %s: statuses %v, want %v: %q", round, c.name, statuses, want, texts)
			}
		}
		// The graph agrees: one port has the netdev, one the cube.
		all := d.Configuration()
		if n := strings.Count(all, `"peer":"veth1"`); n != 1 {
			t.Errorf("round %d: %d ports have veth1", round, n)
		}
		if n := strings.Count(all, `"tcubes":["th"]`); n != 1 {
			t.Errorf("round %d: th is on %d ports", round, n)
		}
		d.Do("same del")
		d.Do("detach th " + strings.TrimSpace(d.Do("th show parent")))
		for i := range clients {
			if strings.TrimSpace(d.Do(fmt.Sprintf("br%d show ports p1 peer", i))) == "veth1" {
				d.Do(fmt.Sprintf("disconnect br%d:p1 veth1", i))
			}
		}
	}
	d.Alive()
}

// TestManyClientsAtOnce changes, reads and deletes from many clients, and the result works.
func TestManyClientsAtOnce(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	var work []func() (int, string, error)
	for i := range 16 {
		work = append(work, func() (int, string, error) {
			path := fmt.Sprintf("/simplebridge/many%d", i%4)
			for range 10 {
				for _, r := range [][2]string{{"POST", `{"ports":[{"name":"p1"}]}`}, {"PATCH", `{"loglevel":"DEBUG"}`}, {"GET", ""}, {"DELETE", ""}} {
					status, text, err := d.Request(r[0], path, r[1])
					if err != nil || status >= 500 {
						return status, text, fmt.Errorf("%s %s: status %d: %s: %w", r[0], path, status, text, err)
					}
				}
			}
			return 0, "", nil
		})
	}
	s := startStream(t, hosts[0], hosts[2])
	d.atOnce(work)
	s.Stop()
	if got := d.Configuration(); strings.Contains(got, "many") {
		t.Errorf("cubes that all clients deleted are left: %s", got)
	}
	if err := hosts[0].Ping("10.0.0.3", netns.PingOptions{Count: 3}); err != nil {
		t.Error(err)
	}
}
