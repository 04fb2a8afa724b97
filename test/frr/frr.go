// SPDX-License-Identifier: Apache-2.0

// Package frr runs routing daemons of FRR for a test.
package frr

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// programs is where distributions install the daemons.
const programs = "/usr/lib/frr"

// Router is one router's daemons, which end with the test.
type Router struct {
	t   testing.TB
	dir string
	in  func(name string, args ...string) *exec.Cmd
}

// Need skips a test where FRR is not installed.
func Need(t testing.TB) {
	t.Helper()
	netns.NeedRoot(t)
	if _, err := os.Stat(filepath.Join(programs, "zebra")); err != nil {
		t.Skipf("FRR is not installed: apt-get install frr: %v", err)
	}
}

// Start starts zebra, and ospfd and bgpd if they have a configuration. in makes commands in the router's namespace.
func Start(t testing.TB, in func(name string, args ...string) *exec.Cmd, confs map[string]string) *Router {
	t.Helper()
	dir, err := os.MkdirTemp("", "frr") // other users cannot enter t.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	r := &Router{t, dir, in}
	r.own(dir)
	r.start("zebra", "hostname test\n")
	netns.Eventually(t, bpftest.Patience, func() error { // the others require it
		_, err := os.Stat(filepath.Join(dir, "zserv.api"))
		return err
	})
	if conf, ok := confs["ospfd"]; ok {
		r.start("ospfd", conf)
	}
	if conf, ok := confs["bgpd"]; ok {
		r.start("bgpd", conf, "-p", "179")
	}
	return r
}

// own gives a file to the user that the daemons run as.
func (r *Router) own(name string) {
	r.t.Helper()
	u, err := user.Lookup("frr")
	if err != nil {
		r.t.Fatal(err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err == nil {
		err = os.Chown(name, uid, -1)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *Router) start(daemon, conf string, more ...string) {
	r.t.Helper()
	file := filepath.Join(r.dir, daemon+".conf")
	if err := os.WriteFile(file, []byte(conf), 0o644); err != nil { // another user reads it
		r.t.Fatal(err)
	}
	r.own(file)
	out, err := os.Create(filepath.Join(r.dir, daemon+".log"))
	if err != nil {
		r.t.Fatal(err)
	}
	args := append([]string{"-f", file, "-i", filepath.Join(r.dir, daemon+".pid"), "-z", filepath.Join(r.dir, "zserv.api"),
		"--vty_socket", r.dir, "-A", "127.0.0.1", "-P", "0", "--log", "stdout"}, more...)
	cmd := r.in(filepath.Join(programs, daemon), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // by the signal
		_ = out.Close()
		if r.t.Failed() {
			log, _ := os.ReadFile(out.Name())
			r.t.Logf("%s:\n%s", daemon, log)
		}
	})
}

// Eventually waits until the output of a daemon's command contains a text at least so many times, or not at all for 0, and
// returns how long that took.
func (r *Router) Eventually(daemon, command, text string, times int) time.Duration {
	r.t.Helper()
	start := time.Now()
	netns.Eventually(r.t, pace.Stretch(time.Minute), func() error {
		out, _ := exec.Command("vtysh", "--vty_socket", r.dir, "-d", daemon, "-c", command).CombinedOutput()
		if n := strings.Count(string(out), text); n < times || n > 0 && times == 0 {
			return fmt.Errorf("%s: %s\nwant %d times %s", command, out, times, text)
		}
		return nil
	})
	return time.Since(start)
}
