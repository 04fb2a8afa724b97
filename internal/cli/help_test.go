// SPDX-License-Identifier: Apache-2.0

// Help as people see it, from the help JSON that the daemon sends.

package cli

import (
	"net/http"
	"strings"
	"testing"
)

func TestHelpIsShownAsTables(t *testing.T) {
	tests := []struct{ name, line, body, want string }{
		{
			"add of a list",
			"r1 ports add ?",
			`{"params":{"name":{"name":"name","type":"key","simpletype":"string","description":"Port name","example":"p1"},"ip":{"name":"ip","type":"leaf","simpletype":"string","description":"Address"}},
			"optional-params":{"peer":{"name":"peer","type":"leaf","simpletype":"string","description":"Peer"},"secondaryip":{"name":"secondaryip","type":"list","description":"More addresses"}}}`,
			`Parameters:
Keyword  Type    Description  Example
<name>   string  Port name    p1
ip=      string  Address

Optional parameters:
Keyword      Type    Description
peer=        string  Peer
secondaryip  list    More addresses
`,
		},
		{
			"show of a list with its elements",
			"r1 ports show ?",
			`{"commands":["show"],"params":{"name":{"name":"name","type":"key","simpletype":"string"}},"elements":["p1","p2"]}`,
			`Commands:
Keyword  Type     Description
show     command  Show configuration and state

Parameters:
Keyword  Type
<name>   string

Existing elements:
  p1
  p2
`,
		},
		{
			"del of a list with its flag",
			"r1 ports del ?",
			`{"params":{"name":{"name":"name","type":"key","simpletype":"string"}},"flags":{"--all":{"name":"--all","type":"flag","description":"Delete every entry"}},"elements":["p1"]}`,
			`Parameters:
Keyword  Type
<name>   string

Flags:
Keyword  Type  Description
--all    flag  Delete every entry

Existing elements:
  p1
`,
		},
		{
			"actions and elements with several keys",
			"r1 ?",
			`{"actions":{"flush":{"description":"Forget all","example":"flush"}},"elements":[["10.0.0.0/8","1.1.1.1"],{"a":"x","b":5}]}`,
			`Actions:
Keyword  Type    Description  Example
flush    action  Forget all   flush

Existing elements:
  10.0.0.0/8 1.1.1.1
  x 5
`,
		},
		{"actions that are words", "r1 ?", `{"actions":["flush"]}`, "Actions:\nKeyword  Type\nflush    action\n"},
		{"a leaf", "r1 show loglevel ?", `{"params":{"loglevel":{"type":"leaf"}}}`, "loglevel\nType:         leaf\n"},
		{"nothing", "r1 uuid ?", `{}`, "Nothing can follow here.\n"},
		{"no object", "r1 ?", `"x"`, "x\n"},
		{"no JSON", "r1 ?", `x`, "x\n"},
		{"hostile", "r1 ?", `{"commands":[["a"],{"b":1},null],"params":[1],"elements":{"\u001b":5},"actions":"x"}`,
			"Commands:\nKeyword  Type\n         command\n         command\nnull     command\n\nExisting elements:\n  \\x1b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, tt.body))
			if r := d.run(words(tt.line)...); r.code != ExitOK || r.out != tt.want {
				t.Errorf("exit %d, stderr %q, got\n%s\nwant\n%s", r.code, r.err, r.out, tt.want)
			}
		})
	}
}

// rootDaemon has two services and a cube of one of them.
func rootDaemon(t *testing.T) *daemon {
	return newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "OPTIONS /polycube/v1/":
			reply(200, `{"params":{"bridge":{"name":"bridge","simpletype":"service","type":"leaf","description":"L2 bridge"},"router":{"name":"router","simpletype":"service","type":"leaf","description":"IPv4 router"}}}`)(w, r)
		case "GET /polycube/v1/cubes/":
			reply(200, `{"router":[{"name":"r1"}]}`)(w, r)
		default:
			http.NotFound(w, r)
		}
	})
}

func TestRootHelpListsServicesCommandsAndCubes(t *testing.T) {
	d := rootDaemon(t)
	want := `Keyword     Type     Description
bridge      service  L2 bridge
router      service  IPv4 router
connect     command  Connect two ports, or a port and a netdev
disconnect  command  Undo a connection
attach      command  Attach a transparent cube to a port, a netdev or the host
detach      command  Detach a transparent cube from a port or a netdev
masquerade  command  Masquerade behind the address of a netdev: source NAT in one command
services    command  Show, add, update and remove services
cubes       command  Show running cubes, or add several from a file
topology    command  Show how cubes are connected
netdevs     command  Show network devices that cubes can use
drops       command  Show which cubes drop packets, why, and since when
trace       command  Show each step of packets through the cubes, live
capture     command  Capture the packets of a port, a transparent cube or a netdev
status      command  Show the health of the daemon and its cubes, with problems and remedies
events      command  Show events live: changes, ports, cubes, netdevs, services
daemon      command  Show the daemon, or change its log level
export      command  Print the whole configuration as YAML, for apply
apply       command  Apply the configuration in files, in one step
history     command  Show who changed what in the configuration
rollback    command  Return to the configuration of a revision
confirm     command  Keep the change that was made with --try
r1          cube     Cube of type router
`
	if r := d.run("?"); r.code != ExitOK || r.out != want {
		t.Errorf("exit %d, stderr %q, got\n%s", r.code, r.err, r.out)
	}
	d.env["POLYCUBECTL_EXPERT"] = "false"
	if r := d.run("?"); r.code != ExitOK || strings.Contains(r.out, "\nservices") || !strings.Contains(r.out, "\nconnect") {
		t.Errorf("without expert: exit %d, got\n%s", r.code, r.out)
	}
}

func TestHelpAsTheLastWordIsAQuestionMark(t *testing.T) {
	d := rootDaemon(t)
	for _, line := range [][]string{{"trace"}, {"capture"}, {"trace", "icmp"}, {"connect"}} {
		want := d.run(append(line[:len(line):len(line)], "?")...)
		for _, word := range []string{"-h", "--help"} {
			got := d.run(append(line[:len(line):len(line)], word)...)
			if got.code != ExitOK || got.out != want.out || got.err != want.err {
				t.Errorf("%v %s: exit %d, %q%q; with ?: %q%q", line, word, got.code, got.out, got.err, want.out, want.err)
			}
		}
	}
}
