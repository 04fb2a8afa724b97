// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestDefaultConfig: the file that is written where there is none changes nothing, and each of its lines is right once the
// comment is taken off.
func TestDefaultConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "polycubed.conf")
	if err := makeConfig(path); err != nil {
		t.Fatal(err)
	}
	made, err := ParseOptions([]string{"--configfile", path}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	none, err := ParseOptions([]string{"--configfile", emptyFile(t)}, &bytes.Buffer{})
	if err != nil || !reflect.DeepEqual(made, none) {
		t.Errorf("with the file: %+v, without: %+v, %v", made, none, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	settings := 0
	for _, block := range strings.Split(string(text), "\n\n")[1:] {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		setting := strings.TrimPrefix(lines[len(lines)-1], "# ")
		if strings.HasPrefix(setting, "group:") || strings.HasPrefix(setting, "read-group:") {
			continue // one that is named has to exist
		}
		if _, err := ParseOptions([]string{"--configfile", writeFile(t, setting+"\n")}, &bytes.Buffer{}); err != nil {
			t.Errorf("%q: %v", setting, err)
		}
		settings++
	}
	if settings < 15 {
		t.Errorf("only %d options are in the file:\n%s", settings, text)
	}

	if err := os.WriteFile(path, []byte("port: 9001\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := makeConfig(path); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "port: 9001\n" {
		t.Errorf("a file that was there is now %q, %v", text, err)
	}
	if err := makeConfig("/dev/null/x"); err == nil || !strings.Contains(err.Error(), "configuration file") {
		t.Errorf("where no file can be: %v", err)
	}
}

// TestConfigIsMadeForTheMainDaemonOnly, and only where nobody named another.
func TestConfigIsMadeForTheMainDaemonOnly(t *testing.T) {
	for words, want := range map[string]string{"": defaultConfigFile, "--instance=blue": "", "--configfile=/dev/null": ""} {
		o, err := ParseOptions(strings.Fields(words), &bytes.Buffer{})
		if err != nil || o.ConfigFile != want {
			t.Errorf("%q: %q, %v, want %q", words, o.ConfigFile, err, want)
		}
	}
	b := newBench(t)
	path := filepath.Join(b.dir, "polycubed.conf")
	o, err := ParseOptions(b.args("main"), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	o.ConfigFile = path
	b.parts.ensureBPFFS = func(string) error { return errors.New("enough") }
	if err := start(t.Context(), o, b.parts, &bytes.Buffer{}, &bytes.Buffer{}, nil); err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("the start ends with %v", err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("no file was made: %v", err)
	}
}

// TestCheckConfig says whether the options are right and starts nothing.
func TestCheckConfig(t *testing.T) {
	tests := []struct {
		name, file string
		args       []string
		status     int
		out, errs  string
	}{
		{"right", "port: 9001\n", nil, exitOK, "the options are valid\n", ""},
		{"right, with a word of warning", "loglevel: debug\n", []string{"-l", "warn"}, exitOK, "warning: --loglevel on the command line overrides", ""},
		{"a wrong value", "port: many\n", nil, exitUsage, "", "line 1: port"},
		{"a wrong name", "log-level: debug\n", nil, exitUsage, "", `unknown option "log-level": did you mean loglevel?`},
		{"a wrong option", "", []string{"--stat-dir=/x"}, exitUsage, "", "unknown flag: --stat-dir: did you mean --state-dir?"},
		{"nothing near", "", []string{"--colour"}, exitUsage, "", "unknown flag: --colour (see"},
		{"a certificate that is not there", "cert: /none/c\nkey: /none/k\ncacert: /none/a\n", nil, exitFailed, "", "--cert: open /none/c: no such file"},
		{"two that exclude each other", "port: 9000\ninsecure-loopback\nrequire-token\n", nil, exitUsage, "", "mutually exclusive"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			args := append([]string{"--check-config", "--configfile", writeFile(t, tt.file)}, tt.args...)
			status := command(t.Context(), args, parts{}, &out, &errs, nil)
			if status != tt.status || !strings.Contains(out.String(), tt.out) || !strings.Contains(errs.String(), tt.errs) {
				t.Errorf("status %d, output %q, errors %q", status, out.String(), errs.String())
			}
		})
	}
}
