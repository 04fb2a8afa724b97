// SPDX-License-Identifier: Apache-2.0

// Standard input of every kind: what is read, and above all what is not waited for.

package cli

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/test/pace"
)

func TestABodyOnStandardInputReplacesThePairs(t *testing.T) {
	tests := []struct{ name, line, input, want string }{
		{"add", "router add r1", "loglevel: DEBUG\n", `POST /router/r1/ {"loglevel":"DEBUG"}`},
		{"an action, the empty pair is ignored", "fw chain INGRESS batch rules=", `{"rules":[{"operation":"append"}]}`, `POST /fw/chain/INGRESS/batch/ {"rules":[{"operation":"append"}]}`},
		{"set on the node", "br1 set", "{'a': 1,}", `PATCH /br1/ {"a":1}`},
		{"set with a pair, on the node all the same", "br1 set a=2", "a: 1\nb: 2\n", `PATCH /br1/ {"a":1,"b":2}`},
		{"cubes add", "cubes add", "- name: r1\n  service-name: router\n", `POST /cubes/ [{"name":"r1","service-name":"router"}]`},
		{"cubes add with the word for it", "cubes add -", "[]", `POST /cubes/ []`},
		{"asked for with a dash", "router add r1 -", "{}", `POST /router/r1/ {}`},
		{"nothing in it", "router add r1 loglevel=INFO", "", `POST /router/r1/ {"loglevel":"INFO"}`},
		{"comments only", "br1 fdb flush", "# nothing\n", `POST /br1/fdb/flush/ `},
		{"show does not read it", "show r1", "a: 1", `GET /r1/ `},
		{"del does not read it", "r1 del", "a: 1", `DELETE /r1/ `},
		{"help does not read it", "r1 add ?", "a: 1", `OPTIONS /r1/?help=ADD `},
		{"connect does not read it", "connect r1:p1 veth1", "a: 1", `POST /connect/ {"peer1":"r1:p1","peer2":"veth1"}`},
	}
	for _, kind := range []string{"file", "pipe", "socket"} {
		for _, tt := range tests {
			t.Run(kind+"/"+tt.name, func(t *testing.T) {
				d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
				r := d.runPatiently(longPatience, inputOf(t, kind, tt.input), words(tt.line)...)
				if r.code != ExitOK {
					t.Fatalf("exit %d, stderr %q", r.code, r.err)
				}
				want := "[" + strings.Replace(tt.want, " /", " /polycube/v1/", 1) + "]"
				if got := fmt.Sprint(d.requests()); got != want {
					t.Errorf("sent %s\nwant %s", got, want)
				}
			})
		}
	}
}

// inputOf is standard input of a kind, whose writer has gone after content.
func inputOf(t *testing.T, kind, content string) *os.File {
	t.Helper()
	if kind == "file" {
		return fileInput(t, content)
	}
	r, w := openPair(t, kind)
	if _, err := w.WriteString(content); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return r
}

func openPair(t *testing.T, kind string) (r, w *os.File) {
	t.Helper()
	if kind == "pipe" {
		var err error
		if r, w, err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
	} else {
		fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		r, w = os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer")
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

func TestTimedAnOpenPipeWithoutDataIsNotWaitedFor(t *testing.T) {
	for _, kind := range []string{"pipe", "socket"} {
		for _, line := range []string{"router add r1", "br1 fdb flush", "br1 set a=1", "show r1", "del r1"} {
			t.Run(kind+"/"+line, func(t *testing.T) {
				d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
				silent, _ := openPair(t, kind)
				began := time.Now()
				// The real patience: this is the promise to cron and ssh.
				if r := runWith(d.getenv, silent, words(line)...); r.code != ExitOK {
					t.Fatalf("exit %d, stderr %q", r.code, r.err)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("took %s", took)
				}
			})
		}
	}
}

func TestInputsThatAreNoBodyAreIgnored(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Fatal(err)
	}
	defer zero.Close()
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	closed := fileInput(t, "a: 1")
	closed.Close()
	for _, f := range []*os.File{nil, null, zero, folder, closed} {
		if r := runWith(d.getenv, f, words("router add r1")...); r.code != ExitOK {
			t.Errorf("exit %d, stderr %q", r.code, r.err)
		}
	}
	for _, x := range d.requests() {
		if x.body != "{}" {
			t.Errorf("body %q", x.body)
		}
	}
}

func TestACommandThatNeedsABodyWaitsForASlowWriter(t *testing.T) {
	for _, line := range []string{"cubes add", "br1 set", "router add r1 -", "fw batch rules="} {
		t.Run(line, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
			r, w := openPair(t, "pipe")
			// Writes only once the reader must have found the pipe empty.
			go func() {
				<-time.After(100 * time.Millisecond)
				_, _ = w.WriteString("[1]")
				w.Close()
			}()
			p := patience{offered: time.Millisecond, awaited: pace.Stretch(time.Minute)}
			if got := d.runPatiently(p, r, words(line)...); got.code != ExitOK {
				t.Fatalf("exit %d, stderr %q", got.code, got.err)
			}
			if got := d.requests(); len(got) != 1 || got[0].body != "[1]" {
				t.Errorf("sent %v", got)
			}
		})
	}
}

func TestAWrongInputIsAUsageErrorAndSendsNothing(t *testing.T) {
	brief := patience{offered: time.Millisecond, awaited: time.Millisecond}
	silent := func(t *testing.T) *os.File { r, _ := openPair(t, "pipe"); return r }
	half := func(t *testing.T) *os.File {
		r, w := openPair(t, "pipe")
		_, _ = w.WriteString("a: 1")
		return r
	}
	file := func(content string) func(*testing.T) *os.File {
		return func(t *testing.T) *os.File { return fileInput(t, content) }
	}
	tests := []struct {
		name  string
		line  string
		input func(*testing.T) *os.File
		want  string
	}{
		{"not YAML", "router add r1", file("a: [1"), "neither YAML nor JSON"},
		{"too large a file", "router add r1", file(strings.Repeat("a", output.MaxBody+1)), "larger than 8 MiB"},
		{"larger as JSON than as YAML", "router add r1", file("a: \"" + strings.Repeat(`\a`, output.MaxBody/3) + "\""), "as JSON"},
		{"cubes add of nothing", "cubes add", file(""), "cubes add needs the cubes"},
		{"cubes add of a silent pipe", "cubes add", silent, "cubes add needs the cubes"},
		{"set of a silent pipe", "br1 set", silent, "set needs key=value"},
		{"a dash and nothing", "router add r1 -", file(""), "it is empty"},
		{"half a body", "router add r1", half, "standard input stalled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(http.StatusOK, "{}"))
			r := d.runPatiently(brief, tt.input(t), words(tt.line)...)
			if r.code != ExitUsage || !strings.Contains(r.err, tt.want) {
				t.Errorf("exit %d, stderr %.200q, want 64 and %q", r.code, r.err, tt.want)
			}
			if n := len(d.requests()); n != 0 {
				t.Errorf("%d requests were sent", n)
			}
		})
	}
}

func TestABodyOfTheLargestSizeIsSent(t *testing.T) {
	d := newDaemon(t, "unix", reply(http.StatusOK, ""))
	body := `"` + strings.Repeat("a", output.MaxBody-2) + `"`
	if r := d.runPatiently(longPatience, fileInput(t, body), "x", "add", "y"); r.code != ExitOK {
		t.Fatalf("exit %d, stderr %q", r.code, r.err)
	}
	if got := d.requests(); len(got) != 1 || got[0].body != body {
		t.Error("the body did not arrive whole")
	}
}
