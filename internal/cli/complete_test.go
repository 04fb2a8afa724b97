// SPDX-License-Identifier: Apache-2.0

// Completion, in the client and through a real bash.

package cli

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// completing answers completion requests from a table of "path verb".
func completing(t *testing.T) *daemon {
	answers := map[string]string{
		"/ NONE":                          `["bridge","router","connect","r1"]`,
		"/r1/ NONE":                       `["ports","loglevel","add","del","show","set"]`,
		"/router/ NONE":                   `["add","show","del"]`,
		"/r1/ports/ ADD":                  `["<name>"]`,
		"/r1/ports/p1/ ADD":               `["peer=","ip="]`,
		"/r1/ports/p2/ ADD":               `["trunk.allowed=","trunk.native-vlan="]`,
		"/r1/ports/p2/trunk/allowed/ ADD": `["10,20"]`,
		"/r1/ SET":                        `["loglevel=","peer="]`,
		"/r1/loglevel/ SET":               `["trace","debug","info"]`,
		"/r1/peer/ SET":                   `["<peer>"]`,
		"/r1/route/ DEL":                  `["10.0.0.0/8","$(reboot)","a b","\u001b[2J","",{"a":1},["x"],"ü"]`,
		"/r1/route/10.0.0.0%2F8/ DEL":     `["1.1.1.1"]`,
		"/r1/route/ DEL -":                `["--all"]`,
		"/r1/ports/p1/ DEL -":             `[]`,
		"/services/ NONE":                 `["add","show","del"]`,
		"/services/ SHOW":                 `["one","two"]`,
		"/services/ ADD":                  `["type=","uri=","name="]`,
		"/history/ NONE":                  `["show","7","6"]`,
		"/capture/ NONE":                  `["r1:p1","veth1"]`,
		"/cubes/ SHOW":                    `["r1","r2"]`,
		"/r1/ SHOW":                       `["ports","uuid","loglevel"]`,
		"/cubes/ NONE":                    `["add","show","r1"]`,
		"/topology/ NONE":                 `["show"]`,
		"/netdevs/ SHOW":                  `["one","two"]`,
		"/connect/r1:p1/ NONE":            `["r1:p2","veth1"]`,
		"/attach/ NONE":                   `["n1"]`,
		"/attach/n1/r1:p1/ NONE":          `["position=","before=","after="]`,
		"/attach/n1/r1:p1/position/ NONE": `["auto","first","last"]`,
	}
	return newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.EscapedPath(), "/polycube/v1")
		switch {
		case r.Method == "OPTIONS" && r.URL.Query().Has("completion"):
			at := path + " " + r.URL.Query().Get("help")
			if strings.HasPrefix(r.URL.Query().Get("prefix"), "-") {
				at += " -"
			}
			body, ok := answers[at]
			if !ok {
				http.NotFound(w, r)
				return
			}
			reply(200, body)(w, r)
		default:
			http.Error(w, "not a completion: "+r.RequestURI, 400)
		}
	})
}

// everyFirst are the daemon's first words, then the client's own.
const everyFirst = "bridge router connect r1 disconnect attach detach masquerade services cubes topology netdevs drops trace capture " +
	"status events daemon export apply history rollback confirm version completion"

func TestWhatMayFollow(t *testing.T) {
	tests := []struct{ line, want string }{
		{"polycubectl ", everyFirst},
		{"polycubectl r", "router r1 rollback"},
		{"polycubectl r1 ", "ports loglevel add del show set"},
		{"polycubectl r1 s", "show set"},
		{"polycubectl r1 ports add ", "<name>"},
		{"polycubectl r1 add ports ", "<name>"},
		{"polycubectl r1 ports add p", ""},
		{"polycubectl r1 ports add p1 ", "peer= ip="},
		{"polycubectl r1 ports add p1 ip=1 ", "peer="},
		{"polycubectl r1 set log", "loglevel="},
		{"polycubectl r1 set loglevel=", "loglevel=trace loglevel=debug loglevel=info"},
		{"polycubectl r1 set loglevel=d", "loglevel=debug"},
		{"polycubectl r1 set peer=", ""},
		{"polycubectl r1 route del ", `10.0.0.0/8 \$\(reboot\) a\ b ü`},
		{"polycubectl r1 route del 10.0.0.0/8 ", "1.1.1.1"},
		{`polycubectl r1 route del '10.0.0.0/8' `, "1.1.1.1"},
		{`polycubectl r1 route del a\ `, `a\ b`},
		{"polycubectl r1 route del -", "--all"},
		{"polycubectl r1 del route --a", "--all"},
		{"polycubectl r1 ports p1 del -", ""},
		{"polycubectl r1 route del --all ", ""},
		{"polycubectl services del -", ""},
		{"polycubectl show r1 -", "-hide= -limit= -after= -filter= -normal -brief -verbose -json -yaml"},
		{"polycubectl show r1 -json -", "-hide= -limit= -after= -filter="},
		{"polycubectl r1 add -", ""},
		{"polycubectl services ", "add show del"},
		{"polycubectl services show ", "one two"},
		{"polycubectl services add ", "type= uri= name="},
		{"polycubectl services add type=", "type=lib type=grpc"},
		{"polycubectl services add type=lib ", "uri= name="},
		{"polycubectl topology ", "show"},
		{"polycubectl netdevs show t", "two"},
		{"polycubectl cubes ", "add show"},
		{"polycubectl services update ", "one two"},
		{"polycubectl show r1 -hide=", "-hide=ports -hide=uuid -hide=loglevel"},
		{"polycubectl show r1 -hide=uuid,l", "-hide=uuid,loglevel"},
		{"polycubectl -", "--instance --try --help -h"},
		{"polycubectl --try ", ""},
		{"polycubectl --try 60 r1 s", "show set"},
		{"polycubectl --try=60 r1 s", "show set"},
		{"polycubectl confirm ", "no show"},
		{"polycubectl confirm no ", ""},
		{"polycubectl confirm show ", ""},
		{"polycubectl trace ic", "icmp icmp6"},
		{"polycubectl trace icmp -", "--cube --egress --inject -c -json -t"},
		{"polycubectl trace --cube r1 --", "--egress --inject"},
		{"polycubectl trace --cube ", "r1 r2"},
		{"polycubectl trace -c ", ""},
		{"polycubectl trace --inject @testdata/st", "@testdata/status.golden"},
		{"polycubectl trace --inject 00 ", "r1:p1 veth1"},
		{"polycubectl capture ", "r1:p1 veth1"},
		{"polycubectl capture veth1 -w testd", "testdata/"},
		{"polycubectl events ", "r1 r2"},
		{"polycubectl events --type p", "port"},
		{"polycubectl status ", "--check -json"},
		{"polycubectl apply ", "--detailed-exitcode --dry-run --prune --yes -f -json"},
		{"polycubectl apply -f testdata/sta", "testdata/status.golden"},
		{"polycubectl apply -f completion.b", "completion.bash"},
		{"polycubectl apply -f completion.bash --d", "--detailed-exitcode --dry-run"},
		{"polycubectl apply -f nowhere/", ""},
		{"polycubectl history ", "7 6"},
		{"polycubectl rollback ", "7 6"},
		{"polycubectl rollback 7 ", "--detailed-exitcode --dry-run --yes -json"},
		{"polycubectl export -r ", "7 6"},
		{"polycubectl services add type=lib uri=/etc/pass", "uri=/etc/passwd uri=/etc/passwd-"},
		{"polycubectl connect r1:p1 ", "r1:p2 veth1"},
		{"polycubectl connect r1:p1 r1:", "r1:p2"},
		{"polycubectl attach ", "n1"},
		{"polycubectl attach n1 r1:p1 ", "position= before= after="},
		{"polycubectl attach n1 r1:p1 position=", "position=auto position=first position=last"},
		{"polycubectl attach n1 r1:p1 position=first ", ""},
		{"polycubectl version ", ""},
		{"polycubectl completion bash ", ""},
		{"polycubectl completion ", "bash fish zsh"},
		{"polycubectl unknown ", ""},
		{"polycubectl .. ", everyFirst},
		{"polycubectl", ""},
		{"", everyFirst},
	}
	d := completing(t)
	for _, tt := range tests {
		r := d.run(completeCommand, tt.line)
		got := strings.ReplaceAll(strings.TrimSuffix(r.out, "\n"), "\n", " ")
		if r.code != ExitOK || r.err != "" || got != tt.want {
			t.Errorf("%q: exit %d, stderr %q, offers %q, want %q", tt.line, r.code, r.err, got, tt.want)
		}
	}
	if _, err := os.Stat(configPath(d.getenv)); err == nil {
		t.Error("completion created the configuration file")
	}
}

func TestCompletionIsSilentWithoutADaemon(t *testing.T) {
	env := map[string]string{"POLYCUBECTL_SOCKET": "/nonexistent/d.sock"}
	for _, line := range []string{"polycubectl ", "polycubectl r1 ", "polycubectl cubes show ", "polycubectl --instance pctl-none r1 "} {
		r := runWith(func(k string) string { return env[k] }, nil, completeCommand, line)
		if r.code != ExitOK || r.out != "" || r.err != "" {
			t.Errorf("%q: exit %d, stdout %q, stderr %q", line, r.code, r.out, r.err)
		}
	}
}

func TestALineIsSplitAsAShellDoes(t *testing.T) {
	tests := []struct {
		line, current string
		words         []string
	}{
		{"", "", nil},
		{"a b", "b", []string{"a"}},
		{"a b ", "", []string{"a", "b"}},
		{"a  'b c'\td", "d", []string{"a", "b c"}},
		{`a "b \" c" '' x\ y`, "x y", []string{"a", `b " c`, ""}},
		{`a 'b\' c`, "c", []string{"a", `b\`}},
		{"a 'b c", "b c", []string{"a"}},
		{`a \`, "", []string{"a"}},
	}
	for _, tt := range tests {
		words, current := splitLine(tt.line)
		if !slices.Equal(words, tt.words) || current != tt.current {
			t.Errorf("%q: %q and %q, want %q and %q", tt.line, words, current, tt.words, tt.current)
		}
	}
}

// noSleepAtExit is for a child with the race detector, which by default waits a second before the process ends.
const noSleepAtExit = "GORACE=atexit_sleep_ms=0"

func TestBashCompletes(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	d := completing(t)
	dir := t.TempDir()
	// The test binary stands in for the program: see TestMain.
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "polycubectl")); err != nil {
		t.Fatal(err)
	}
	script := runWith(d.getenv, nil, "completion", "bash")
	if script.code != ExitOK {
		t.Fatal(script.err)
	}
	harness := script.out + `
compopt() { echo "compopt $*"; }
COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=(polycubectl)
_polycubectl
printf '[%s]' "${COMPREPLY[@]}"
`
	tests := []struct{ line, want string }{
		{"polycubectl r", "[router][r1][rollback]"},
		{"polycubectl r1 set log", "compopt -o nospace\n[loglevel=]"},
		{"polycubectl r1 set loglevel=", "[trace][debug][info]"},
		{"polycubectl r1 set loglevel=d", "[debug]"},
		{"polycubectl r1 ports add ", "[<name>][]"},
		{"polycubectl attach n1 r1:p1 position=f", "[first]"},
		{"polycubectl connect r1:p1 r1:", "[p2]"},
		{`polycubectl r1 route del \$`, `[\$\(reboot\)]`},
		{"polycubectl nothing ", "[]"},
	}
	for _, tt := range tests {
		cmd := exec.Command(bash, "--norc", "-c", harness, "bash", tt.line)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), actAsProgram + "=1", noSleepAtExit, "GOCOVERDIR=" + t.TempDir()}
		for k, v := range d.env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != tt.want {
			t.Errorf("%q: %q, %v, want %q", tt.line, out, err, tt.want)
		}
	}
}

// TestTheProgramUnderAShell runs the program as users do: redirections, pipes
// and here-strings of a real shell, with its real patience.
func TestTheProgramUnderAShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, script, out string
		want              []string
	}{
		{"a here-string", `p fw chain INGRESS batch rules= <<<"{'rules': [1,]}"; echo $?`, "1\n0\n", []string{`POST /polycube/v1/fw/chain/INGRESS/batch/ {"rules":[1]}`}},
		{"a here-document", "p cubes add <<E\n- name: r1\nE\necho $?", "0\n", []string{`POST /polycube/v1/cubes/ [{"name":"r1"}]`}},
		{"a pipe", `echo 'a: 1' | p r1 add x -; echo $?`, "0\n", []string{`POST /polycube/v1/r1/x/ {"a":1}`}},
		{"/dev/null", `p r1 add x b=2 </dev/null; echo $?`, "0\n", []string{`POST /polycube/v1/r1/x/ {"b":2}`}},
		{"closed descriptors", `p r1 add x b=2 <&-; echo $?`, "0\n", []string{`POST /polycube/v1/r1/x/ {"b":2}`}},
		{"a loop at the end of its list", "while read n; do p r1 del ports $n; done <<<$'p1\\np2'; echo $?", "0\n", []string{`DELETE /polycube/v1/r1/ports/p1/ `, `DELETE /polycube/v1/r1/ports/p2/ `}},
		{"a comparison", `[ "$(p r1 show name)" = 1 ] && echo same`, "same\n", []string{`GET /polycube/v1/r1/name/ `}},
		{"a wrong command", `p r1 add show 2>/dev/null; echo $?`, "64\n", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDaemon(t, "unix", reply(200, "1"))
			cmd := exec.Command(bash, "--norc", "-c", "p() { "+self+" \"$@\"; }\n"+tt.script)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), actAsProgram + "=1", noSleepAtExit, "GOCOVERDIR=" + t.TempDir()}
			for k, v := range d.env {
				cmd.Env = append(cmd.Env, k+"="+v)
			}
			out, err := cmd.CombinedOutput()
			if err != nil || string(out) != tt.out {
				t.Errorf("printed %q, %v, want %q", out, err, tt.out)
			}
			if got := d.requests(); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("sent %v\nwant %v", got, tt.want)
			}
		})
	}
}
