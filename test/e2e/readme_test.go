// SPDX-License-Identifier: Apache-2.0

// Examples in documents are executed: the console blocks of every README, and the five-minute tutorial of the first
// one.

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint/readme"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// shell is a user's shell on the machine: in its namespace, with the programs in PATH and its own /run/netns, in which
// the hosts are host1, host2, ... and which ends with the shell.
func (m *machine) shell(script string, hosts ...*netns.Node) *exec.Cmd {
	m.t.Helper()
	var b strings.Builder
	dir := filepath.Join(m.dir, "names")
	fmt.Fprintf(&b, "mkdir -p %[1]s && mount -t tmpfs names %[1]s\n", dir)
	for i, h := range hosts {
		fmt.Fprintf(&b, "touch %[1]s/host%[2]d && mount --bind %[3]s %[1]s/host%[2]d\n", dir, i+1, h.Path())
	}
	// ip netns shares its mounts there with other namespaces, which a private copy must not.
	fmt.Fprintf(&b, "mount --rbind %s /run/netns\n", dir)
	b.WriteString(script)
	cmd := m.lab.Command("unshare", "--mount", "bash", "-c", b.String())
	tools, err := filepath.Abs("../../deploy") // make install puts them where the programs are
	if err != nil {
		m.t.Fatal(err)
	}
	cmd.Env = append(m.environment(), "PATH="+filepath.Dir(program(m.t, "polycubectl"))+":"+tools+":"+os.Getenv("PATH"), "PYTHONDONTWRITEBYTECODE=1")
	// The folder of the examples has the same path as in a clone; files written by a document go elsewhere.
	cmd.Dir = filepath.Join(m.dir, "clone")
	examples, err := filepath.Abs("../../examples")
	if err == nil {
		err = os.MkdirAll(cmd.Dir, 0o755)
	}
	if err == nil {
		err = os.Symlink(examples, filepath.Join(cmd.Dir, "examples"))
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		m.t.Fatal(err)
	}
	return cmd
}

func TestExamplesOfDocumentsDoWhatTheyShow(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../cubes/*/README.md")
	if err != nil || len(documents) == 0 {
		t.Fatalf("no README of a cube: %v", err)
	}
	documents = append(documents, "../../README.md", "../../examples/README.md")
	guides, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil {
		t.Fatal(err)
	}
	// Documents for authors are tested on another machine: package guide does. TestTheGuideToSecureIt starts its
	// own daemon.
	guides = slices.DeleteFunc(guides, func(path string) bool {
		return slices.Contains([]string{"write-a-cube.md", "write-a-service.md", "hybrid-functions.md", "secure.md"}, filepath.Base(path))
	})
	for _, path := range append(documents, guides...) {
		t.Run(strings.TrimPrefix(path, "../../"), func(t *testing.T) {
			t.Parallel()
			f, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			examples, err := readme.Parse(f)
			if err != nil {
				t.Fatal(err)
			}
			if len(examples) == 0 {
				t.Skip("no console block")
			}
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.execute(examples, "", hosts[:]...)
			d.Alive()
		})
	}
}

// execute runs examples in a user's shell, after a preparation, and compares their output.
func (d *daemon) execute(examples []readme.Example, before string, hosts ...*netns.Node) {
	d.t.Helper()
	paths := strings.NewReplacer("/run/polycube/", filepath.Join(d.dir, "run")+"/", "/run/polycube-upf/", filepath.Join(d.dir, "upf")+"/",
		"/run/polycube-ndpi/", filepath.Join(d.dir, "ndpi")+"/",
		"/var/lib/polycube-upf", filepath.Join(d.dir, "upf", "state"), "/sys/fs/bpf/polycube", d.pins)
	for _, e := range examples {
		// One stream, as on a terminal: errors are on the other one.
		out := &output.Buffer{}
		cmd := d.shell("exec 2>&1\n"+before+paths.Replace(e.Command), hosts...)
		cmd.Stdout, cmd.Stderr = out, out
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != e.Exit {
			d.t.Errorf("line %d: %s: exit %d (%v), the document says %d:\n%s", e.Line, e.Command, got, err, e.Exit, out)
		}
		if err := e.Match(out.String()); err != nil {
			d.t.Error(err)
		}
	}
}

var shBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestFirstFiveMinutes runs the commands of the README's tutorial, except for building and starting.
func TestFirstFiveMinutes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## Five minutes to a forwarded packet\n")
	section, _, end := strings.Cut(section, "\n## ")
	if !ok || !end {
		t.Fatal("the README has no five minutes")
	}
	var script strings.Builder
	for _, block := range shBlock.FindAllStringSubmatch(section, -1) {
		for line := range strings.Lines(block[1]) {
			command, comment, _ := strings.Cut(strings.TrimRight(line, "\n"), "#")
			command = strings.TrimRight(command, " ")
			switch {
			case command == "make build", command == "polycubed", strings.HasPrefix(command, "export PATH="):
				continue
			case strings.Contains(comment, "no answer"):
				command = "! " + command + " -W 1"
			}
			script.WriteString(command + "\n")
		}
	}
	if n := strings.Count(script.String(), "ping"); n < 2 {
		t.Fatalf("%d pings in\n%s", n, &script)
	}
	d := start(t)
	cmd := d.shell("set -e\ntrap 'echo failed: \"$BASH_COMMAND\"' ERR\n" + script.String())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, part := range []string{"3 packets transmitted, 3 received, 0% packet loss", "entry:", "3 packets transmitted, 0 received, 100% packet loss",
		"simplebridge", "br1:p1"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("%q is not in the output:\n%s", part, out)
		}
	}
	if text := strings.TrimSpace(d.Configuration()); text != "{}" {
		t.Errorf("left at the end: %s", text)
	}
}
