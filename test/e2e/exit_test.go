// SPDX-License-Identifier: Apache-2.0

// Scripts check exit codes, each of which has one meaning.

package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	for _, c := range []struct {
		line           string
		code           int
		stdout, stderr string // parts of the output; "" means no output
	}{
		{"simplebridge add br1", 0, "", ""},
		{"br1 ports add p1 peer=veth1", 0, "", ""},
		{"br1 show ports p1 peer", 0, "veth1\n", ""},
		{"simplebridge br1 show ports p1 status", 0, "UP\n", ""},
		{"br1 fdb flush", 0, "flushed: true\n", ""},
		{"br1 set fdb.aging-time=10", 0, "", ""},
		{"br1 show fdb aging-time", 0, "10\n", ""},
		{"version", 0, "polycubectl:", ""},
		{"?", 0, "simplebridge", ""},
		{"simplebridge add br1", 2, "", "br1"},
		{"nosuch show", 2, "", "nosuch"},
		{"br1 ports add p2 peer=nosuch", 2, "", "nosuch"},
		{"br1 set loglevel=LOUD", 2, "", "LOUD"},
		{"del br9", 2, "", "br9"},
		{"br1 show -nosuch", 64, "", "-nosuch"},
		{"br1 add del", 64, "", "polycubectl"},
		{"br1 set a=b=c", 64, "", "a=b=c"},
		{"br1 set a=1 a=2", 64, "", "a"},
		{"br1 set a=1 word", 64, "", "word"},
		{"connect br1:p1", 64, "", "connect"},
		{"attach th1 br1:p1 position=first before=th2", 64, "", "attach"},
		{"del br1", 0, "", ""},
	} {
		r := d.CLI(strings.Fields(c.line)...)
		if r.code != c.code || !says(r.stdout, c.stdout) || !says(r.stderr, c.stderr) {
			t.Errorf("want exit %d, stdout with %q, stderr with %q: %s", c.code, c.stdout, c.stderr, r)
		}
	}
	d.Stop()
	if r := d.CLI("cubes", "show"); r.code != 1 || !strings.Contains(r.stdout+r.stderr, d.socket()) {
		t.Errorf("without a daemon, want exit 1 and the place that was asked: %s", r)
	}
}

func says(text, part string) bool {
	if part == "" {
		return text == ""
	}
	return strings.Contains(text, part)
}

// TestEachExitStatusIsReached: each exit status of the guide, and no other.
func TestEachExitStatusIsReached(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("veth1", "")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	file := filepath.Join(d.dir, "site.yaml")
	if err := os.WriteFile(file, []byte("cubes: [{name: br2, service-name: simplebridge}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	reached := map[int]bool{}
	expect := func(r result, code int, says string) {
		t.Helper()
		if r.code != code || !strings.Contains(r.stdout+r.stderr, says) {
			t.Errorf("want exit %d and %q: %v", code, says, r)
		}
		reached[code] = true
	}
	expect(d.CLI("status", "--check"), 0, "POLYCUBE OK")
	expect(d.CLI("del", "nobody"), 2, "nobody")
	expect(d.CLI("apply", "-f", file, "--dry-run", "--detailed-exitcode"), 3, "to add")
	expect(d.onTerminal("n\n", "apply", "-f", file), 4, "nothing was changed")
	expect(d.CLI("apply", "-f", file+".missing"), 64, "no such file")
	expect(d.CLI("export", "-o", filepath.Join(d.dir, "missing", "x")), 74, "no such file")
	expect(d.CLI("capture", "br1:p1", "-w", filepath.Join(d.dir, "missing", "x")), 74, "no such file")
	if text, err := d.lab.Command("ip", "link", "set", "veth1", "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	netns.Eventually(t, patience, func() error {
		if r := d.CLI("status", "--check"); r.code == 0 {
			return errors.New(r.String())
		}
		return nil
	})
	expect(d.CLI("status", "--check"), 5, "POLYCUBE WARNING")
	if err := os.RemoveAll(filepath.Join(d.dir, "state")); err != nil {
		t.Fatal(err)
	}
	expect(d.CLI("status", "--check"), 6, "POLYCUBE CRITICAL")
	d.Stop()
	expect(d.CLI("cubes", "show"), 1, d.socket())
	expect(d.CLI("status", "--check"), 1, "POLYCUBE UNKNOWN")

	guide, err := os.ReadFile("../../docs/guide/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "\n## Exit status\n")
	rows := regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(section, -1)
	for _, row := range rows {
		if code, err := strconv.Atoi(row[1]); err != nil || !reached[code] {
			t.Errorf("the guide has the exit status %s, which nothing here ends with", row[1])
		}
	}
	if len(rows) != len(reached) {
		t.Errorf("the guide has %d exit statuses, %d are reached", len(rows), len(reached))
	}
}

// onTerminal runs polycubectl on a terminal.
func (m *machine) onTerminal(typed string, args ...string) result {
	m.t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	defer master.Close()
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		m.t.Fatal(err)
	}
	end, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	defer end.Close()
	if _, err := master.WriteString(typed); err != nil {
		m.t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(m.t.Context(), program(m.t, "polycubectl"), args...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = m.environment(), end, end, &said
	err = cmd.Run()
	if cmd.ProcessState == nil {
		m.t.Fatal(err)
	}
	return result{command: strings.Join(args, " "), code: cmd.ProcessState.ExitCode(), stderr: said.String()}
}
