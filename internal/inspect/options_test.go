// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrongOptionsAreExplained(t *testing.T) {
	for args, want := range map[string]string{
		"":                              "--cube is missing",
		"--cube c --flows 1":            "--flows: from 16",
		"--cube c --packets 25":         "--packets: from 1 to 24",
		"--cube c --ipfix collector":    "--ipfix",
		"--cube c --loglevel loud":      "--loglevel",
		"--cube c --colour red":         "unknown flag",
		"--cube c now":                  `unexpected argument "now"`,
		"--cube c --json":               "only by polycube-ndpi status",
		"--cube c --config /none.yaml":  "read the configuration",
		"--cube c --config /etc/passwd": "/etc/passwd",
	} {
		if _, _, err := ParseOptions(strings.Fields(args), io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestAFileHasTheSameOptions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ndpi.yaml")
	if err := os.WriteFile(path, []byte("cube: dpi1\nflows: 100\nlog: /tmp/a\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, word, err := ParseOptions([]string{"--config", path, "--flows", "200"}, io.Discard)
	if err != nil || word != "" || o.Cube != "dpi1" || o.Flows != 200 || o.Log != "/tmp/a" {
		t.Errorf("options are %+v, error %v: want those of the file, and flows of the command line", o, err)
	}
	if err := os.WriteFile(path, []byte("cube: dpi1\njson: true\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ParseOptions([]string{"--config", path}, io.Discard); err == nil || !strings.Contains(err.Error(), "no option json") {
		t.Errorf("an option that makes no sense in a file: %v", err)
	}
}

func TestWordsOfTheCommandLine(t *testing.T) {
	for _, tt := range []struct {
		args, want string
		exit       int
	}{
		{"--help", "usage: polycube-ndpi", exitOK},
		{"--version", "nDPI 4", exitOK},
		{"list", "PROTOCOL YouTube\n", exitOK},
		{"--cube c --check-config", "the options are valid", exitOK},
		{"--cube c --check-config --protocols /none", "protocol file /none", exitFailed},
		{"status --control /none/socket", "no polycube-ndpi answers", exitFailed},
		{"--cube c --flows x", "invalid argument", exitUsage},
	} {
		var out bytes.Buffer
		if exit := Main(strings.Fields(tt.args), &out, &out); exit != tt.exit || !strings.Contains(out.String(), tt.want) {
			t.Errorf("%s: exit status %d, %q, want %d and %q", tt.args, exit, out.String(), tt.exit, tt.want)
		}
	}
}
