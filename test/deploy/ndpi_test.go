// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnitOfTheClassifier: polycube-ndpi classifies with no more privileges than its unit grants, and comes back after a crash.
func TestUnitOfTheClassifier(t *testing.T) {
	t.Parallel()
	m := boot(t)
	m.run("ip", "link", "set", "lo", "up")
	m.run("systemctl", "start", "polycubed")
	m.run("polycubectl", "edpi", "add", "dpi1")
	m.run("polycubectl", "attach", "dpi1", "lo")
	m.run("sh", "-c", `printf '%s\n' "cube: dpi1" "log: /var/log/polycube-ndpi/eve.json" > /etc/polycube/polycube-ndpi.yaml`)
	m.run("systemctl", "start", "polycube-ndpi")
	classifies := func() {
		t.Helper()
		eventually(t, func() (string, bool) {
			text, err := m.try("polycube-ndpi", "status")
			is, _ := m.try("polycubectl", "dpi1", "classifier", "show", "status")
			journal, _ := m.try("systemctl", "status", "polycube-ndpi")
			return fmt.Sprintf("%v: %s\n%s\n%s", err, text, is, journal), err == nil && strings.Contains(is, "UP")
		})
	}
	classifies()
	before := m.run("systemctl", "show", "-P", "MainPID", "polycube-ndpi")
	m.run("kill", "-9", before)
	m.await("polycube-ndpi", "active", func(pid string) bool { return pid != before && pid != "0" })
	classifies()
	m.run("systemctl", "reload", "polycube-ndpi")
	m.run("test", "-f", "/var/log/polycube-ndpi/eve.json")
	m.run("systemctl", "stop", "polycube-ndpi")
	if got := m.run("systemctl", "show", "-P", "ExecMainStatus", "polycube-ndpi"); got != "0" {
		t.Errorf("exit status %s", got)
	}
}

// TestUnitOfTheClassifierIsSound: systemd understands all of the unit.
func TestUnitOfTheClassifierIsSound(t *testing.T) {
	t.Parallel()
	need(t, "systemd-analyze")
	text, _ := command("systemd-analyze", "--no-pager", "verify", "--man=no", filepath.Join(root(t), "deploy", "polycube-ndpi.service")) // the program is not installed
	for _, line := range strings.Split(text, "\n") {
		if line != "" && !strings.Contains(line, "is not executable") {
			t.Errorf("verify: %s", line)
		}
	}
}
