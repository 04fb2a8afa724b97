// SPDX-License-Identifier: Apache-2.0

// A whole list to delete: a person is asked, a script says --all.

package cli

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// asking is the daemon's answer to a list that is to be deleted as a whole.
const asking = `{"ietf-restconf:errors":{"error":[{"error-type":"protocol","error-tag":"confirmation-required",
	"error-message":"br1 ports is a list: append <name> to delete one entry, or --all to delete every entry","error-info":"all",
	"error-detail":["p1, wired to veth1","p2\u001b[2J"],"question":"Delete all 2 entries of br1 ports?"}]}}`

// withLists asks for a confirmation at paths that end in ports, and refuses one of another revision than "r7".
func withLists(t *testing.T, body string) *daemon {
	return newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"r7"`)
		switch match := r.Header.Get("If-Match"); {
		case match != "" && match != `"r7"`:
			w.WriteHeader(http.StatusPreconditionFailed)
		case strings.HasSuffix(r.URL.Path, "/ports/") && !r.URL.Query().Has("all") && r.Header.Get("Polycube-Verb") == "DEL":
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, body)
		case r.URL.Query().Has("all") && strings.HasSuffix(r.URL.Path, "/p1/"):
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"ietf-restconf:errors":{"error":[{"error-message":"it is not a list"}]}}`)
		default:
			w.WriteHeader(http.StatusOK)
		}
	})
}

func targets(d *daemon) (out []string) {
	for _, e := range d.requests() {
		out = append(out, strings.TrimSuffix(e.method+" "+e.uri+" "+e.header.Get("If-Match"), " "))
	}
	return out
}

const (
	first  = "DELETE /polycube/v1/br1/ports/"
	second = "DELETE /polycube/v1/br1/ports/?all"
)

// TestAScriptSaysAll: without a terminal nothing is asked and nothing is deleted, and the error says what to type.
func TestAScriptSaysAll(t *testing.T) {
	const typeThis = "polycubectl: br1 ports is a list: append <name> to delete one entry, or --all to delete every entry\n" +
		"Usage: polycubectl br1 del ports --all\n"
	pipe := func() *os.File { return fileInput(t, "y\n") }
	for _, tt := range []struct {
		line  string
		stdin func() *os.File
		want  result
		sent  []string
	}{
		{"br1 del ports", nil, result{ExitUsage, "", typeThis}, []string{first}},
		{"br1 del ports", pipe, result{ExitUsage, "", typeThis}, []string{first}},
		{"br1 ports del --all", nil, result{}, []string{second}},
		{"del --all br1 ports", nil, result{}, []string{second}},
		{"br1 ports del p1", nil, result{}, []string{"DELETE /polycube/v1/br1/ports/p1/"}},
		{"br1 ports del p1 --all", nil, result{ExitServer, "", "it is not a list\n"}, []string{"DELETE /polycube/v1/br1/ports/p1/?all"}},
		{"br1 ports show --all", nil, result{ExitUsage, "", "polycubectl: \"--all\" is accepted only after the verb del\nTry \"polycubectl -h\", or \"?\" as the last word.\n"}, nil},
		{"services del --all x", nil, result{ExitUsage, "", "polycubectl: --all is accepted only on lists of a cube, not on services\nTry \"polycubectl -h\", or \"?\" as the last word.\n"}, nil},
	} {
		d := withLists(t, asking)
		var stdin *os.File
		if tt.stdin != nil {
			stdin = tt.stdin()
		}
		if got := runWith(d.getenv, stdin, words(tt.line)...); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.line, got, tt.want)
		}
		if sent := targets(d); !slices.Equal(sent, tt.sent) {
			t.Errorf("%s: sends %q, want %q", tt.line, sent, tt.sent)
		}
	}
}

// TestAPersonIsAskedWhetherAListIsMeant: on a terminal, whatever the output is.
func TestAPersonIsAskedWhetherAListIsMeant(t *testing.T) {
	const question = "  p1, wired to veth1\n  p2\\x1b[2J\nDelete all 2 entries of br1 ports? [y/N] "
	empty := strings.Replace(asking, `,"question":"Delete all 2 entries of br1 ports?"`, "", 1)
	confirmed := []string{first, second + ` "r7"`}
	for _, tt := range []struct {
		name, line, reply, body string
		want                    result
		sent                    []string
	}{
		{"yes", "br1 ports del", "y\n", asking, result{ExitOK, "", question}, confirmed},
		{"a longer yes", "br1 ports del", " YES \n", asking, result{ExitOK, "", question}, confirmed},
		{"no", "br1 ports del", "n\n", asking, result{ExitDeclined, "", question + "polycubectl: nothing was deleted\n"}, []string{first}},
		{"nothing", "br1 ports del", "\n", asking, result{ExitDeclined, "", question + "polycubectl: nothing was deleted\n"}, []string{first}},
		{"something else", "br1 ports del", "yea\n", asking, result{ExitDeclined, "", question + "polycubectl: nothing was deleted\n"}, []string{first}},
		{"the end of the input", "br1 ports del", "\x04", asking, result{ExitDeclined, "", question + "polycubectl: nothing was deleted\n"}, []string{first}},
		{"not asked", "br1 ports del --all", "n\n", asking, result{}, []string{second}},
		{"one entry", "br1 ports del p1", "n\n", asking, result{}, []string{"DELETE /polycube/v1/br1/ports/p1/"}},
		{"an empty list", "br1 ports del", "y\n", empty, result{ExitOK, "", "Nothing to delete.\n"}, []string{first}},
	} {
		d := withLists(t, tt.body)
		master, end := openTerminal(t)
		if _, err := master.WriteString(tt.reply); err != nil {
			t.Fatal(err)
		}
		if got := runWith(d.getenv, end, words(tt.line)...); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
		if sent := targets(d); !slices.Equal(sent, tt.sent) {
			t.Errorf("%s: sends %q, want %q", tt.name, sent, tt.sent)
		}
	}
}

// TestAReplyThatIsTooLate deletes nothing: the cube is not what the question was about.
func TestAReplyThatIsTooLate(t *testing.T) {
	tag := 0
	d := newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"before"`)
		tag++
		if r.Header.Get("If-Match") == `"before"` && tag > 1 {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, asking)
	})
	master, end := openTerminal(t)
	if _, err := master.WriteString("y\n"); err != nil {
		t.Fatal(err)
	}
	got := runWith(d.getenv, end, "br1", "ports", "del")
	if got.code != ExitServer || !strings.HasSuffix(got.err, "nothing was deleted: the cube changed before you answered; check it again\n") {
		t.Errorf("%+v", got)
	}
}
