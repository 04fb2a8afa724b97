// SPDX-License-Identifier: Apache-2.0

// Responses of every kind, and no answer at all: exit status and text.

package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/polycube/polycube/internal/cli/output"
)

func TestAnAnswerThatIsNoSuccessIsExplainedOnStderr(t *testing.T) {
	const restconf = `{"ietf-restconf:errors":{"error":[%s]}}`
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{"a sentence", fmt.Sprintf(restconf, `{"error-type":"application","error-tag":"invalid-value","error-path":"/x","error-message":"loglevel: \"LOUD\" is not a level"}`), 400, "loglevel: \"LOUD\" is not a level\n"},
		{"two sentences", fmt.Sprintf(restconf, `{"error-message":"one"},{"error-message":"two"}`), 400, "one\ntwo\n"},
		{"a tag only", fmt.Sprintf(restconf, `{"error-tag":"data-missing"}`), 404, "data-missing\n"},
		{"tag, info and path", fmt.Sprintf(restconf, `{"error-tag":"missing-attribute","error-info":"uri","error-path":"/services"}`), 400, "missing-attribute: uri (/services)\n"},
		{"info that is an object", fmt.Sprintf(restconf, `{"error-tag":"invalid-value","error-info":{"field":"a"}}`), 400, "invalid-value: {\"field\":\"a\"}\n"},
		{"no error in the list", fmt.Sprintf(restconf, ``), 500, fmt.Sprintf(restconf, ``) + "\n"},
		{"plain text", "cube r9 does not exist\n", 404, "cube r9 does not exist\n"},
		{"text of several lines", "one\ntwo", 500, "one\ntwo\n"},
		{"other JSON", `{"message":"x"}`, 500, "{\"message\":\"x\"}\n"},
		{"no body", "", 404, "HTTP/1.1 404 Not Found\n"},
		{"blank body", " \n", 503, "HTTP/1.1 503 Service Unavailable\n"},
		{"a sentence with more to say", fmt.Sprintf(restconf, `{"error-message":"one","error-detail":["  42 | x\u001b","why"]},{"error-message":"two"}`), 422, "one\n    42 | x\\x1b\n  why\ntwo\n"},
		{"control characters in a sentence", fmt.Sprintf(restconf, `{"error-message":"a\u001b[2Jb\nc"}`), 400, `a\x1b[2Jb\nc` + "\n"},
		{"control characters in text", "a\x1b[2Jb\x07", 400, `a\x1b[2Jb\a` + "\n"},
		{"a redirect of another kind", "", 302, "HTTP/1.1 302 Found\n"},
		{"not modified", "", 304, "HTTP/1.1 304 Not Modified\n"},
	}
	for _, tt := range tests {
		for _, line := range []string{"r1 show -json", "r1 set a=b", "r1 add x", "r1 del", "r1 act", "r1 ?", "?", "connect a b", "version"} {
			t.Run(tt.name+"/"+line, func(t *testing.T) {
				d := newDaemon(t, "unix", reply(tt.status, tt.body))
				r := d.run(words(line)...)
				if r.code != ExitServer || r.err != tt.want || r.out != "" && line != "version" {
					t.Errorf("exit %d, stdout %q, stderr %q; want 2 and %q", r.code, r.out, r.err, tt.want)
				}
			})
		}
	}
}

func TestOnlyShowAndActionsPrintTheAnswer(t *testing.T) {
	tests := []struct{ line, want string }{
		{"r1 show", "a: 1\n"},
		{"r1 act", "a: 1\n"},
		{"connect a b", "a: 1\n"},
		{"r1 add x", ""},
		{"r1 set a=b", ""},
		{"r1 del", ""},
		{"services add type=lib uri=x name=y", ""},
		{"services del y", ""},
	}
	for _, status := range []int{200, 201} {
		for _, tt := range tests {
			d := newDaemon(t, "unix", reply(status, `{"a":1}`))
			if r := d.run(words(tt.line)...); r.code != ExitOK || r.out != tt.want || r.err != "" {
				t.Errorf("%s: exit %d, stdout %q, stderr %q", tt.line, r.code, r.out, r.err)
			}
		}
	}
	d := newDaemon(t, "unix", reply(204, ""))
	for _, tt := range tests {
		if r := d.run(words(tt.line)...); r.code != ExitOK || r.out != "" {
			t.Errorf("%s, 204: exit %d, stdout %q", tt.line, r.code, r.out)
		}
	}
}

// redirecting sends requests for a cube on to its service, as the daemon does.
func redirecting(location func(r *http.Request) string, status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/polycube/v1/router/") {
			_, _ = io.WriteString(w, `"done"`)
			return
		}
		w.Header()["Location"] = []string{location(r)}
		w.WriteHeader(status)
	}
}

func TestARedirectKeepsMethodBodyAndQuery(t *testing.T) {
	escaped := func(r *http.Request) string {
		return "/polycube/v1/router/" + strings.TrimPrefix(r.URL.EscapedPath(), "/polycube/v1/")
	}
	locations := map[string]func(r *http.Request) string{
		"a path":          escaped,
		"a relative path": func(*http.Request) string { return "../../../../router/r1/route/10.0.0.0%2F8/1.1.1.1/" },
		"a whole URL":     func(r *http.Request) string { return "http://" + r.Host + escaped(r) },
		"without scheme":  func(r *http.Request) string { return "//" + r.Host + escaped(r) },
		"with a fragment": func(r *http.Request) string { return escaped(r) + "#x" },
		"with the query":  func(r *http.Request) string { return escaped(r) + "?" + r.URL.RawQuery },
	}
	tests := []struct{ line, want string }{
		{"r1 route add 10.0.0.0/8 1.1.1.1 pathcost=5", `POST %s/r1/route/10.0.0.0%%2F8/1.1.1.1/ {"pathcost":5}`},
		{"r1 route 10.0.0.0/8 1.1.1.1 set pathcost=5 x=y", `PATCH %s/r1/route/10.0.0.0%%2F8/1.1.1.1/ {"pathcost":5,"x":"y"}`},
		{"r1 route del 10.0.0.0/8 1.1.1.1", `DELETE %s/r1/route/10.0.0.0%%2F8/1.1.1.1/ `},
		{"r1 route show 10.0.0.0/8 1.1.1.1", `GET %s/r1/route/10.0.0.0%%2F8/1.1.1.1/ `},
		{"r1 route 10.0.0.0/8 1.1.1.1 set ?", `OPTIONS %s/r1/route/10.0.0.0%%2F8/1.1.1.1/?help=SET `},
	}
	for _, network := range []string{"unix", "tcp"} {
		for name, location := range locations {
			for i, tt := range tests {
				t.Run(fmt.Sprint(network, "/", name, "/", i), func(t *testing.T) {
					d := newDaemon(t, network, redirecting(location, []int{307, 308}[i%2]))
					if r := d.run(words(tt.line)...); r.code != ExitOK {
						t.Fatalf("exit %d, stderr %q", r.code, r.err)
					}
					got := d.requests()
					want := fmt.Sprintf("[%s %s]", fmt.Sprintf(tt.want, "/polycube/v1"), fmt.Sprintf(tt.want, "/polycube/v1/router"))
					if fmt.Sprint(got) != want {
						t.Errorf("sent %s\nwant %s", got, want)
					}
					if got[0].header.Get("Referer") != "" || !strings.HasSuffix(got[1].header.Get("Referer"), got[0].uri) {
						t.Errorf("referers %q and %q", got[0].header.Get("Referer"), got[1].header.Get("Referer"))
					}
				})
			}
		}
	}
}

func TestARedirectIsNotFollowedEverywhere(t *testing.T) {
	tests := []struct {
		name, location, want string
		requests             int
	}{
		{"to another host", "http://example.com/polycube/v1/router/r1/", "another host, example.com", 1},
		{"to another port", "http://localhost:1/polycube/v1/router/r1/", "another host, localhost:1", 1},
		{"to another scheme", "https://localhost/polycube/v1/router/r1/", "another host", 1},
		{"in a circle", "/polycube/v1/r1/", "more than 3 times", 4},
		{"to nowhere", "", "has no valid location", 1},
		{"to no URL", "http://[", "has no valid location", 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", redirecting(func(*http.Request) string { return tt.location }, 308))
			r := d.run(words("r1 add x a=b")...)
			if r.code != ExitServer || !strings.Contains(r.err, tt.want) || len(d.requests()) != tt.requests {
				t.Errorf("exit %d, stderr %q, %d requests", r.code, r.err, len(d.requests()))
			}
		})
	}
}

func TestADaemonThatCannotBeReachedIsNamedWithTheRemedy(t *testing.T) {
	dir, err := os.MkdirTemp("", "pctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	refusing := filepath.Join(dir, "refusing.sock")
	l, err := net.Listen("unix", refusing)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := tcp.Addr().String()
	tcp.Close()
	tests := []struct {
		name string
		env  map[string]string
		args string
		want []string
	}{
		{"no socket", map[string]string{"POLYCUBECTL_SOCKET": dir + "/none.sock"}, "show r1", []string{dir + "/none.sock", "systemctl start polycubed"}},
		{"a refusing socket", map[string]string{"POLYCUBECTL_SOCKET": refusing}, "show r1", []string{refusing, "systemctl start polycubed"}},
		{"no socket of an instance", map[string]string{"POLYCUBECTL_INSTANCE": "pctl-none"}, "show r1", []string{"/run/polycube/pctl-none/polycubed.sock", `polycubed --instance pctl-none`}},
		{"the flag wins over the environment", map[string]string{"POLYCUBECTL_URL": "http://" + closed}, "--instance pctl-none show r1", []string{"/run/polycube/pctl-none/polycubed.sock"}},
		{"the flag in one word", map[string]string{"POLYCUBECTL_SOCKET": refusing}, "--instance=pctl-none r1 ?", []string{"/run/polycube/pctl-none/polycubed.sock"}},
		{"no TCP port", map[string]string{"POLYCUBECTL_URL": "http://" + closed}, "show r1", []string{"http://" + closed + "/polycube/v1/", "check that it is running", "POLYCUBECTL_URL"}},
		{"a socket as URL", map[string]string{"POLYCUBECTL_URL": "unix://" + dir + "/none.sock"}, "show r1", []string{dir + "/none.sock"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := runWith(func(k string) string { return tt.env[k] }, nil, words(tt.args)...)
			if r.code != ExitContact || r.out != "" {
				t.Errorf("exit %d, stdout %q", r.code, r.out)
			}
			for _, want := range tt.want {
				if !strings.Contains(r.err, want) {
					t.Errorf("stderr %q does not say %q", r.err, want)
				}
			}
		})
	}
}

func TestAForbiddenSocketNamesTheGroup(t *testing.T) {
	err := endpoint{socket: "/run/polycube/polycubed.sock"}.explain(&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EACCES)})
	if got := err.Error(); !strings.Contains(got, "group polycube") || !strings.Contains(got, "/run/polycube/polycubed.sock") {
		t.Error(got)
	}
}

func TestAnswersThatDoNotEnd(t *testing.T) {
	hang := func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	drip := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"a":`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}
	for name, handler := range map[string]http.HandlerFunc{"no header": hang, "half a body": drip} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t, "unix", handler)
			d.env["POLYCUBECTL_TIMEOUT"] = "50ms"
			if r := d.run("show", "r1"); r.code != ExitContact || !strings.Contains(r.err, "did not answer in time") || r.out != "" {
				t.Errorf("exit %d, stdout %q, stderr %q", r.code, r.out, r.err)
			}
		})
	}
}

func TestHostileAnswersAreSurvived(t *testing.T) {
	huge := func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte("a"), 1<<20)
		for range maxAnswer>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}
	header := func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) }
	wide := "[" + strings.Repeat(`{"a":1},`, 20) + "{"
	for i := range output.MaxColumns + 1 {
		wide += fmt.Sprintf(`"c%d":%d,`, i, i)
	}
	wide += `"z":0}]`
	tests := []struct {
		name    string
		handler http.HandlerFunc
		code    Exit
		want    string // in stdout or stderr
	}{
		{"too large", huge, ExitContact, "larger than 64 MiB"},
		{"cut short", cut, ExitContact, "cannot connect to"},
		{"a huge header", header, ExitContact, "cannot connect to"},
		{"too deep", reply(200, strings.Repeat("[", 100000)), ExitOK, "[[["},
		{"not JSON", reply(200, "# HELP x\nx 1\n"), ExitOK, "# HELP x\nx 1\n"},
		{"binary", reply(200, "\x00\xff\x1b]0;x\x07"), ExitOK, `\x00\xff\x1b]0;x\a`},
		{"too wide", reply(200, wide), ExitOK, "{\"a\":1}\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", tt.handler)
			r := d.run("show", "r1")
			if all := r.out + r.err; r.code != tt.code || !strings.Contains(all, tt.want) {
				t.Errorf("exit %d, text %.200q, want %d and %q", r.code, all, tt.code, tt.want)
			}
		})
	}
}

func TestATokenTravelsOverTCPOnly(t *testing.T) {
	for _, tt := range []struct{ network, want string }{{"tcp", "Bearer s3cret"}, {"unix", ""}} {
		d := newDaemon(t, tt.network, reply(200, ""))
		d.env["POLYCUBECTL_TOKEN"] = "s3cret"
		d.env["POLYCUBECTL_DEBUG"] = "true"
		r := d.run("r1", "add", "x", "a=b")
		if r.code != ExitOK || d.requests()[0].header.Get("Authorization") != tt.want {
			t.Errorf("%s: exit %d, header %q", tt.network, r.code, d.requests()[0].header.Get("Authorization"))
		}
		if strings.Contains(r.err, "s3cret") || !strings.Contains(r.err, "> POST") || !strings.Contains(r.err, `{"a":"b"}`) || !strings.Contains(r.err, "< HTTP/1.1 200 OK") {
			t.Errorf("%s: debug shows %q", tt.network, r.err)
		}
	}
}

func TestAnAnswerThatCannotBeWrittenIsAnError(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("no device that is always full: %v", err)
	}
	defer full.Close()
	d := newDaemon(t, "unix", reply(200, `{"a":1}`))
	var errs bytes.Buffer
	if code := Run(words("show r1"), nil, full, &errs, d.getenv); code != ExitOutput || !strings.Contains(errs.String(), "write the output") {
		t.Errorf("exit %d, stderr %q", code, errs.String())
	}
}
