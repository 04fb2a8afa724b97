// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/check"
	"github.com/polycube/polycube/internal/datapath"
)

// TestCheckWords: netdevs follow the word, and a wrong configuration file does not keep anybody from looking at the machine.
func TestCheckWords(t *testing.T) {
	wrong := writeFile(t, "colour: red\n")
	for _, args := range [][]string{{"check", "eth0", "eth1", "-json"}, {"--json", "check", "eth0", "eth1"}, {"--configfile", wrong, "check", "eth0", "--json", "eth1"}} {
		o, err := ParseOptions(args, &bytes.Buffer{})
		if err != nil || !o.Check || !o.JSON || strings.Join(o.Netdevs, " ") != "eth0 eth1" {
			t.Errorf("%v: %+v, %v", args, o, err)
		}
	}
	if o, err := ParseOptions([]string{"check", "--all"}, &bytes.Buffer{}); err != nil || !o.Check || !o.All {
		t.Errorf("check --all: %+v, %v", o, err)
	}
	for _, args := range [][]string{{"--json"}, {"cleanup", "--json"}, {"--all"}} {
		if _, err := ParseOptions(args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "is accepted only by polycubed check") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// TestCheckMachine: the exit status says whether a daemon runs, with the netdevs asked for.
func TestCheckMachine(t *testing.T) {
	m := check.This()
	if has, err := m.Capabilities(); err != nil || has == 0 {
		t.Skip("needs root: the kernel is asked what it can do")
	}
	for netdevs, want := range map[string]int{"": exitOK, "none0": exitFailed} {
		var out, errs bytes.Buffer
		if status := checkMachine(context.Background(), m, Options{JSON: true, Netdevs: strings.Fields(netdevs)}, &out, &errs); status != want || errs.Len() > 0 {
			t.Errorf("%q: status %d, %s%s", netdevs, status, &out, &errs)
		}
		var report struct {
			Runs     bool
			Findings []check.Finding
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || !report.Runs || len(report.Findings) < 20 {
			t.Errorf("%q: %v: %s", netdevs, err, &out)
		}
	}
	m.Capabilities = func() (uint64, error) { return 0, nil }
	m.Services = func() ([]datapath.Trial, error) { return nil, nil }
	var out, errs bytes.Buffer
	if status := checkMachine(context.Background(), m, Options{}, &out, &errs); status != exitFailed || !strings.Contains(out.String(), "polycubed cannot run here: 1 missing") {
		t.Errorf("without rights: status %d\n%s", status, &out)
	}
}
