// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/smf"
)

// upfLog is where the unit writes under test.
const upfLog = "/var/log/polycube-upf.out"

// upf starts polycubed with a cube, and polycube-upf, with more lines in its unit.
func (m *machine) upf(lines ...string) {
	m.t.Helper()
	m.run("ip", "link", "set", "lo", "up")
	m.run("systemctl", "start", "polycubed")
	m.run("polycubectl", "upf", "add", "u", "max-sessions=1000", "max-rules=4000")
	m.run("polycubectl", "u", "local-address", "add", "192.0.2.1")
	m.configure("cube: u", "address: 127.0.0.1", "allow: [127.0.0.0/8]", "pool: 10.1.0.0/16", "heartbeat: 1s")
	m.run("sh", "-c", `mkdir -p /run/systemd/system/polycube-upf.service.d && printf '%s\n' "$@" > /run/systemd/system/polycube-upf.service.d/test.conf`, "sh",
		"[Service]", "StandardOutput=append:"+upfLog, "StandardError=append:"+upfLog, strings.Join(lines, "\n"))
	m.run("systemctl", "daemon-reload")
	m.run("systemctl", "start", "polycube-upf")
}

// configure writes the configuration of polycube-upf.
func (m *machine) configure(lines ...string) {
	m.t.Helper()
	m.run("sh", "-c", `printf '%s\n' "$@" > /etc/polycube/polycube-upf.yaml`, "sh", strings.Join(lines, "\n"))
}

// serves waits until polycube-upf does, with so many sessions.
func (m *machine) serves(sessions int) {
	m.t.Helper()
	eventually(m.t, func() (string, bool) {
		text, err := m.try("polycube-upf", "status", "--json")
		log, _ := m.try("cat", upfLog)
		return fmt.Sprintf("%v: %s\n%s", err, text, log), err == nil && strings.Contains(text, fmt.Sprintf(`"Sessions":%d,`, sessions))
	})
}

// smf returns an SMF on the machine.
func (m *machine) smf() *smf.SMF {
	m.t.Helper()
	type result struct {
		smf *smf.SMF
		err error
	}
	made := make(chan result)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		var is result
		f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", m.pid))
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			_ = f.Close() // it was only read
		}
		if is.err = err; err == nil {
			is.smf, is.err = smf.New(netip.MustParseAddrPort("127.0.0.2:8805"), netip.MustParseAddrPort("127.0.0.1:8805"), "127.0.0.2")
		}
		made <- is
	}()
	is := <-made
	if is.err != nil {
		m.t.Fatal(is.err)
	}
	m.t.Cleanup(func() {
		if err := is.smf.Close(); err != nil {
			m.t.Error(err)
		}
	})
	return is.smf
}

// TestUnitOfTheUPF: polycube-upf serves sessions with no more privileges than its unit grants. They survive a crash.
func TestUnitOfTheUPF(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.upf()
	m.serves(0)
	core := m.smf()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	if _, err := core.Associate(ctx); err != nil {
		t.Fatal(err)
	}
	session, err := core.Establish(ctx, 7, smf.Device(netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("192.0.2.10"), 1025)...)
	if err != nil {
		t.Fatal(err)
	}
	const device = "10.1.0.1"
	if is := m.run("polycubectl", "u", "show", "device"); !strings.Contains(is, device) {
		t.Errorf("the devices of the cube are %q", is)
	}
	before := m.run("systemctl", "show", "-P", "MainPID", "polycube-upf")
	m.run("kill", "-9", before)
	m.await("polycube-upf", "active", func(pid string) bool { return pid != before && pid != "0" })
	m.serves(1)
	if _, err := core.Modify(ctx, session, smf.FAR{ID: 2, Action: smf.Drop}.Update()); err != nil {
		t.Error(err)
	}
	m.run("systemctl", "stop", "polycube-upf")
	if is := m.run("polycubectl", "u", "show", "device"); !strings.Contains(is, device) || !strings.Contains(is, "DROP") {
		t.Errorf("without polycube-upf the devices of the cube are %q", is)
	}
	m.run("systemctl", "start", "polycube-upf")
	m.serves(1)
	if _, err := core.Delete(ctx, session); err != nil {
		t.Error(err)
	}
	m.serves(0)
	if log := m.run("cat", upfLog); strings.Contains(log, "level=ERROR") {
		t.Errorf("polycube-upf complains:\n%s", log)
	}
}

// TestUnitOfTheUPFNeedsItsConfiguration: with a wrong one it is not restarted.
func TestUnitOfTheUPFNeedsItsConfiguration(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.run("systemctl", "start", "polycubed")
	m.configure("cube: u", "colour: red")
	m.run("systemctl", "start", "--no-block", "polycube-upf") // without waiting: the program may end before systemd knows that it runs
	m.await("polycube-upf", "failed", func(pid string) bool { return pid == "0" })
	if got := m.run("systemctl", "show", "-P", "ExecMainStatus", "polycube-upf"); got != "64" {
		t.Errorf("exit status %s", got)
	}
}

// TestUnitOfTheUPFIsSound: systemd understands all of the unit, and finds it well protected.
func TestUnitOfTheUPFIsSound(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	unit := filepath.Join(root(t), "deploy", "polycube-upf.service")
	text, _ := command("systemd-analyze", "--no-pager", "verify", "--man=no", unit) // the program is not installed
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.Contains(line, "is not executable") {
			t.Errorf("verify: %s", line)
		}
	}
	if text, err := command("systemd-analyze", "--no-pager", "security", "--offline=true", "--threshold=25", unit); err != nil {
		t.Errorf("more exposed than 2.5: %v\n%s", err, text)
	}
}
