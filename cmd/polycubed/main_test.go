// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
)

// The daemon as a process, with the kernel: a bridge between two hosts lives through the
// daemon's death, its return and its orderly end, and cleanup leaves nothing.

// patience bounds every wait.
var patience = pace.Stretch(20 * time.Second)

// TestMain is the daemon itself when a test starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("POLYCUBED_TEST_RUN") != "" {
		main()
	}
	netns.Interruptible()
	os.Exit(m.Run())
}

// machine is a lab in which daemons run.
type machine struct {
	t         *testing.T
	lab       *netns.Lab
	dir, pins string
}

func newMachine(t *testing.T) *machine {
	netns.NeedRoot(t)
	return &machine{t: t, lab: netns.NewLab(t), dir: t.TempDir(), pins: filepath.Join(netns.Bpffs(t), "pins")}
}

// command is polycubed with paths of its own.
func (m *machine) command(args ...string) (*exec.Cmd, *output.Buffer) {
	args = append([]string{"--configfile", "/dev/null", "--instance", "test", "--run-dir", m.dir + "/run", "--state-dir", m.dir + "/state",
		"--bpffs", m.pins}, args...)
	self, err := os.Executable()
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := m.lab.Command(self, args...)
	cmd.Env = append(os.Environ(), "POLYCUBED_TEST_RUN=1")
	out := &output.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// start runs a daemon until it is ready.
func (m *machine) start() (*exec.Cmd, *output.Buffer) {
	m.t.Helper()
	cmd, out := m.command()
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = cmd.Process.Kill() })
	netns.Eventually(m.t, patience, func() error {
		if !strings.Contains(out.String(), "polycubed ready\n") {
			return fmt.Errorf("not ready: %s", out)
		}
		return nil
	})
	return cmd, out
}

// must sends a request over the daemon's socket.
func (m *machine) must(status int, method, path, body string) string {
	m.t.Helper()
	c := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", m.dir+"/run/polycubed.sock")
		}}}
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://polycubed/polycube/v1"+path, r)
	if err != nil {
		m.t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		m.t.Fatalf("%s %s %s: status %d, %v, want %d: %s", method, path, body, resp.StatusCode, err, status, text)
	}
	return string(text)
}

// TestBridgeOutlivesDaemon: traffic flows while the daemon is dead, and what the bridge
// learned is still there when it comes back.
func TestBridgeOutlivesDaemon(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	h1, h2 := m.lab.Host("h1", "10.0.0.1/24"), m.lab.Host("h2", "10.0.0.2/24")
	ping := func(when string) {
		t.Helper()
		if err := h1.Ping("10.0.0.2"); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	daemon, _ := m.start()
	m.must(201, "POST", "/simplebridge/br1", `{"ports":[{"name":"p1","peer":"h1"},{"name":"p2","peer":"h2"}]}`)
	m.must(201, "POST", "/transparenthelloworld/th1", "")
	m.must(200, "POST", "/attach", `{"cube":"th1","port":"br1:p1"}`)
	ping("a bridge")
	m.must(200, "PATCH", "/transparenthelloworld/th1/ingress-action", `"SLOWPATH"`)
	ping("through user space")
	m.must(200, "PATCH", "/transparenthelloworld/th1/ingress-action", `"PASS"`)
	if stats := m.must(200, "GET", "/cubes/br1/stats", ""); strings.Contains(stats, `"rx-packets":0`) {
		t.Errorf("ports counted nothing: %s", stats)
	}

	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // it was killed
	ping("after kill -9")
	daemon, out := m.start()
	ping("after the restart")
	if fdb := m.must(200, "GET", "/simplebridge/br1/fdb", ""); !strings.Contains(fdb, h2.MAC.String()) {
		t.Errorf("the learned address %s is lost: %s", h2.MAC, fdb)
	}
	if got := m.must(200, "GET", "/transparenthelloworld/th1/parent", ""); got != `"br1:p1"` {
		t.Errorf("the transparent cube is attached to %s", got)
	}

	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("SIGTERM: %v: %s", err, out)
	}
	ping("after SIGTERM")

	cmd, said := m.command("cleanup")
	if err := cmd.Run(); err != nil {
		t.Fatalf("cleanup: %v: %s", err, said)
	}
	if h1.Ping("10.0.0.2", netns.Brief) == nil {
		t.Error("traffic still flows after cleanup")
	}
	if _, err := os.Stat(m.pins); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("pins are left: %v", err)
	}
	if links := m.lab.Run("ip", "-o", "link"); strings.Contains(links, "pcn_") {
		t.Errorf("helper interfaces are left:\n%s", links)
	}
}

// TestSlowPathOfNetdev: a transparent cube on a netdev sends every packet through user
// space, both ways, and the machine's own stack still gets and sends them.
func TestSlowPathOfNetdev(t *testing.T) {
	for _, hook := range []string{"TC", "XDP_SKB", "XDP_DRV"} {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			h1 := m.lab.Host("h1", "10.0.0.1/24")
			m.lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "h1")
			daemon, out := m.start()
			m.must(201, "POST", "/transparenthelloworld/th1", `{"type":"`+hook+`","ingress-action":"SLOWPATH","egress-action":"SLOWPATH"}`)
			m.must(200, "POST", "/attach", `{"cube":"th1","port":"h1"}`)
			if err := h1.Ping("10.0.0.254"); err != nil {
				t.Errorf("%v\n%s\n%s", err, m.must(200, "GET", "/cubes/th1/stats", ""), out)
			}
			if stats := m.must(200, "GET", "/cubes/th1/stats", ""); strings.Contains(stats, `{"name":"slowpath","drop":false,"packets":0}`) {
				t.Errorf("nothing went through user space: %s", stats)
			}
			if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := daemon.Wait(); err != nil {
				t.Errorf("SIGTERM: %v: %s", err, out)
			}
			cmd, said := m.command("cleanup")
			if err := cmd.Run(); err != nil {
				t.Fatalf("cleanup: %v: %s", err, said)
			}
		})
	}
}

// TestSignalDuringBoot: told to stop at any moment of its start, the daemon ends without
// a crash, and the next one starts.
func TestSignalDuringBoot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	for delay := time.Duration(0); delay < 300*time.Millisecond; delay += 30 * time.Millisecond {
		cmd, out := m.command()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-time.After(delay)
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		err := cmd.Wait()
		// Before the first line of main, the signal ends any process; nothing was done then.
		early := cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM && out.String() == ""
		if err != nil && !early {
			t.Errorf("SIGTERM after %v: %v: %s", delay, err, out)
		}
	}
	daemon, out := m.start()
	if err := daemon.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		t.Errorf("SIGINT: %v: %s", err, out)
	}
	cmd, said := m.command("cleanup")
	if err := cmd.Run(); err != nil {
		t.Fatalf("cleanup: %v: %s", err, said)
	}
}
