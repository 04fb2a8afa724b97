// SPDX-License-Identifier: Apache-2.0

// Package scapy runs Python programs that use scapy, whose codecs share nothing with those of this project. Starting one takes a
// second, so a program reads and writes many messages.
package scapy

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// python is Debian's, which has the package python3-scapy; another one in PATH has other packages.
const python = "/usr/bin/python3"

// Run runs a program with input. It returns the values of its output, one JSON value each. It skips the test without scapy.
func Run[T any](t testing.TB, program string, input []string, args ...string) (all []T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import scapy").CombinedOutput(); err != nil {
		t.Skipf("no scapy: run scripts/deps.sh build (%v: %s)", err, bytes.TrimSpace(out))
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"-B", program}, args...)...)
	var complaints bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(strings.Join(input, "\n")), &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", program, err, complaints.String())
	}
	values := json.NewDecoder(bytes.NewReader(out))
	values.DisallowUnknownFields()
	for {
		var value T
		if err := values.Decode(&value); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: value %d: %v", program, len(all), err)
		}
		all = append(all, value)
	}
}
