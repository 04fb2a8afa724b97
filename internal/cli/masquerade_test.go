// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A machine with two NATs: one made by the command, one that does more.
const someNATs = `[
	{"name":"masquerade-eth0","parent":"eth0","rule":{"snat":{},"masquerade":{"enabled":true,"external-ip":["203.0.113.1","2001:db8::1"]},"dnat":{},"port-forwarding":{}},"sessions":{"active":7}},
	{"name":"n1","parent":"eth1","rule":{"snat":{},"masquerade":{"enabled":true},"dnat":{},"port-forwarding":{"entry":[{"id":0}]}},"sessions":{"active":0}},
	{"name":"n2","parent":"eth2","rule":{"snat":{},"masquerade":{"enabled":false},"dnat":{},"port-forwarding":{}},"sessions":{"active":0}}]`

// natDaemon has these NATs and netdevs, all of which have an address but one.
func natDaemon(t *testing.T, nats, enabled string) *daemon {
	return newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/polycube/v1/")
		name := strings.TrimSuffix(strings.TrimPrefix(path, "netdevs/"), "/")
		switch {
		case r.Method == "GET" && path == "nat/":
			_, _ = io.WriteString(w, nats)
		case name == "eth9":
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"ietf-restconf:errors":{"error":[{"error-type":"application","error-tag":"data-missing","error-message":"no netdev eth9"}]}}`)
		case name == "bare0":
			_, _ = io.WriteString(w, `[{"name":"bare0","addresses":["fe80::1/64","127.0.0.1/8"]}]`)
		case path == "r1/ports/wan/":
			_, _ = io.WriteString(w, `{"name":"wan","ip":"198.51.100.9/24","secondaryip":[{"ip":"2001:db8::9/64"},{"ip":"198.51.100.10/24"}]}`)
		case path == "r1/ports/lan/":
			_, _ = io.WriteString(w, `{"name":"lan"}`)
		case strings.HasPrefix(path, "netdevs/"):
			_, _ = fmt.Fprintf(w, `[{"name":%q,"addresses":["2001:db8::2/64","198.51.100.7/24","198.51.100.8/24","fe80::1/64"]}]`, name)
		case strings.HasSuffix(path, "/enable/"):
			_, _ = io.WriteString(w, enabled)
		case r.Method == "DELETE":
			w.WriteHeader(http.StatusNoContent)
		default:
			w.WriteHeader(http.StatusCreated)
		}
	})
}

func TestMasquerade(t *testing.T) {
	const create = `POST /polycube/v1/cubes/ [{"name":%q,"parent":%q,"rule":{"masquerade":{"enabled":true}},"service-name":"nat"}]`
	tests := []struct {
		words, out string
		code       Exit
		asked      string // the last request
	}{
		{"veth1", "veth1 is masqueraded by masquerade-veth1: 198.51.100.7,2001:db8::2\n", 0, fmt.Sprintf(create, "masquerade-veth1", "veth1")},
		{"add veth1", "veth1 is masqueraded by masquerade-veth1: 198.51.100.7,2001:db8::2\n", 0, fmt.Sprintf(create, "masquerade-veth1", "veth1")},
		{"r1:wan", "r1:wan is masqueraded by masquerade-r1-wan: 198.51.100.9,2001:db8::9\n", 0, fmt.Sprintf(create, "masquerade-r1-wan", "r1:wan")},
		{"eth0", "eth0 is already masqueraded by masquerade-eth0: 203.0.113.1,2001:db8::1\n", 0, "GET /polycube/v1/netdevs/eth0/ "},
		{"eth2", "eth2 is masqueraded by n2, an existing cube\n", 0, "POST /polycube/v1/nat/n2/rule/masquerade/enable/ "},
		{"bare0", "bare0 has no address to masquerade with: add one first", ExitServer, "GET /polycube/v1/netdevs/bare0/ "},
		{"r1:lan", "r1:lan has no address to masquerade with: add one first (polycubectl r1 ports lan set ip=", ExitServer, "GET /polycube/v1/r1/ports/lan/ "},
		{"eth9", "no netdev eth9", ExitServer, "GET /polycube/v1/netdevs/eth9/ "},
		{"del eth0", "eth0 is no longer masqueraded; masquerade-eth0 is deleted\n", 0, "DELETE /polycube/v1/nat/masquerade-eth0/ "},
		{"del eth1", "eth1 is no longer masqueraded; n1 stays, because it has other rules or ports\n", 0, "POST /polycube/v1/nat/n1/rule/masquerade/disable/ "},
		{"del eth2", "eth2 is not masqueraded, masqueraded are: eth0, eth1", ExitServer, "GET /polycube/v1/nat/ "},
		{"", "place  cube             external-ip              sessions\neth0   masquerade-eth0  203.0.113.1,2001:db8::1  7\neth1   n1               -                        0\n", 0, "GET /polycube/v1/nat/ "},
		{"show eth1", "place  cube  external-ip  sessions\neth1   n1    -            0\n", 0, "GET /polycube/v1/nat/ "},
		{"show eth2", "eth2 is not masqueraded", ExitServer, "GET /polycube/v1/nat/ "},
		{"show eth0 -json", `"external-ip": [`, 0, "GET /polycube/v1/nat/ "},
		{"del", "takes one netdev or port", ExitUsage, ""},
		{"eth0 eth1", "takes one netdev or port", ExitUsage, ""},
		{"eth0 -json", "-json is accepted only with masquerade show", ExitUsage, ""},
		{"--jsn", `unknown flag "--jsn"`, ExitUsage, ""},
	}
	for _, tt := range tests {
		t.Run(tt.words, func(t *testing.T) {
			d := natDaemon(t, someNATs, `{"result":true}`)
			r := d.run(append([]string{"masquerade"}, strings.Fields(tt.words)...)...)
			if text := r.out + r.err; r.code != tt.code || !strings.Contains(text, tt.out) {
				t.Errorf("exit %d, %q, want %d and %q", r.code, text, tt.code, tt.out)
			}
			seen := d.requests()
			last := ""
			if len(seen) > 0 {
				last = seen[len(seen)-1].String()
			}
			if last != tt.asked {
				t.Errorf("the last request is %q, want %q", last, tt.asked)
			}
		})
	}
}

func TestMasqueradeOfACubeThatHasNoAddress(t *testing.T) {
	d := natDaemon(t, someNATs, `{"result":false}`)
	if r := d.run("masquerade", "eth2"); r.code != ExitServer || !strings.Contains(r.err+r.out, "eth2 has no address") {
		t.Errorf("exit %d, %q %q", r.code, r.out, r.err)
	}
	if r := natDaemon(t, `[]`, "").run("masquerade"); r.code != 0 || r.out != "" {
		t.Errorf("nothing is masqueraded: exit %d, %q", r.code, r.out)
	}
	if r := natDaemon(t, `{`, "").run("masquerade"); r.code == 0 {
		t.Errorf("an answer that is none: exit %d, %q", r.code, r.out)
	}
}

// TestTheNameOfAMasqueradeIsFree: it is one that a cube can have, and that no cube has.
func TestTheNameOfAMasqueradeIsFree(t *testing.T) {
	taken := map[string]bool{"masquerade-eth0": true, "masquerade-eth0-2": true}
	for place, want := range map[string]string{"eth1": "masquerade-eth1", "eth0": "masquerade-eth0-3", "r1:wan": "masquerade-r1-wan",
		"a/b": "masquerade-a-b", strings.Repeat("x", 90): "masquerade-" + strings.Repeat("x", 49)} {
		if got := nameFor(place, func(n string) bool { return taken[n] }); got != want {
			t.Errorf("%s: %s, want %s", place, got, want)
		}
	}
}
