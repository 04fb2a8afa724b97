// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// TestBackground: with -d the first process ends with 0 when the daemon serves, and the daemon lives on in a session of its
// own. Started again, it says who runs already; told a wrong option, it ends as in the foreground.
func TestBackground(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	log := m.dir + "/log"
	cmd, out := m.command("-d", "--logfile", log)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := regexp.MustCompile(`^polycubed ready \(pid (\d+)\)\n$`).FindStringSubmatch(out.String())
	if found == nil {
		t.Fatalf("it says %q", out)
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // it has ended when the test passes
	m.must(200, "GET", "/cubes/", "")
	if text, err := os.ReadFile(m.dir + "/run/polycubed.pid"); err != nil || strings.TrimSpace(string(text)) != found[1] {
		t.Errorf("the pid file holds %q, %v", text, err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:])); err != nil || fields[3] != found[1] {
		t.Errorf("it is not in a session of its own: %s, %v", stat, err)
	}
	for fd, want := range map[int]string{0: "/dev/null", 1: "/dev/null", 2: "/dev/null"} {
		if to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || to != want {
			t.Errorf("its descriptor %d is %s, %v", fd, to, err)
		}
	}
	if to, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err != nil || to != "/" {
		t.Errorf("its directory is %s, %v", to, err)
	}

	for _, again := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"-d"}, 1, "polycubed instance test is already running (pid " + found[1] + ")"},
		{[]string{"--daemon", "--loglevel=loud"}, 64, "loud"},
		{[]string{"--daemon=false"}, 1, "already running"},
	} {
		cmd, out := m.command(append(again.args, "--logfile", log)...)
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != again.status || !strings.Contains(out.String(), again.says) {
			t.Errorf("%v: %v, %q", again.args, err, out)
		}
	}

	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	netns.Eventually(t, patience, func() error {
		if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) && !zombie(pid) {
			return fmt.Errorf("process %d still runs", pid)
		}
		return nil
	})
	text, err := os.ReadFile(log)
	if err != nil || !strings.Contains(string(text), "polycubed ready") || !strings.Contains(string(text), "stopping") {
		t.Errorf("the log: %q, %v", text, err)
	}
	m.cleanup()
}

// zombie reports whether a process has ended and nobody has waited for it: in a container that may be nobody's work.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

// TestBackgroundFails: a daemon that cannot start says why, by the process that was waited for, and leaves nothing.
func TestBackgroundFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	cmd, out := m.command("-d", "--logfile", m.dir+"/log", "--bpffs", m.dir)
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(out.String(), "is not in a BPF file system") {
		t.Errorf("%v: %q", err, out)
	}
	if _, err := os.Stat(m.dir + "/run/polycubed.pid"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the pid file is left: %v", err)
	}
}

func (m *machine) cleanup() {
	m.t.Helper()
	cmd, out := m.command("cleanup")
	if err := cmd.Run(); err != nil {
		m.t.Errorf("cleanup: %v: %s", err, out)
	}
}

// TestKillDuringBoot: killed at any moment of a start that restores cubes, the daemon leaves what the next one starts from:
// all cubes, and traffic that flows.
func TestKillDuringBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	h1 := m.lab.Host("h1", "10.0.0.1/24")
	m.lab.Host("h2", "10.0.0.2/24")
	daemon, _ := m.start()
	m.must(201, "POST", "/simplebridge/br1", `{"ports":[{"name":"p1","peer":"h1"},{"name":"p2","peer":"h2"}]}`)
	for i := range 5 {
		m.must(201, "POST", fmt.Sprintf("/simplebridge/more%d", i), `{"ports":[{"name":"p1"}]}`)
	}
	stop(t, daemon, syscall.SIGKILL)
	for i, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM, syscall.SIGINT} {
		for delay := time.Duration(i) * 7 * time.Millisecond; delay < 250*time.Millisecond; delay += 50 * time.Millisecond {
			cmd, out := m.command()
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-time.After(delay)
			stop(t, cmd, sig)
			if strings.Contains(out.String(), "[error]") || strings.Contains(out.String(), "panic") {
				t.Errorf("%v after %v: %s", sig, delay, out)
			}
			if err := h1.Ping("10.0.0.2"); err != nil {
				t.Fatalf("after %v after %v: %v\n%s", sig, delay, err, out)
			}
		}
	}
	daemon, out := m.start()
	if cubes := m.must(200, "GET", "/simplebridge", ""); strings.Count(cubes, `"service-name"`) != 6 || strings.Count(cubes, `"status":"UP"`) != 2 {
		t.Errorf("cubes are %s\n%s", cubes, out)
	}
	if err := h1.Ping("10.0.0.2"); err != nil {
		t.Error(err)
	}
	stop(t, daemon, syscall.SIGTERM)
	m.cleanup()
}

// stop sends a signal and waits for the end, whatever it is.
func stop(t *testing.T, cmd *exec.Cmd, sig syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was told to end
}
