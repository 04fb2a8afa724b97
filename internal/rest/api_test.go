// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/rest/message"
)

const labSetUp = `[{"name":"l1","service-name":"lab","fdb":{"entry":[{"address":"aa:aa:aa:aa:aa:aa","port":"p1"}]},
	"route":[{"network":"10.0.0.0/8","nexthop":"1.1.1.1","pathcost":1}],"ports":[{"name":"p1"}]},
	{"name":"t1","service-name":"tap"}]`

// TestStatuses: every kind of node, every method, every outcome. Each row starts from
// the same two cubes.
func TestStatuses(t *testing.T) {
	const entry = "/lab/l1/fdb/entry/aa:aa:aa:aa:aa:aa"
	tests := []struct {
		name, method, path, body string
		status                   int
		tag                      string
		// is, when set, is the response's body.
		is string
	}{
		{"create", "POST", "/lab/l2", `{"mode":"forward"}`, 201, "", ""},
		{"create with PUT", "PUT", "/lab/l2", "", 201, "", ""},
		{"create below the service", "POST", "/lab/", `{"name":"l2"}`, 201, "", ""},
		{"create several below the service", "POST", "/lab/", `[{"name":"l2"},{"name":"l3"}]`, 201, "", ""},
		{"create below the service without a name", "POST", "/lab/", `{}`, 400, "missing-attribute", ""},
		{"create with the path's name in the body", "POST", "/lab/l2", `{"name":"l2"}`, 201, "", ""},
		{"create with a member twice", "POST", "/lab/l2", `{"mode":"forward","mode":"drop"}`, 400, "invalid-value", ""},
		{"create with a member twice beside the name", "POST", "/lab/l2", `{"mode":"forward","name":"l2","mode":"drop"}`, 400, "invalid-value", ""},
		{"create several, one with a member twice", "POST", "/lab/", `[{"name":"l2"},{"name":"l3","mode":"forward","mode":"drop"}]`, 400, "invalid-value", ""},
		{"bring in a cube with a member twice", "PATCH", "/config", `[{"name":"l1","service-name":"lab","mode":"forward","mode":"drop"}]`, 400, "invalid-value", ""},
		{"create with another name in the body", "POST", "/lab/l2", `{"name":"l3"}`, 400, "invalid-value", ""},
		{"create with another service in the body", "POST", "/lab/l2", `{"service-name":"tap"}`, 400, "invalid-value", ""},
		{"create what exists", "POST", "/lab/l1", "", 409, "data-exists", ""},
		{"replace what exists", "PUT", "/lab/l1", "", 409, "data-exists", ""},
		{"create with the name of a cube of another service", "POST", "/lab/t1", "", 409, "data-exists", ""},
		{"create with a reserved name", "POST", "/lab/topology", "", 400, "invalid-value", ""},
		{"create with an unknown member", "POST", "/lab/l2", `{"nonsense":1}`, 400, "invalid-value", ""},
		{"create with a member that is state", "POST", "/lab/l2", `{"seen":1}`, 400, "invalid-value", ""},
		{"create that is not an object", "POST", "/lab/l2", `[1]`, 400, "invalid-value", ""},
		{"create a shadow cube", "POST", "/lab/l2", `{"shadow":true}`, 400, "operation-not-supported", ""},
		{"update a cube", "PATCH", "/lab/l1", `{"mode":"FORWARD"}`, 201, "", ""},
		{"update a cube below the service", "PATCH", "/lab/", `{"name":"l1","mode":"FORWARD"}`, 201, "", ""},
		{"update several cubes at once", "PATCH", "/lab/", `[{"name":"l1"},{"name":"l2"}]`, 400, "invalid-value", ""},
		{"update a cube that is not there", "PATCH", "/lab/l9", `{}`, 409, "data-missing", ""},
		{"delete a cube", "DELETE", "/lab/l1", "", 200, "", ""},
		{"delete a cube that is not there", "DELETE", "/lab/l9", "", 409, "data-missing", ""},
		{"read a cube that is not there", "GET", "/lab/l9", "", 404, "data-missing", ""},
		{"read a cube of another service", "GET", "/lab/t1", "", 404, "data-missing", ""},
		{"read a service with a body", "GET", "/lab/", "{}", 405, "operation-not-supported", ""},
		{"delete a service's cubes", "DELETE", "/lab/", "", 405, "operation-not-supported", ""},

		{"read a leaf", "GET", "/lab/l1/fdb/aging-time", "", 200, "", "300"},
		{"read a string", "GET", "/lab/l1/mode/", "", 200, "", `"DROP"`},
		{"read a boolean", "GET", "/lab/l1/shadow", "", 200, "", `false`},
		{"read state of 64 bits", "GET", "/lab/l1/seen", "", 200, "", "1152921504606846976"},
		{"read a container that is not there", "GET", "/lab/l1/nothing", "", 404, "bad-element", ""},
		{"update a leaf", "PATCH", "/lab/l1/fdb/aging-time", "60", 200, "", ""},
		{"update a leaf with a number in quotes", "PATCH", "/lab/l1/fdb/aging-time", `"60"`, 200, "", ""},
		{"update an enum in another case", "PATCH", "/lab/l1/mode", `"forward"`, 200, "", ""},
		{"update a leaf out of range", "PATCH", "/lab/l1/fdb/aging-time", "100001", 400, "invalid-value", ""},
		{"update a leaf with the wrong type", "PATCH", "/lab/l1/fdb/aging-time", `"soon"`, 400, "invalid-value", ""},
		{"update a leaf with an object", "PATCH", "/lab/l1/fdb/aging-time", `{"a":1}`, 400, "invalid-value", ""},
		{"update a leaf with nothing", "PATCH", "/lab/l1/fdb/aging-time", ``, 400, "missing-element", ""},
		{"update an enum with another word", "PATCH", "/lab/l1/mode", `"MAYBE"`, 400, "invalid-value", ""},
		{"update state", "PATCH", "/lab/l1/seen", "1", 405, "operation-not-supported", ""},
		{"update what is set at creation only", "PATCH", "/lab/l1/type", `"TC"`, 405, "operation-not-supported", ""},
		{"post to a leaf", "POST", "/lab/l1/mode", `"DROP"`, 405, "operation-not-supported", ""},
		{"delete a leaf", "DELETE", "/lab/l1/type", "", 405, "operation-not-supported", ""},
		{"delete a leaf that is not set", "DELETE", "/lab/l1/mode", "", 409, "data-missing", ""},
		{"delete a leaf that has to be there", "DELETE", entry + "/port", "", 400, "missing-attribute", ""},
		{"delete a leaf that is set", "DELETE", "/lab/l1/route/10.0.0.0%2F8/1.1.1.1/pathcost", "", 204, "", ""},
		{"unset a leaf by null", "PATCH", "/lab/l1/mode", "null", 200, "", ""},
		{"unset a leaf by nothing", "PATCH", "/lab/l1/mode", `""`, 200, "", ""},
		{"unset members", "PATCH", "/lab/l1", `{"mode":null,"fdb":{"aging-time":""}}`, 201, "", ""},
		{"unset what has to be there", "PATCH", entry, `{"port":null}`, 400, "missing-attribute", ""},

		{"post a container", "POST", "/lab/l1/fdb", `{"aging-time":5}`, 201, "", ""},
		{"put a container", "PUT", "/lab/l1/fdb", `{"aging-time":5}`, 201, "", ""},
		{"patch a container", "PATCH", "/lab/l1/fdb", `{"aging-time":5}`, 201, "", ""},
		{"delete a container", "DELETE", "/lab/l1/fdb", "", 204, "", ""},
		{"patch a container with an unknown member", "PATCH", "/lab/l1/fdb", `{"agingtime":5}`, 400, "invalid-value", ""},

		{"create an entry", "POST", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", `{"port":"p1"}`, 201, "", ""},
		{"put an entry", "PUT", entry, `{"port":"p2"}`, 201, "", ""},
		{"patch an entry", "PATCH", entry, `{"port":"p2"}`, 201, "", ""},
		{"create an entry that exists", "POST", entry, `{"port":"p1"}`, 409, "data-exists", ""},
		{"create an entry without what is mandatory", "POST", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", "", 400, "missing-attribute", ""},
		{"create an entry with another key in the body", "POST", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", `{"address":"cc:cc:cc:cc:cc:cc","port":"p1"}`, 400, "", ""},
		{"create an entry with a key that is none", "POST", "/lab/l1/fdb/entry/nonsense", `{"port":"p1"}`, 400, "invalid-value", ""},
		{"patch an entry that is not there", "PATCH", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", `{"port":"p1"}`, 409, "data-missing", ""},
		{"read an entry that is not there", "GET", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", "", 404, "data-missing", ""},
		{"delete an entry", "DELETE", entry, "", 204, "", ""},
		{"delete an entry that is not there", "DELETE", "/lab/l1/fdb/entry/bb:bb:bb:bb:bb:bb", "", 409, "data-missing", ""},
		{"a key with a slash", "GET", "/lab/l1/route/10.0.0.0%2F8/1.1.1.1/pathcost", "", 200, "", "1"},
		{"some keys of several", "GET", "/lab/l1/route/10.0.0.0%2F8", "", 405, "operation-not-supported", ""},
		{"delete by some keys of several", "DELETE", "/lab/l1/route/10.0.0.0%2F8", "", 204, "", ""},
		{"delete by some keys that no entry has", "DELETE", "/lab/l1/route/11.0.0.0%2F8", "", 409, "data-missing", ""},
		{"change a key", "PATCH", entry + "/address", `"bb:bb:bb:bb:bb:bb"`, 405, "operation-not-supported", ""},

		{"post a whole list", "POST", "/lab/l1/fdb/entry", `[{"address":"bb:bb:bb:bb:bb:bb","port":"p1"}]`, 201, "", ""},
		{"put a whole list", "PUT", "/lab/l1/fdb/entry", `[]`, 201, "", ""},
		{"patch a whole list", "PATCH", "/lab/l1/fdb/entry", `[{"address":"aa:aa:aa:aa:aa:aa","port":"p3"}]`, 201, "", ""},
		{"post entries that exist", "POST", "/lab/l1/fdb/entry", `[{"address":"aa:aa:aa:aa:aa:aa","port":"p1"}]`, 409, "data-exists", ""},
		{"post an object to a whole list", "POST", "/lab/l1/fdb/entry", `{"address":"bb:bb:bb:bb:bb:bb","port":"p1"}`, 400, "invalid-value", ""},
		{"delete a whole list", "DELETE", "/lab/l1/fdb/entry", "", 200, "", ""},

		{"put a leaf-list", "PUT", "/lab/l1/label", `["a","b"]`, 201, "", ""},
		{"post to a leaf-list", "POST", "/lab/l1/label", `["c"]`, 201, "", ""},
		{"post a value", "POST", "/lab/l1/label/x%2Fy", "", 201, "", ""},
		{"delete a value that is not there", "DELETE", "/lab/l1/label/x", "", 409, "data-missing", ""},
		{"put a scalar to a leaf-list", "PUT", "/lab/l1/label", `7`, 400, "invalid-value", ""},
		{"set attached cubes", "PUT", "/lab/l1/ports/p1/tcubes", `["t1"]`, 405, "operation-not-supported", ""},

		{"an action", "POST", "/lab/l1/fdb/flush", "", 201, "", `{"flushed":true}`},
		{"read an action", "GET", "/lab/l1/fdb/flush", "", 405, "operation-not-supported", ""},
		{"an action of a cube that is not there", "POST", "/lab/l9/fdb/flush", "", 404, "data-missing", ""},

		{"an action of a list", "POST", "/lab/l1/route/find/10.0.0.1", "", 201, "", `{"found":"{\"address\":\"10.0.0.1\"}"}`},
		{"an action of a list by its own name", "POST", "/lab/l1/route-find", `{"address":"10.0.0.1"}`, 201, "", `{"found":"{\"address\":\"10.0.0.1\"}"}`},
		{"an action of a list with what it takes as a member", "POST", "/lab/l1/route/find", `{"address":"10.0.0.1"}`, 201, "", `{"found":"{\"address\":\"10.0.0.1\"}"}`},
		{"an action of a list with what it takes in both", "POST", "/lab/l1/route/find/10.0.0.2", `{"address":"10.0.0.1"}`, 400, "invalid-value", ""},
		{"an action of a list with null for what it takes", "POST", "/lab/l1/route/find/10.0.0.2", `null`, 400, "invalid-value", ""},
		{"an action of a list with a word too many", "POST", "/lab/l1/route/find/10.0.0.2/x", "", 400, "invalid-value", ""},
		{"an action of a list without what it takes", "POST", "/lab/l1/route/find", "", 400, "missing-attribute", ""},
		{"read an action of a list", "GET", "/lab/l1/route/find", "", 405, "operation-not-supported", ""},

		{"a method of no resource", "TRACE", "/lab/l1", "", 405, "operation-not-supported", ""},
		{"an unknown first word", "GET", "/nothing", "", 404, "data-missing", ""},
		{"below a framework resource", "GET", "/version/x", "", 404, "data-missing", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Options{}, false)
			l.must(t, 201, "POST", "/cubes", labSetUp)
			before := l.do(t, "GET", "/cubes", "").body
			a := l.do(t, tt.method, tt.path, tt.body)
			if a.status != tt.status {
				t.Fatalf("%s %s %s: status %d, want %d: %s", tt.method, tt.path, tt.body, a.status, tt.status, a.body)
			}
			if tt.status == 405 && a.header.Get("Allow") == "" {
				t.Error("405 without Allow")
			}
			if tt.is != "" && a.body != tt.is {
				t.Errorf("body %s, want %s", a.body, tt.is)
			}
			if tt.status < 400 {
				return
			}
			if e := a.fault(t); tt.tag != "" && e.Tag != tt.tag {
				t.Errorf("tag %s, want %s: %s", e.Tag, tt.tag, a.body)
			}
			if after := l.do(t, "GET", "/cubes", "").body; after != before {
				t.Errorf("a refused request changed something:\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// TestCommands: connect, attach and their reverse answer 200, and 400 for whatever is
// wrong with the request.
func TestCommands(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	steps := []struct {
		path, body string
		status     int
		tag        string
	}{
		{"/connect", `{"peer1":"l1:p1"}`, 400, "missing-attribute"},
		{"/connect", ``, 400, "missing-attribute"},
		{"/connect", `["l1:p1","veth1"]`, 400, "invalid-value"},
		{"/connect", `{"peer1":"l1:p1","peer2":7}`, 400, "invalid-value"},
		{"/connect", `{"peer1":"l1:p1","peer2":"veth1","peer3":"x"}`, 400, "invalid-value"},
		{"/connect", `{"peer1":"l1:p1","peer2":"nodev"}`, 400, ""},
		{"/connect", `{"peer1":"l1:p9","peer2":"veth1"}`, 400, ""},
		{"/connect", `{"peer1":"l1:p1","peer2":"down0"}`, 400, ""},
		{"/connect", `{"peer1":"l1:p1","peer2":"veth1"}`, 200, ""},
		{"/connect", `{"peer1":"l1:p1","peer2":"veth2"}`, 400, "in-use"},
		{"/attach", `{"cube":"t1","port":"l1:p1","position":"first","before":"x"}`, 400, "invalid-value"},
		{"/attach", `{"cube":"l1","port":"veth2"}`, 400, ""},
		{"/attach", `{"cube":"t1","port":"l1:p1"}`, 200, ""},
		{"/attach", `{"cube":"t1","port":"veth2"}`, 400, "in-use"},
		{"/detach", `{"cube":"t1","port":"l1:p1"}`, 200, ""},
		{"/detach", `{"cube":"t1","port":"l1:p1"}`, 400, ""},
		{"/disconnect", `{"peer1":"l1:p1","peer2":"veth1"}`, 200, ""},
		{"/disconnect", `{"peer1":"l1:p1","peer2":"veth1"}`, 400, ""},
		{"/services", `{"uri":"x","name":"y"}`, 400, "missing-attribute"},
		{"/services", `{"type":"other","uri":"x","name":"y"}`, 400, "bad-attribute"},
		{"/services", `{"type":"grpc","uri":"x","name":"y"}`, 400, "operation-failed"},
	}
	for _, s := range steps {
		a := l.do(t, "POST", s.path, s.body)
		if a.status != s.status {
			t.Errorf("POST %s %s: status %d, want %d: %s", s.path, s.body, a.status, s.status, a.body)
		}
		if s.status == 200 && a.body != "" {
			t.Errorf("POST %s %s: body %q, want none", s.path, s.body, a.body)
		}
		if s.status == 400 && a.status == 400 {
			if e := a.fault(t); s.tag != "" && e.Tag != s.tag {
				t.Errorf("POST %s %s: tag %s, want %s: %s", s.path, s.body, e.Tag, s.tag, e.Message)
			}
		}
	}
	l.must(t, 400, "DELETE", "/services/lab", "")
	l.must(t, 400, "DELETE", "/services/none", "")
	l.must(t, 405, "GET", "/connect", "")
	l.must(t, 405, "POST", "/connect/a/b", "{}")
}

// TestPeerNames: a netdev that the body names and that cannot be used is a fault of the
// body, and the sentence names it.
func TestPeerNames(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	for _, tt := range []struct{ method, path, body, names string }{
		{"PATCH", "/lab/l1/ports/p1/peer", `"nodev"`, "nodev"},
		{"PATCH", "/lab/l1/ports/p1", `{"peer":"nodev"}`, "nodev"},
		{"POST", "/lab/l1/ports/p2", `{"peer":"nodev"}`, "nodev"},
		{"POST", "/lab/l2", `{"ports":[{"name":"p1","peer":"nodev"}]}`, "nodev"},
		{"POST", "/lab/l1/ports/p2", `{"peer":"down0"}`, "down0"},
	} {
		a := l.must(t, 400, tt.method, tt.path, tt.body)
		if e := a.fault(t); !strings.Contains(e.Message, tt.names) {
			t.Errorf("%s %s %s: the sentence %q does not name %s", tt.method, tt.path, tt.body, e.Message, tt.names)
		}
	}
}

// TestRedirect: a path that begins with a cube is sent to its service, once, with query
// and escapes as they were.
func TestRedirect(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	for _, tt := range []struct{ path, location string }{
		{"/l1", "/polycube/v1/lab/l1"},
		{"/l1/", "/polycube/v1/lab/l1/"},
		{"/t1/capture/", "/polycube/v1/tap/t1/capture/"},
		{"/l1/route/10.0.0.0%2F8/1.1.1.1?help=SHOW&completion", "/polycube/v1/lab/l1/route/10.0.0.0%2F8/1.1.1.1?help=SHOW&completion"},
	} {
		for _, method := range []string{"GET", "POST", "PATCH", "DELETE", "OPTIONS"} {
			a := l.must(t, http.StatusPermanentRedirect, method, tt.path, "")
			if got := a.header.Get("Location"); got != tt.location {
				t.Errorf("%s %s is sent to %q, want %q", method, tt.path, got, tt.location)
			}
		}
	}
	a := l.do(t, "GET", "/lab/l1/l1", "")
	if a.status != http.StatusNotFound {
		t.Errorf("a path with its service is redirected again: %d %s", a.status, a.header.Get("Location"))
	}
}

// TestLinks: the whole array, as clients compare it, on TCP; on a Unix socket without authority.
func TestLinks(t *testing.T) {
	l := newLab(t, Options{InsecureLoopback: true}, true)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	tests := []struct{ path, self, children string }{
		{"/lab/l1", "/lab/l1/", "uuid type service-name loglevel ports shadow span fdb route mode enabled label seen"},
		{"/tap/t1", "/tap/t1/", "uuid type service-name loglevel capture"},
		{"/lab/l1/fdb", "/lab/l1/fdb/", "aging-time entry"},
		{"/lab/l1/fdb/entry/aa:aa:aa:aa:aa:aa/", "/lab/l1/fdb/entry/aa:aa:aa:aa:aa:aa/", "address port"},
		{"/lab/l1/route/10.0.0.0%2F8/1.1.1.1", "/lab/l1/route/10.0.0.0%2F8/1.1.1.1/", "network nexthop pathcost"},
		{"/lab/l1/ports/p1", "/lab/l1/ports/p1/", "name uuid status peer tcubes"},
	}
	for _, authority := range []string{"//" + l.tcp, ""} {
		for _, tt := range tests {
			want := []message.Link{{Rel: "self", Href: authority + message.BasePath + tt.self}}
			for _, c := range strings.Fields(tt.children) {
				want = append(want, message.Link{Rel: c, Href: authority + message.BasePath + tt.self + c + "/"})
			}
			encoded, err := message.Encode(want)
			if err != nil {
				t.Fatal(err)
			}
			var a answer
			if authority == "" {
				a = l.do(t, "GET", tt.path, "")
			} else {
				req, err := http.NewRequest("GET", "http://"+l.tcp+message.BasePath+tt.path, nil)
				if err != nil {
					t.Fatal(err)
				}
				a = l.send(t, http.DefaultClient, req)
			}
			if suffix := `,"_links":` + string(encoded) + "}"; !strings.HasSuffix(a.body, suffix) {
				t.Errorf("GET %s ends\n%s\nwant\n%s", tt.path, a.body, suffix)
			}
			if !json.Valid([]byte(a.body)) {
				t.Errorf("GET %s is not JSON: %s", tt.path, a.body)
			}
		}
	}
	for path, want := range map[string]string{
		"/lab":             `</polycube/v1/lab/>; rel="self", </polycube/v1/lab/l1/>; rel="item"`,
		"/lab/l1/route":    `</polycube/v1/lab/l1/route/>; rel="self", </polycube/v1/lab/l1/route/10.0.0.0%2F8/1.1.1.1/>; rel="item"`,
		"/lab/l1/fdb/mode": "",
	} {
		if got := l.do(t, "GET", path, "").header.Get("Link"); got != want {
			t.Errorf("GET %s: Link %q, want %q", path, got, want)
		}
	}
}

// TestFramework: the resources that no model describes.
func TestFramework(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	contains := []struct{ path, part string }{
		{"/version", `{"polycubed":{"version":"1.2.3"}}`},
		{"/", `[{"rel":"self","href":"/polycube/v1/"},{"rel":"version"`},
		{"/", `{"rel":"lab","href":"/polycube/v1/lab/"}`},
		{"/services", `[{"name":"lab","servicecontroller":"builtin","description":"Every kind of node","version":"1.2.0","pyang_repo_id":"","swagger_codegen_repo_id":""},{"name":"tap"`},
		{"/services/lab", `[{"name":"lab","servicecontroller":"builtin","datamodel":"//`},
		{"/cubes", `{"lab":[{"name":"l1","uuid":"`},
		{"/cubes", `"tap":[{"name":"t1","uuid":"`},
		{"/cubes/l1", `{"name":"l1","uuid":"`},
		{"/lab", `[{"name":"l1","uuid":"`},
		{"/cubes/l1/stats", `"ports":[{"name":"p1","rx-packets":10,"rx-bytes":1000,"tx-packets":3,"tx-bytes":300}]`},
		{"/cubes/l1/stats", `"fates":[{"name":"pass","drop":false,"packets":5},{"name":"no-peer","drop":true,"packets":7}]`},
		{"/drops", `[{"cube":"l1","reason":"no-peer","packets":7,"per-second":0},{"cube":"t1",`},
		{"/drops/t1", `[{"cube":"t1","reason":"no-peer","packets":7,"per-second":0}]`},
		{"/drops/framework", `[{"cube":"framework","reason":"no-peer","packets":7,"per-second":0}]`},
		{"/cubes/t1/stats", `"mode":"inline","mode-reason":"","segment":2,"segments":3,"segment-cubes":4,"alike-cubes":2,"instructions":77,"verified-instructions":99,"stack-bytes":208,"own-instructions":40,"own-stack-bytes":96,"load-microseconds":5000,"degraded":"",` +
			`"programs":[{"role":"in","hook":"TC","instructions":77,"verified-instructions":99,"stack-bytes":208}],"ports":[]`},
		{"/netdevs", `"name":"veth1"`},
		{"/netdevs/veth2", `"name":"veth2"`},
		{"/topology", `[{"name":"l1"`},
		{"/topology/veth1", `"ingress service chain":"`},
	}
	for _, c := range contains {
		a := l.must(t, 200, "GET", c.path, "")
		if !strings.Contains(a.body, c.part) {
			t.Errorf("GET %s: no %s in\n%s", c.path, c.part, a.body)
		}
		if got := a.header.Get("Content-Type"); got != message.ContentType {
			t.Errorf("GET %s: content type %q", c.path, got)
		}
	}
	for _, missing := range []string{"/services/none", "/cubes/none", "/cubes/none/stats", "/cubes/l1/other", "/netdevs/none", "/topology/none", "/drops/none",
		"/netdevs/" + strings.Repeat("x", 100)} {
		l.must(t, 404, "GET", missing, "").fault(t)
	}
	head := l.must(t, 200, "HEAD", "/cubes", "")
	if head.body != "" || head.header.Get("Content-Length") == "0" {
		t.Errorf("HEAD has body %q and length %s", head.body, head.header.Get("Content-Length"))
	}
}

// TestCreateManyIsWhole: one wrong cube of an array, and none is made.
func TestCreateManyIsWhole(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 400, "POST", "/cubes", `[{"name":"l1","service-name":"lab"},{"name":"l2","service-name":"lab","mode":"MAYBE"}]`).fault(t)
	l.must(t, 400, "POST", "/lab", `[{"name":"l1"},{"name":"l2","service-name":"tap"}]`).fault(t)
	if got := l.do(t, "GET", "/cubes", "").body; got != "{}" {
		t.Errorf("cubes after a refused request: %s", got)
	}
}
