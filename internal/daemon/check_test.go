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
	if o, err := ParseOptions([]string{"check-service", "a.yang", "a.tc.o", "--all"}, &bytes.Buffer{}); err != nil || strings.Join(o.CheckService, " ") != "a.yang a.tc.o" || !o.All {
		t.Errorf("check-service: %+v, %v", o, err)
	}
	if _, err := ParseOptions([]string{"check-service", "a.yang"}, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "needs the files") {
		t.Errorf("check-service without programs: %v", err)
	}
	for _, args := range [][]string{{"--json"}, {"cleanup", "--json"}, {"--all"}, {"check-service", "a.yang", "a.tc.o", "--json"}} {
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

// TestCheckService: the exit status says whether the service would be accepted, and no file is guessed.
func TestCheckService(t *testing.T) {
	const dir = "../../cubes/helloworld/helloworld"
	good := []string{dir + ".yang", dir + ".tc.o", dir + ".xdp.o"}
	forbidden := "../../cube/foreign/testdata/forbidden.tc.o"
	m := check.This()
	m.Capabilities = func() (uint64, error) { return 0, nil } // the kernel is not asked
	for _, tt := range []struct {
		files []string
		want  int
		says  string
	}{
		{good, exitOK, "polycubed may accept the service"},
		{good[:2], exitOK, "TC programs"},
		{[]string{good[0], forbidden}, exitFailed, "polycubed refuses the service"},
		{[]string{"../external/external.go", good[1]}, exitUsage, "external.go: a service has one model"},
		{[]string{good[0], good[0], good[1]}, exitUsage, "a service has one model"},
		{[]string{good[1], good[2]}, exitUsage, "the model NAME.yang and at least one"},
		{[]string{good[0], "none.tc.o"}, exitUsage, "none.tc.o: no such file"},
	} {
		var out bytes.Buffer
		status := checkService(context.Background(), m, Options{CheckService: tt.files}, &out, &out)
		if status != tt.want || !strings.Contains(out.String(), tt.says) {
			t.Errorf("%v: status %d, want %d with %q\n%s", tt.files, status, tt.want, tt.says, &out)
		}
	}
}
