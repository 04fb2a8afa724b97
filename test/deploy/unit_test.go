// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"path/filepath"
	"strings"
	"testing"
)

// smoke tests what a daemon under the unit must be able to do: cubes at both hooks, a namespace visible on the machine,
// the slow path, a filter compiled by tcpdump, a reload, and traffic that continues while it is stopped.
func smoke(m *machine) {
	m.t.Helper()
	m.hosts()
	m.run("systemctl", "start", "polycubed")
	m.run("polycubectl", "simplebridge", "add", "br1", "shadow=true")
	m.run("polycubectl", "br1", "ports", "add", "p1", "peer=v1")
	m.run("polycubectl", "br1", "ports", "add", "p2", "peer=v2")
	m.run("polycubectl", "transparenthelloworld", "add", "th1")
	m.run("polycubectl", "attach", "th1", "br1:p1")
	m.ping("through a bridge")
	if names := m.run("ip", "netns", "exec", "pcn-br1", "ip", "-br", "link"); !strings.Contains(names, "p1") {
		m.t.Errorf("the namespace of br1 has the interfaces %q", names)
	}
	m.run("polycubectl", "th1", "set", "ingress-action=SLOWPATH")
	m.ping("through user space")
	m.run("polycubectl", "th1", "set", "ingress-action=PASS")
	m.run("polycubectl", "br1", "set", "span=true")

	m.run("systemctl", "reload", "polycubed")
	m.run("systemctl", "stop", "polycubed")
	m.ping("while the daemon is stopped")
	m.run("systemctl", "start", "polycubed")
	if fdb := m.run("polycubectl", "br1", "fdb", "entry", "show"); !strings.Contains(fdb, "p2") {
		m.t.Errorf("what the bridge learned is lost: %q", fdb)
	}
	m.run("polycubectl", "br1", "del")
	if names := m.run("ip", "netns", "list"); strings.Contains(names, "pcn-br1") {
		m.t.Errorf("the namespace of br1 is left: %q", names)
	}
	m.run("polycubectl", "simplebridge", "add", "br2", "type=XDP_SKB")
	m.run("polycubectl", "br2", "ports", "add", "p1", "peer=v1")
	m.run("polycubectl", "br2", "ports", "add", "p2", "peer=v2")
	m.ping("at XDP")
	if log := m.log(); strings.Contains(log, "[error]") || strings.Contains(log, "[warning]") {
		m.t.Errorf("the daemon complains:\n%s", log)
	}
}

// TestUnit: the daemon works completely with no more privileges than the unit grants.
func TestUnit(t *testing.T) {
	t.Parallel()
	m := boot(t)
	smoke(m)
}

// dropIn adds lines to the unit.
func (m *machine) dropIn(lines ...string) {
	m.t.Helper()
	m.run("sh", "-c", `printf '%s\n' "$@" > /run/systemd/system/polycubed.service.d/test.conf`, "sh", "[Service]", strings.Join(lines, "\n"))
	m.run("systemctl", "daemon-reload")
}

// TestUnitWithoutNamespaces: if no cube has a namespace, the daemon needs none of the privileges that are nearly
// root's. It says which one is missing when a cube requires one, and the cube is not created.
func TestUnitWithoutNamespaces(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.dropIn("CapabilityBoundingSet=~CAP_SYS_ADMIN CAP_SYS_PTRACE CAP_SYS_CHROOT", "RestrictNamespaces=yes")
	m.hosts()
	m.run("systemctl", "start", "polycubed")
	m.run("polycubectl", "simplebridge", "add", "br1")
	m.run("polycubectl", "br1", "ports", "add", "p1", "peer=v1")
	m.run("polycubectl", "br1", "ports", "add", "p2", "peer=v2")
	m.ping("without namespaces")
	if text, err := m.try("polycubectl", "simplebridge", "add", "br2", "shadow=true"); err == nil || !strings.Contains(text, "operation not permitted") {
		t.Errorf("a cube with a namespace: %v, %q", err, text)
	}
	if cubes := m.run("polycubectl", "simplebridge", "show"); strings.Contains(cubes, "br2") {
		t.Errorf("it was made all the same: %s", cubes)
	}
	m.run("systemctl", "restart", "polycubed")
	m.ping("after a restart without namespaces")
}

// TestUnitWritesCaptures: to its own directory, and to others if it may.
func TestUnitWritesCaptures(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.hosts()
	m.run("systemctl", "start", "polycubed")
	m.run("polycubectl", "simplebridge", "add", "br1")
	m.run("polycubectl", "br1", "ports", "add", "p1", "peer=v1")
	m.run("polycubectl", "br1", "ports", "add", "p2", "peer=v2")
	m.run("polycubectl", "packetcapture", "add", "pc1", "capture=BIDIRECTIONAL", "filter=icmp")
	m.run("polycubectl", "attach", "pc1", "br1:p1")
	m.ping("with a capture")
	const written = `for i in $(seq 100); do polycubectl pc1 show dump | grep -q '^capture dump in /var/lib/polycube-captures/capture_' && break; sleep 0.1; done
		tcpdump -n -r "$(polycubectl pc1 show dump | cut -d' ' -f4-)"`
	if out := m.run("sh", "-c", written); !strings.Contains(out, "ICMP echo request") {
		t.Errorf("the file has %q; dump is %s", out, m.run("polycubectl", "pc1", "show", "dump"))
	}
	m.run("polycubectl", "pc1", "set", "dump=/usr/x")
	m.ping("with a capture that fails")
	const refused = `for i in $(seq 100); do polycubectl pc1 file show error | grep 'read-only' && break; sleep 0.1; done`
	if out := m.run("sh", "-c", refused); !strings.Contains(out, "read-only file system") {
		t.Errorf("file/error is %q", out)
	}
}

// TestEachRightIsNeeded: without any one of the unit's capabilities something fails. CAP_SYS_ADMIN includes CAP_BPF and
// CAP_PERFMON, so these count if that is removed; external services need those for running as other users.
func TestEachRightIsNeeded(t *testing.T) {
	if !soak {
		t.Skip("long form: set POLYCUBE_SOAK=1")
	}
	works := func(t *testing.T, without string) bool {
		m := boot(t)
		m.dropIn("Restart=no", "CapabilityBoundingSet=~"+without)
		text, err := m.try("sh", "-c", "systemctl start polycubed && polycubectl simplebridge add br1 shadow=true && ip netns exec pcn-br1 true")
		t.Logf("without %s: %v %s", without, err, text)
		return err == nil
	}
	for _, right := range []string{"CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE", "CAP_SYS_CHROOT", "CAP_CHOWN",
		"CAP_SYS_ADMIN CAP_BPF", "CAP_SYS_ADMIN CAP_PERFMON"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			if works(t, right) {
				t.Error("everything works: the unit gives too much")
			}
		})
	}
	if !works(t, "CAP_SYS_TIME") {
		t.Error("with all rights it does not work: the others say nothing")
	}
}

// TestUnitRestarts: a daemon that was killed is restarted; one with invalid options is not.
func TestUnitRestarts(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.run("systemctl", "start", "polycubed")
	before := m.run("systemctl", "show", "-P", "MainPID", "polycubed")
	m.run("kill", "-9", before)
	m.await("polycubed", "active", func(pid string) bool { return pid != before && pid != "0" })
	m.run("polycubectl", "version")

	m.run("systemctl", "stop", "polycubed")
	m.run("sh", "-c", "echo 'colour: red' > /etc/polycube/polycubed.conf")
	if text, err := m.try("systemctl", "start", "polycubed"); err == nil {
		t.Errorf("it starts with a wrong option: %s", text)
	}
	m.await("polycubed", "failed", func(pid string) bool { return pid == "0" })
	if got := m.run("systemctl", "show", "-P", "ExecMainStatus", "polycubed"); got != "64" {
		t.Errorf("exit status %s", got)
	}
}

// await waits until a unit is in a state, with a main process that ok accepts.
func (m *machine) await(unit, state string, ok func(pid string) bool) {
	m.t.Helper()
	eventually(m.t, func() (string, bool) {
		is, pid := m.run("systemctl", "show", "-P", "ActiveState", unit), m.run("systemctl", "show", "-P", "MainPID", unit)
		return unit + " is " + is + " with process " + pid, is == state && ok(pid)
	})
}

// TestUnitIsSound: systemd understands all of the unit, and finds it well protected. The daemon's work (programs in the
// kernel, namespaces) needs rights that alone make up half of the exposure.
func TestUnitIsSound(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	unit := filepath.Join(root(t), "deploy", "polycubed.service")
	text, _ := command("systemd-analyze", "--no-pager", "verify", "--man=no", unit) // the program is not installed
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.Contains(line, "is not executable") {
			t.Errorf("verify: %s", line)
		}
	}
	if text, err := command("systemd-analyze", "--no-pager", "security", "--offline=true", "--threshold=46", unit); err != nil {
		t.Errorf("more exposed than 4.6: %v\n%s", err, text)
	}
}

// TestUnitStartsServices: the unit's privileges are sufficient to start an external service as its own user, without
// privileges and in its own namespaces. This one only reports its identity.
func TestUnitStartsServices(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.run("systemctl", "start", "polycubed")
	m.run("mkdir", "-p", "/usr/local/lib/polycube")
	m.run("sh", "-c", `printf '%s\n' '#!/bin/sh' 'grep -E "^(Uid|CapEff|NoNewPrivs):" /proc/self/status | tr -s "\t\n" "  " >&2' `+
		`'echo "pid $$" >&2' 'exit 3' > /usr/local/lib/polycube/who && chmod 755 /usr/local/lib/polycube/who`)
	text, err := m.try("polycubectl", "services", "add", "type=lib", "uri=/usr/local/lib/polycube/who", "name=who")
	if err == nil {
		t.Errorf("it was added: %s", text)
	}
	eventually(t, func() (string, bool) {
		log := m.log()
		return "add said " + text + "\n" + log, strings.Contains(log, "CapEff: 0000000000000000") &&
			strings.Contains(log, "NoNewPrivs: 1") && strings.Contains(log, "Uid: 60600 60600 60600 60600")
	})
	if groups := m.run("sh", "-c", "find /sys/fs/cgroup -path '*polycubed.service*' -name cgroup.procs -exec cat {} +"); strings.TrimSpace(groups) == "" {
		t.Error("the daemon is in no control group of the unit")
	}
	m.run("systemctl", "stop", "polycubed")
	if text, err := m.try("pgrep", "-u", "60600"); err == nil {
		t.Errorf("processes of the service outlive the daemon: %s", text)
	}
}
