// SPDX-License-Identifier: Apache-2.0

// Documents, differences and histories against a daemon that answers what a
// test says.

package cli

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const someDifference = `{"revision":7,"changed":true,"dry-run":false,"difference":{"cubes":[` +
	`{"name":"br1","service-name":"bridge","action":"change","changes":[` +
	`{"path":"ports/p1/peer","action":"change","old":"veth1","new":"veth2"},{"path":"fdb/entry/a%2Fb","action":"add","new":{"port":"p1","age":7}},` +
	`{"path":"note","action":"delete","old":"x\u001b[2J"},{"path":"rule","action":"order","old":[["1"],["2"]],"new":[["2"],["1"]]}]},` +
	`{"name":"br2","service-name":"bridge","action":"add"},{"name":"br3","service-name":"bridge","action":"delete"},` +
	`{"name":"br4","service-name":"bridge","action":"replace","reason":"type is fixed at creation"}],` +
	`"netdevs":[{"name":"veth9","old":[],"new":["th1","th2"]}]}}`

const someLines = `~ br1 (bridge)
    ~ ports p1 peer veth1 -> veth2
    + fdb entry a/b {port: p1, age: 7}
    - note "x\u001b[2J"
    ~ rule, in another order: [["1"], ["2"]] -> [["2"], ["1"]]
+ br2 (bridge)
- br3 (bridge)
-/+ br4 (bridge): re-created, because type is fixed at creation; learned state is lost
~ netdev veth9 tcubes: [] -> [th1, th2]

`

func TestCommandsOnFilesAreRequests(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	two := file("two.yaml", "- {name: a, service-name: s}\n---\n# nothing\n---\nname: b\nservice-name: s\nports: [{name: p1}]\n")
	whole := file("whole.json", "{\n\t\"cubes\": [{\"name\":\"c\",\"service-name\":\"s\",\"big\":18446744073709551615}],\n\t\"netdevs\": [{\"name\":\"e0\",\"tcubes\":[\"a\"]}]}")
	cases := []struct {
		line   string
		answer string
		want   string // method, URI and body
		code   Exit
		out    string
	}{
		{"apply -f " + two, someDifference, `PATCH /polycube/v1/config/ {"cubes":[{"name":"a","service-name":"s"},{"name":"b","service-name":"s","ports":[{"name":"p1"}]}]}`, 0,
			someLines + "1 cube added, 1 cube changed, 1 cube re-created, 1 cube deleted, 1 netdev changed; revision 7\n"},
		{"apply --prune -f " + two + " -f " + whole, `{"revision":6,"changed":false,"difference":{}}`,
			`PUT /polycube/v1/config/ {"cubes":[{"name":"a","service-name":"s"},{"name":"b","service-name":"s","ports":[{"name":"p1"}]},{"name":"c","service-name":"s","big":18446744073709551615}],"netdevs":[{"name":"e0","tcubes":["a"]}]}`, 0, "no change, revision 6\n"},
		{"apply --dry-run --detailed-exitcode -f=" + whole, someDifference, "PATCH /polycube/v1/config/?dry-run ", ExitChanged,
			someLines + "1 cube to add, 1 cube to change, 1 cube to re-create, 1 cube to delete, 1 netdev to change; nothing was changed yet, revision 7\n"},
		{"apply --yes --detailed-exitcode -f " + whole, `{"revision":6,"changed":false,"difference":{}}`, "PATCH /polycube/v1/config/ ", 0, "no change, revision 6\n"},
		{"apply -json -f " + whole, `{"revision":6,"changed":false,"difference":{}}`, "PATCH /polycube/v1/config/ ", 0, "{\n  \"revision\": 6,\n  \"changed\": false,\n  \"difference\": {}\n}\n"},
		{"rollback 12 --dry-run", someDifference, `POST /polycube/v1/rollback/?dry-run {"revision":12}`, 0, someLines + "1 cube to add, 1 cube to change, 1 cube to re-create, 1 cube to delete, 1 netdev to change; nothing was changed yet, revision 7\n"},
		{"rollback 12 -y", someDifference, `POST /polycube/v1/rollback/ {"revision":12}`, 0, someLines + "1 cube added, 1 cube changed, 1 cube re-created, 1 cube deleted, 1 netdev changed; revision 7\n"},
		{"export", `{"cubes":[{"name":"a","mtu":1}]}`, "GET /polycube/v1/config/ ", 0, "cubes:\n  - name: a\n    mtu: 1\n"},
		{"export -r 3 -json", `{"cubes":[]}`, "GET /polycube/v1/config/?revision=3 ", 0, "{\n  \"cubes\": []\n}\n"},
		{"history -n 5", `{"revision":9,"oldest":2,"notes":["journal damaged"],"revisions":[` +
			`{"revision":9,"time":"2026-01-02T03:04:05Z","by":[{"who":"root","from":"pid 7","what":"PATCH /polycube/v1/config/"}],"added":["a","b","c","d"],"netdevs":["e0"]},` +
			`{"revision":6,"time":"2026-01-02T03:04:05Z","note":"rollback to revision 2","changed":["a"],"deleted":["z"]}]}`, "GET /polycube/v1/history/?limit=5 ", 0,
			"REVISION  TIME                 WHO        FROM   WHAT\n" +
				"9         " + local("2026-01-02T03:04:05Z") + "  root       pid 7  PATCH /config/ (+a, +b, +c, ... (1 more), netdev e0)\n" +
				"(7 to 8 were not recorded)\n" +
				"6         " + local("2026-01-02T03:04:05Z") + "  polycubed         rollback to revision 2 (~a, -z)\n" +
				"\nThe oldest revision available for rollback is 2.\nWhen the daemon started: journal damaged.\n"},
		{"history 9", `{"revision":9,"time":"2026-01-02T03:04:05Z","by":[{"who":"root"}],"difference":{"netdevs":[{"name":"e0","old":["a"],"new":["b"]}]}}`, "GET /polycube/v1/history/9/ ", 0,
			"revision: 9\ntime: " + local("2026-01-02T03:04:05Z") + "\nwho: root\n\n~ netdev e0 tcubes: [a] -> [b]\n"},
	}
	for _, c := range cases {
		d := newDaemon(t, "unix", reply(http.StatusOK, c.answer))
		got := d.run(strings.Fields(c.line)...)
		if got.code != c.code || got.out != c.out || got.err != "" {
			t.Errorf("%s: exit %d, want %d; stderr %q; prints\n%swant\n%s", c.line, got.code, c.code, got.err, got.out, c.out)
		}
		if seen := d.requests(); len(seen) != 1 || !strings.HasPrefix(seen[0].String(), c.want) {
			t.Errorf("%s: requests %v, want %s", c.line, seen, c.want)
		}
	}
}

func local(text string) string {
	at, _ := time.Parse(time.RFC3339, text)
	return at.Local().Format("2006-01-02 15:04:05")
}

func TestWrongCommandsOnFilesSendNothing(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("cubs: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, "unix", reply(http.StatusOK, `{}`))
	for line, want := range map[string]string{
		"apply":                        "specify a file with -f",
		"apply x.yaml":                 "files are given with -f: -f x.yaml",
		"apply -f":                     "-f needs a value",
		"apply -f /nonexistent.yaml":   "no such file",
		"apply -f " + bad:              `bad.yaml: unknown key "cubs", the keys are cubes and netdevs: did you mean cubes?`,
		"apply -f " + bad + " --quiet": `unknown flag "--quiet"`,
		"apply -f -":                   "no standard input",
		"apply --prune -f /dev/null":   `the files are empty; to apply an empty configuration, write "cubes: []"`,
		"export x":                     `unexpected argument "x"`,
		"export -r x":                  "a revision must be a number",
		"export --prune":               `unknown flag "--prune"`,
		"rollback":                     "specify the revision",
		"rollback -1":                  `unknown flag "-1"`,
		"rollback 1 2":                 `unexpected argument "2"`,
		"history -n many":              `-n must be a number, not "many"`,
	} {
		got := d.run(strings.Fields(line)...)
		if got.code != ExitUsage || !strings.Contains(got.err, want) || got.out != "" {
			t.Errorf("%s: exit %d, stderr %q, stdout %q; want %d and %q", line, got.code, got.err, got.out, ExitUsage, want)
		}
	}
	if seen := d.requests(); len(seen) > 0 {
		t.Errorf("requests were sent: %v", seen)
	}
	if got := d.run("apply", "?"); got.code != ExitOK || !strings.HasPrefix(got.out, "Usage: polycubectl apply -f FILE") {
		t.Errorf("apply ?: %+v", got)
	}
}

func TestComplaintsNameFileAndLine(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.yaml")
	if err := os.WriteFile(path, []byte("# first\ncubes:\n- name: a\n  service-name: s\n\n- name: b\n  service-name: s\nnetdevs:\n  - name: e0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, "unix", reply(http.StatusBadRequest, `{"ietf-restconf:errors":{"error":[`+
		`{"error-info":"cubes[1] b","error-message":"cubes[1] b: no"},{"error-info":"netdevs[0] e0","error-message":"gone","error-detail":["since today"]},{"error-info":"cubes[9] z","error-message":"other"},{"error-message":"plain"}]}}`))
	got := d.run("apply", "-f", path)
	want := path + ":6: cubes[1] b: no\n" + path + ":9: gone\n  since today\nother\nplain\n"
	if got.code != ExitServer || got.err != want || got.out != "" {
		t.Errorf("exit %d, stderr\n%swant\n%s", got.code, got.err, want)
	}
}

func TestAnExportedFileIsWholeOrAsItWas(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.yaml")
	d := newDaemon(t, "unix", reply(http.StatusOK, `{"cubes":[]}`))
	if got := d.run("export", "-o", path); got != (result{}) {
		t.Errorf("%+v", got)
	}
	content, err := os.ReadFile(path)
	if err != nil || string(content) != "cubes: []\n" {
		t.Errorf("the file has %q, %v", content, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	refused := newDaemon(t, "unix", reply(http.StatusNotFound, `{}`))
	if got := refused.run("export", "-r", "9", "-o", path); got.code != ExitServer {
		t.Errorf("%+v", got)
	}
	if got := d.run("export", "-o", filepath.Join(path, "x")); got.code != ExitOutput {
		t.Errorf("%+v", got)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if again, _ := os.ReadFile(path); err != nil || len(entries) != 1 || !bytes.Equal(again, content) {
		t.Errorf("%d files, %v, %q", len(entries), err, again)
	}
}

// A person sees the difference first, and what was seen is what is made.
func TestAPersonIsAsked(t *testing.T) {
	for _, c := range []struct {
		reply, asked string
		code         Exit
		requests     []string
	}{
		{"y\n", "Make these changes? [y/N]", ExitOK, []string{"POST /polycube/v1/rollback/?dry-run", "POST /polycube/v1/rollback/"}},
		{"\n", "nothing was changed", ExitDeclined, []string{"POST /polycube/v1/rollback/?dry-run"}},
	} {
		d := newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.RawQuery == "" && r.Header.Get("If-Match") != `"7"` {
				w.WriteHeader(http.StatusPreconditionFailed)
			}
			_, _ = io.WriteString(w, someDifference)
		})
		master, end := openTerminal(t)
		cmd := exec.Command(os.Args[0], "rollback", "3")
		cmd.Stdin, cmd.Stdout = end, end
		var errs bytes.Buffer
		cmd.Stderr = &errs
		cmd.Env = append(os.Environ(), actAsProgram+"=1", "TERM=xterm", "NO_COLOR=")
		for k, v := range d.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		if _, err := master.WriteString(c.reply); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		if code := Exit(cmd.ProcessState.ExitCode()); code != c.code {
			t.Errorf("%q: exit %d (%v), want %d", c.reply, code, err, c.code)
		}
		shown := make([]byte, 4096)
		n, _ := master.Read(shown)
		if out := string(shown[:n]) + errs.String(); !strings.Contains(out, c.asked) {
			t.Errorf("%q: shows %q, want %q", c.reply, out, c.asked)
		}
		var requests []string
		for _, r := range d.requests() {
			requests = append(requests, r.method+" "+r.uri)
		}
		if fmt.Sprint(requests) != fmt.Sprint(c.requests) {
			t.Errorf("%q: requests %v, want %v", c.reply, requests, c.requests)
		}
	}
}
