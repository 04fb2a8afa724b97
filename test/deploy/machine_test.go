// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
)

// patience bounds every wait; it is reached only when something is broken.
var patience = pace.Stretch(30 * time.Second)

// soak reports whether the long form of a test was requested.
var soak = os.Getenv("POLYCUBE_SOAK") != ""

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// root is the repository.
func root(t testing.TB) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// makeTarget runs one of the Makefile's targets without building.
func makeTarget(t testing.TB, target string, vars ...string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root(t), "bin", "polycubed")); err != nil {
		t.Skipf("needs bin/polycubed: run make build (%v)", err)
	}
	cmd := exec.Command("make", append([]string{"-C", root(t), "-o", "build", target}, vars...)...)
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %s: %v\n%s", target, err, text)
	}
}

// need skips the test when a program is missing.
func need(t testing.TB, program string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		t.Skipf("needs %s: %v", program, err)
	}
}

// machine is a machine booted with systemd.
type machine struct {
	t   *testing.T
	pid int // of its first process
}

var machines atomic.Int64

// boot installs the built files and boots a machine with them.
func boot(t *testing.T) *machine {
	t.Helper()
	netns.NeedRoot(t)
	const systemd = "/lib/systemd/systemd"
	if _, err := os.Stat(systemd); err != nil {
		t.Skipf("needs %s: %v", systemd, err)
	}
	dest := t.TempDir()
	makeTarget(t, "install", "DESTDIR="+dest, "PREFIX=/usr/local")
	group := newGroup(t)
	cmd := exec.Command("unshare", "--pid", "--mount", "--cgroup", "--ipc", "--fork", "--net", "--uts", "--kill-child", "--mount-proc",
		"bash", "testdata/boot.sh", dest)
	out := &output.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(group.Fd()), Pdeathsig: unix.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // all of it ends with its first process
		_ = cmd.Wait()         // it was killed
		removeGroup(t, group)
		if t.Failed() {
			t.Logf("systemd says:\n%s", out.String())
		}
	})
	m := &machine{t: t}
	netns.Eventually(t, patience, func() error { return m.find(cmd.Process.Pid) })
	netns.Eventually(t, patience, func() error {
		// degraded: units of the machine that runs the test may not work here.
		if state, _ := m.try("systemctl", "is-system-running"); state != "running" && state != "degraded" {
			return fmt.Errorf("systemd is %q: %s", state, out)
		}
		return nil
	})
	m.run("systemd-sysusers")
	return m
}

// newGroup creates a control group for the machine's processes.
func newGroup(t *testing.T) *os.File {
	t.Helper()
	for _, at := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		var st unix.Statfs_t
		if err := unix.Statfs(at, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
			continue
		}
		dir := filepath.Join(at, fmt.Sprintf("pcnt-%d-%d", os.Getpid(), machines.Add(1)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Skipf("needs control groups: %v", err)
		}
		f, err := os.Open(dir)
		if err != nil {
			t.Fatal(errors.Join(err, os.Remove(dir)))
		}
		return f
	}
	t.Skip("needs control groups, version 2")
	return nil
}

// removeGroup removes the group and those that systemd made in it, once their processes are gone.
func removeGroup(t *testing.T, group *os.File) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		var dirs []string
		err := filepath.WalkDir(group.Name(), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		for i := len(dirs) - 1; i >= 0 && err == nil; i-- {
			err = os.Remove(dirs[i])
		}
		return err
	})
	if err := group.Close(); err != nil {
		t.Error(err)
	}
}

// find finds the first process: the child of unshare.
func (m *machine) find(parent int) error {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", parent))
	if err != nil {
		return err
	}
	m.pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
	return err
}

// try runs a command on the machine and returns its output.
func (m *machine) try(words ...string) (string, error) {
	cmd := exec.Command("nsenter", append([]string{"--all", "-t", strconv.Itoa(m.pid), "env", "-i",
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"}, words...)...)
	text, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(text)), err
}

// run is try for commands that must succeed.
func (m *machine) run(words ...string) string {
	m.t.Helper()
	text, err := m.try(words...)
	if err != nil {
		m.t.Fatalf("%s: %v: %s\nthe daemon says:\n%s", strings.Join(words, " "), err, text, m.log())
	}
	return text
}

// log returns the daemon's log.
func (m *machine) log() string {
	text, _ := m.try("cat", "/var/log/polycubed.out")
	return text
}

// hosts creates two hosts, 10.0.0.1 and 10.0.0.2, on v1 and v2.
func (m *machine) hosts() {
	m.t.Helper()
	for _, i := range []string{"1", "2"} {
		m.run("ip", "netns", "add", "h"+i)
		m.run("ip", "link", "add", "v"+i, "type", "veth", "peer", "name", "e0", "netns", "h"+i)
		m.run("ip", "link", "set", "v"+i, "up")
		m.run("ip", "-n", "h"+i, "addr", "add", "10.0.0."+i+"/24", "dev", "e0")
		m.run("ip", "-n", "h"+i, "link", "set", "e0", "up")
	}
}

// ping sends from the first host to the second.
func (m *machine) ping(when string) {
	m.t.Helper()
	netns.Eventually(m.t, patience, func() error {
		if text, err := m.try("ip", "netns", "exec", "h1", "ping", "-c", "1", "-W", "1", "10.0.0.2"); err != nil {
			return fmt.Errorf("%s: %w: %s\nthe daemon says:\n%s", when, err, text, m.log())
		}
		return nil
	})
}

// eventually waits until look succeeds; otherwise it reports the last failure.
func eventually(t testing.TB, look func() (saw string, ok bool)) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		if saw, ok := look(); !ok {
			return errors.New(saw)
		}
		return nil
	})
}

func command(name string, args ...string) (string, error) {
	text, err := exec.Command(name, args...).CombinedOutput()
	return strings.TrimSpace(string(text)), err
}
