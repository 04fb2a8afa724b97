// SPDX-License-Identifier: Apache-2.0

// A machine with a daemon. Everything of it is private: namespace, instance, directories, bpffs.

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
)

// machine is a lab in which daemons run, one at a time and instance.
type machine struct {
	t   testing.TB
	lab *netns.Lab
	// dir contains run and state directory, pins is in a bpffs of the test's own.
	dir, pins string
	instance  string
	// own makes this test binary the daemon, with the services of the tests.
	own bool
	// bin is a polycubed of another version that runs instead.
	bin string
	// env is the environment of daemons in addition to that of the test.
	env []string
	// version chooses among the versions of the test's services.
	version string
	http    *http.Client
}

// daemon is one run of polycubed.
type daemon struct {
	*machine
	cmd *exec.Cmd
	out *output.Buffer
	// ended is closed when the process has ended, with err how.
	ended chan struct{}
	err   error
	// tookToAnswer is the time from exec to the first answer.
	tookToAnswer time.Duration
}

// newMachine creates a machine without a daemon; it skips if not root or not built.
func newMachine(t testing.TB, opts ...netns.Option) *machine {
	t.Helper()
	netns.NeedRoot(t)
	program(t, "polycubed")
	lab := netns.NewLab(t, opts...)
	return onLab(t, lab, "e2e")
}

// onLab is one more instance on a lab.
func onLab(t testing.TB, lab *netns.Lab, instance string) *machine {
	t.Helper()
	m := &machine{t: t, lab: lab, dir: t.TempDir(), pins: filepath.Join(netns.Bpffs(t), "pins"), instance: instance}
	transport := &http.Transport{DialContext: m.dial, MaxIdleConnsPerHost: 16}
	m.http = &http.Client{Timeout: patience, Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(transport.CloseIdleConnections)
	return m
}

// start creates a machine and runs a daemon on it.
func start(t testing.TB, opts ...netns.Option) *daemon {
	t.Helper()
	return newMachine(t, opts...).Start()
}

func (m *machine) socket() string { return filepath.Join(m.dir, "run", "polycubed.sock") }

// options confine a daemon to its machine.
func (m *machine) options() []string {
	return []string{"--configfile", "/dev/null", "--instance", m.instance, "--run-dir", filepath.Join(m.dir, "run"),
		"--state-dir", filepath.Join(m.dir, "state"), "--bpffs", m.pins}
}

// Polycubed runs the program with the machine's options until it ends.
func (m *machine) Polycubed(args ...string) result {
	m.t.Helper()
	return run(m.t, m.lab.Command(program(m.t, "polycubed"), slices.Concat(m.options(), args)...), "")
}

// Start runs a daemon until it answers, and ends it with the test.
func (m *machine) Start(args ...string) *daemon {
	m.t.Helper()
	d := m.Launch(args...)
	netns.Eventually(m.t, patience, func() error {
		select {
		case <-d.ended:
			m.t.Fatalf("the daemon ended: %v", d.err)
		default:
		}
		if status, _, err := m.Request(http.MethodGet, "/version", ""); err != nil || status != http.StatusOK {
			return fmt.Errorf("status %d, %w", status, err)
		}
		return nil
	})
	return d
}

// Launch runs a daemon and does not wait for it.
func (m *machine) Launch(args ...string) *daemon {
	m.t.Helper()
	d := &daemon{machine: m, out: &output.Buffer{}, ended: make(chan struct{})}
	words := []string{program(m.t, "polycubed")}
	if m.bin != "" {
		words = []string{m.bin}
	}
	if m.own {
		words = []string{asDaemon + "=daemon " + m.version, os.Args[0]}
	}
	words = slices.Concat([]string{"env"}, m.env, words, m.options(), args)
	d.cmd = m.lab.Command(words[0], words[1:]...)
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	if err := d.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	go func() {
		d.err = d.cmd.Wait()
		close(d.ended)
	}()
	m.t.Cleanup(func() {
		_ = d.cmd.Process.Kill() // it may have ended
		<-d.ended
		if m.t.Failed() {
			m.t.Logf("the daemon said:\n%s", tail(d.out.String(), 40))
		}
		m.http.CloseIdleConnections()
	})
	return d
}

// measure runs a daemon like Start and returns how long it took to answer. It polls without a pause.
func (m *machine) measure() *daemon {
	m.t.Helper()
	begin := time.Now()
	d := m.Launch()
	for {
		if status, _, err := m.Request(http.MethodGet, "/version", ""); err == nil && status == http.StatusOK {
			d.tookToAnswer = time.Since(begin)
			return d
		}
		if time.Since(begin) > patience {
			m.t.Fatalf("no answer after %v", patience)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// Pid is the daemon's process: nsenter has become it.
func (d *daemon) Pid() int { return d.cmd.Process.Pid }

// Signal sends a signal and returns how the daemon ended.
func (d *daemon) Signal(s os.Signal) error {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatalf("signal %v: %v", s, err)
	}
	select {
	case <-d.ended:
	case <-time.After(patience):
		d.t.Fatalf("the daemon runs %v after signal %v", patience, s)
	}
	return d.err
}

// Kill9 kills the daemon.
func (d *daemon) Kill9() {
	d.t.Helper()
	if err := d.Signal(syscall.SIGKILL); err == nil {
		d.t.Fatal("a killed daemon ended without an error")
	}
}

// Stop ends the daemon in order.
func (d *daemon) Stop() {
	d.t.Helper()
	if err := d.Signal(syscall.SIGTERM); err != nil {
		d.t.Fatalf("SIGTERM: %v", err)
	}
}

// Alive fails the test when the daemon does not answer any more.
func (d *daemon) Alive() {
	d.t.Helper()
	select {
	case <-d.ended:
		d.t.Fatalf("the daemon ended: %v", d.err)
	default:
	}
	d.Must(http.StatusOK, http.MethodGet, "/version", "")
}

func tail(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
