// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
)

// nearLab has two labs, one with entries, and a tap.
func nearLab(t *testing.T) *lab {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", `[{"name":"l1","service-name":"lab","ports":[{"name":"p1","peer":"veth1"},{"name":"port2"}],
		"route":[{"network":"10.0.0.0/8","nexthop":"1.1.1.1"},{"network":"10.0.0.0/8","nexthop":"1.1.1.3"},{"network":"192.168.0.0/16","nexthop":"2.2.2.2"}]},
		{"name":"lab22","service-name":"lab"},{"name":"tap1","service-name":"tap"}]`)
	return l
}

// TestAWrongWordGetsTheNearest: sentence and member, whatever kind of name it is.
func TestAWrongWordGetsTheNearest(t *testing.T) {
	l := nearLab(t)
	tests := []struct {
		name, method, path, body, verb string
		status                         int
		says, near                     string
	}{
		{"a node", "GET", "/lab/l1/prots", "", "", 404, `no resource "lab/l1/prots": lab has no "prots": did you mean ports?`, "ports"},
		{"a node below another", "GET", "/lab/l1/fdb/entri", "", "", 404, "did you mean entry?", "entry"},
		{"an action", "POST", "/lab/l1/fdb/flsuh", "", "", 404, "did you mean flush?", "flush"},
		{"a verb among words", "POST", "/lab/l1/shwo", "", "NONE", 404, "did you mean show?", "show"},
		{"a verb at the start", "POST", "/shwo", "", "NONE", 404, "did you mean show?", "show"},
		{"a verb of a client that has none", "POST", "/lab/l1/shwo", "", "", 404, `has no "shwo"`, ""},
		{"a cube", "GET", "/lab/lab2", "", "", 404, `no lab is named "lab2": did you mean lab22?`, "lab22"},
		{"a cube to change", "PATCH", "/lab/lab2", `{}`, "", 409, "did you mean lab22?", "lab22"},
		{"a cube of another service", "GET", "/lab/tap11", "", "", 404, `no lab is named "tap11"`, ""},
		{"a first word, near a cube", "GET", "/tap11", "", "", 404, "did you mean tap1?", "tap1"},
		{"a first word, near a service", "GET", "/labb", "", "", 404, "did you mean lab?", "lab"},
		{"a first word, near a command", "GET", "/cubse", "", "", 404, "did you mean cubes?", "cubes"},
		{"a first word, near nothing", "GET", "/frobnicate", "", "", 404, `no cube, service or command is named "frobnicate"`, ""},
		{"a cube of all", "GET", "/cubes/tpa1", "", "", 404, "did you mean tap1?", "tap1"},
		{"a service", "GET", "/services/lav", "", "", 404, "did you mean lab?", "lab"},
		{"a service to remove", "DELETE", "/services/lav", "", "", 400, "did you mean lab?", "lab"},
		{"a port", "GET", "/lab/l1/ports/prt2", "", "", 404, "did you mean port2?", "port2"},
		{"a leaf of a port", "GET", "/lab/l1/ports/prt2/peer", "", "", 404, "did you mean port2?", "port2"},
		{"a port to delete", "DELETE", "/lab/l1/ports/p11", "", "", 409, "did you mean p1?", "p1"},
		{"a port to change", "PATCH", "/lab/l1/ports/p11", "{}", "", 409, "did you mean p1?", "p1"},
		{"a first key", "GET", "/lab/l1/route/10.0.0.0%2F9/1.1.1.1", "", "", 404, "did you mean 10.0.0.0/8?", "10.0.0.0/8"},
		{"a second key, near those of its first", "GET", "/lab/l1/route/10.0.0.0%2F8/1.1.1.2", "", "", 404, "did you mean 1.1.1.1 or 1.1.1.3?", "1.1.1.1 1.1.1.3"},
		{"a member", "POST", "/lab/l1/ports/p5", `{"pear":""}`, "", 400, `unknown member "pear", valid members are peer, tcubes: did you mean peer?`, "peer"},
		{"a member of a container", "PATCH", "/lab/l1", `{"aging-time":1}`, "SET", 400, `unknown member "aging-time", valid members are`, "fdb.aging-time"},
		{"a member of a container, alone", "PATCH", "/lab/l1/aging-time", "1", "SET", 404, "did you mean fdb.aging-time?", "fdb.aging-time"},
		{"a member of a container to show", "GET", "/lab/l1/aging-time", "", "SHOW", 404, `did you mean "fdb aging-time"?`, "fdb aging-time"},
		{"a member with dots to show", "GET", "/lab/l1/fdb.aging-time", "", "SHOW", 404, `did you mean "fdb aging-time"?`, "fdb aging-time"},
		{"a nested member", "PATCH", "/lab/l1", `{"fdb":{"agin-time":1}}`, "SET", 400, "did you mean aging-time?", "aging-time"},
		{"a value for a container", "PATCH", "/lab/l1", `{"fdb":1}`, "SET", 400, "fdb: it has no value of its own, only members: aging-time, entry", "fdb.aging-time fdb.entry"},
		{"a member of an action", "POST", "/lab/l1/fdb/flush", `{"knid":"ALL"}`, "", 400, "did you mean kind?", "kind"},
		{"an enum value", "PATCH", "/lab/l1/mode", `"FROWARD"`, "", 400, `mode: "FROWARD" is not one of DROP, FORWARD: did you mean FORWARD?`, "FORWARD"},
		{"an enum value in an object", "PATCH", "/lab/l1", `{"loglevel":"inof"}`, "", 400, "did you mean INFO?", "INFO"},
		{"a netdev as peer", "PATCH", "/lab/l1/ports/port2/peer", `"veth3"`, "", 400, "did you mean veth1 or veth2?", "veth1 veth2"},
		{"a netdev to connect", "POST", "/connect", `{"peer1":"l1:port2","peer2":"vteh2"}`, "", 400, "did you mean veth2?", "veth2"},
		{"a port to connect", "POST", "/connect", `{"peer1":"l1:prot2","peer2":"veth2"}`, "", 400, "did you mean port2?", "port2"},
		{"a cube to connect", "POST", "/connect", `{"peer1":"lab2:p1","peer2":"veth2"}`, "", 400, "did you mean lab22?", "lab22"},
		{"a cube without its port", "POST", "/connect", `{"peer1":"l1:port2","peer2":"l1"}`, "", 400, "did you mean l1:p1 or l1:port2?", "l1:p1 l1:port2"},
		{"a cube to attach", "POST", "/attach", `{"cube":"tap2","port":"l1:p1"}`, "", 400, "did you mean tap1?", "tap1"},
		{"a place to attach to", "POST", "/attach", `{"cube":"tap1","port":"l1:p2"}`, "", 400, "did you mean p1?", "p1"},
		{"a netdev to show", "GET", "/netdevs/veth3", "", "", 404, "did you mean veth1 or veth2?", "veth1 veth2"},
		{"a member of a command", "POST", "/connect", `{"peer1":"a","pear2":"b"}`, "", 400, "did you mean peer2?", "peer2"},
		{"a member of stats", "GET", "/cubes/l1/stat", "", "", 404, "did you mean stats?", "stats"},
		{"a word of a stranger", "GET", "/lab/l1/" + strings.Repeat("ports", 50), "", "", 404, "…", ""},
		{"a word with bytes that are none of a terminal's", "GET", "/lab/l1/port%1B%5B2J", "", "", 404, `port\x1b[2J`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, err := http.NewRequest(tt.method, "http://daemon"+message.BasePath+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.verb != "" {
				req.Header.Set(resource.VerbHeader, tt.verb)
			}
			a := l.send(t, l.client, req)
			e := a.fault(t)
			if a.status != tt.status || !strings.Contains(e.Message, tt.says) || strings.Join(e.Near, " ") != tt.near {
				t.Errorf("status %d, %q, near %q, want %d, %q, %q", a.status, e.Message, e.Near, tt.status, tt.says, tt.near)
			}
			if tt.near == "" && (strings.Contains(a.body, "did-you-mean") || strings.Contains(e.Message, "did you mean")) {
				t.Errorf("it asks whether nothing was meant: %s", a.body)
			}
		})
	}
}

// TestSeveralFaultsHaveTheirOwnWords: each error of a body is answered by itself.
func TestSeveralFaultsHaveTheirOwnWords(t *testing.T) {
	l := nearLab(t)
	a := l.must(t, 400, "PATCH", "/lab/l1", `{"mode":"FROWARD","lable":["a"]}`)
	var body message.ErrorBody
	if err := json.Unmarshal([]byte(a.body), &body); err != nil {
		t.Fatal(err)
	}
	var near []string
	for _, e := range body.Errors.Error {
		near = append(near, strings.Join(e.Near, " "))
	}
	if got := strings.Join(near, ", "); got != "FORWARD, label" {
		t.Errorf("near %q in %s", got, a.body)
	}
}

// TestWhatCannotHaveBeenMeantSaysWhatToWrite: forgotten keys and verbs change nothing.
func TestWhatCannotHaveBeenMeantSaysWhatToWrite(t *testing.T) {
	tests := []struct {
		name, method, path, body, verb string
		status                         int
		says                           string
	}{
		{"one of several entries", "DELETE", "/lab/l1/route/10.0.0.0%2F8", "", "DEL", 400,
			"route 10.0.0.0/8: there are 2, specify one: route 10.0.0.0/8 1.1.1.1, route 10.0.0.0/8 1.1.1.3"},
		{"a verb mistyped, where a name is taken", "POST", "/lab/l1/ports/shwo", "", "NONE", 400,
			"l1 ports shwo is not an action: use add, set, show or del: did you mean show?"},
		{"an entry without a verb", "POST", "/lab/l1/ports/p7", "", "NONE", 400, "l1 ports p7 is not an action: use add, set, show or del"},
		{"a list without a verb", "POST", "/lab/l1/ports", "", "NONE", 400, "l1 ports is not an action"},
		{"a cube without a verb", "POST", "/lab/l9", "", "NONE", 400, "l9 is not an action"},
		{"a part of a cube behind the service", "POST", "/lab/fdb", "", "NONE", 400, "fdb is part of a cube of the service lab: write <name> fdb"},
		{"the same of a service with one cube", "POST", "/tap/loglevel", "", "NONE", 400, "loglevel is part of a cube of the service tap: write tap1 loglevel"},
		{"a leaf without a verb", "POST", "/lab/l1/mode", "", "NONE", 405, "only GET, PATCH"},
		{"a service without a verb", "POST", "/lab", "", "NONE", 400, "specify what to do with the service lab: add <name>, del <name> or show"},
		{"an action", "POST", "/lab/l1/fdb/flush", "", "NONE", 201, ""},
		{"a list of one from a command line", "PATCH", "/lab/l1/label", `"a"`, "SET", 201, ""},
		{"a list of one among members", "PATCH", "/lab/l1", `{"label":"a","mode":"DROP"}`, "SET", 201, ""},
		{"a list from a command line", "PATCH", "/lab/l1/label", `["a","b"]`, "SET", 201, ""},
		{"a list of several from a command line", "PATCH", "/lab/l1/label", `"a,b"`, "SET", 201, ""},
		{"a list of entries that are more than names", "PATCH", "/lab/l1/ports", `"p1,p2"`, "SET", 400,
			"l1 ports is a list: append <name> to the path to address one entry, or send an array of entries"},
		{"a list of one of another client", "PATCH", "/lab/l1", `{"label":"a"}`, "", 400, "label: a string is given, but an array is required"},
		{"the same entry of another client", "POST", "/lab/l1/ports/p8", "", "", 201, ""},
		{"an entry to add without its key", "POST", "/lab/l1/ports", "{}", "ADD", 400,
			"l1 ports is a list: append <name> to the path to address one entry, or send an array of entries"},
		{"an entry to add without its keys", "POST", "/lab/l1/route", "{}", "ADD", 400, "append <network> <nexthop> to the path"},
		{"an entry to add without its last key", "POST", "/lab/l1/route/10.0.0.0%2F8", "{}", "ADD", 405,
			"incomplete key in l1 route 10.0.0.0/8: an entry of route is addressed by <network> <nexthop>, and <nexthop> is missing"},
		{"an entry to add with its last key in the body", "POST", "/lab/l1/route/10.7.0.0%2F16", `{"nexthop":"1.1.1.7","pathcost":3}`, "ADD", 201, ""},
		{"an entry to set with its last key in the body", "PATCH", "/lab/l1/route/10.0.0.0%2F8", `{"nexthop":"1.1.1.1","pathcost":3}`, "SET", 201, ""},
		{"an entry to add with a bad body instead of its last key", "POST", "/lab/l1/route/10.0.0.0%2F8", `{"nexthop":`, "ADD", 400, "JSON"},
		{"an entry to set without its key", "PATCH", "/lab/l1/ports/peer", `"veth1"`, "SET", 400, "specify the entry of ports: <name> comes before peer"},
		{"a key with blanks and quotes", "POST", "/lab/l1/ports/a%20%22b", "", "NONE", 400, `l1 ports "a \"b" is not an action`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := nearLab(t)
			before := l.must(t, 200, "GET", "/cubes", "").body
			req, err := http.NewRequest(tt.method, "http://daemon"+message.BasePath+tt.path, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			if tt.verb != "" {
				req.Header.Set(resource.VerbHeader, tt.verb)
			}
			a := l.send(t, l.client, req)
			said := ""
			if a.status >= 400 {
				said = a.fault(t).Message
			}
			if a.status != tt.status || !strings.Contains(said, tt.says) {
				t.Errorf("status %d, %q, want %d, %q", a.status, said, tt.status, tt.says)
			}
			if after := l.must(t, 200, "GET", "/cubes", "").body; a.status >= 400 && after != before {
				t.Errorf("a refused request left %s of %s", after, before)
			}
		})
	}
}
