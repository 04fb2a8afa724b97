// SPDX-License-Identifier: Apache-2.0

// The guide that says how to secure the daemon, done word by word: certificates by openssl, a daemon with the
// configuration file that is shown, and clients from both sides of the door.

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint/readme"
)

var confBlock = regexp.MustCompile("(?s)```conf\n(.*?)```")

func TestTheGuideToSecureIt(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"openssl", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: run make deps (%v)", tool, err)
		}
	}
	m := newMachine(t)
	raw, err := os.ReadFile("../../docs/guide/secure.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/run/polycube", filepath.Join(m.dir, "run"), "/etc/polycube", filepath.Join(m.dir, "etc"),
		"/var/lib/polycube", filepath.Join(m.dir, "state")).Replace(string(raw))
	examples, err := readme.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	conf := confBlock.FindStringSubmatchIndex(text)
	if conf == nil || len(examples) < 10 {
		t.Fatalf("the guide has %d examples and configuration %v", len(examples), conf)
	}
	var options []string
	for line := range strings.Lines(text[conf[2]:conf[3]]) {
		option, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		options = append(options, "--"+option, value)
	}
	begin := strings.Count(text[:conf[0]], "\n")
	certificates := func(e readme.Example) bool {
		return e.Line < begin && !strings.Contains(e.Command, "polycubectl") && !strings.Contains(e.Command, "curl")
	}
	m.do(t, examples, certificates)
	d := m.Start(options...)
	m.do(t, examples, func(e readme.Example) bool { return !certificates(e) })
	d.Alive()
}

// do runs those examples of a document that are wanted.
func (m *machine) do(t *testing.T, examples []readme.Example, wanted func(readme.Example) bool) {
	t.Helper()
	for _, e := range examples {
		if !wanted(e) {
			continue
		}
		var out bytes.Buffer
		cmd := m.shell("exec 2>&1\n" + e.Command)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != e.Exit {
			t.Errorf("line %d: %s: exit %d (%v), the document says %d:\n%s", e.Line, e.Command, got, err, e.Exit, &out)
		}
		if err := e.Match(out.String()); err != nil {
			t.Error(err)
		}
	}
}
