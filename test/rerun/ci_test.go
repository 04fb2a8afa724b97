// SPDX-License-Identifier: Apache-2.0

package rerun

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/executable"
)

// TestTheRunOfCI: failed tests are rerun, which decides; flaky ones are in the last lines.
func TestTheRunOfCI(t *testing.T) {
	script, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, fails string // the targets that fail
		targets     string // those that are made
		exit        int
		flaky       bool
	}{
		{"all is well", "", "lint test demo demo-ddos demo-mgw build-arm64 test-kernels-short", 0, false},
		{"a flaky test", "test", "lint test test-again demo demo-ddos demo-mgw build-arm64 test-kernels-short", 0, true},
		{"a failed test", "test test-again", "lint test test-again", 2, false},
		{"a finding of lint", "lint", "lint", 2, false},
		{"a failed demo", "demo", "lint test demo", 2, false},
		{"a failed kernel", "test-kernels-short", "lint test demo demo-ddos demo-mgw build-arm64 test-kernels-short", 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			err := errors.Join(os.Mkdir(filepath.Join(dir, ".ci"), 0o755), os.MkdirAll(filepath.Join(dir, ".cache/test"), 0o755),
				executable.Write(filepath.Join(dir, ".ci/run"), script),
				executable.Write(filepath.Join(dir, "make"), []byte(`#!/bin/sh
echo $1 >>made
case "$1" in test) rm -f .cache/test/flaky.txt;; test-again) echo "FLAKY a.TestX, no seed, a.log" >.cache/test/flaky.txt;; esac
case " $FAILS " in *" $1 "*) exit 2;; esac
`)),
				os.WriteFile(filepath.Join(dir, ".cache/test/flaky.txt"), []byte("FLAKY of the last run\n"), 0o644))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(filepath.Join(dir, ".ci/run"))
			cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "FAILS="+tt.fails)
			said, _ := cmd.CombinedOutput()
			made, err := os.ReadFile(filepath.Join(dir, "made"))
			if err != nil || strings.Join(strings.Fields(string(made)), " ") != tt.targets || cmd.ProcessState.ExitCode() != tt.exit {
				t.Errorf("exit %d, made %q, %v:\n%s", cmd.ProcessState.ExitCode(), made, err, said)
			}
			if end := strings.Contains(string(said), "\nFLAKY a.TestX, no seed, a.log\n\n==> all passed"); end != tt.flaky || strings.Contains(string(said), "of the last run") {
				t.Errorf("it ends with:\n%s", said)
			}
		})
	}
}
