// SPDX-License-Identifier: Apache-2.0

package efw

// Runs programs of the host, and reads what they print.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// maxOutput is how much a program may print.
const maxOutput = 64 << 20

// errMissing is the error of a program that the host does not have.
var errMissing = errors.New("it is not installed")

// limited is a buffer that refuses more than maxOutput.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxOutput {
		return 0, fmt.Errorf("it prints more than %d bytes", maxOutput)
	}
	return l.Buffer.Write(p)
}

// installed returns the path of a program; empty if there is none.
func installed(program string) string {
	for _, name := range []string{program, filepath.Join("/usr/sbin", program), filepath.Join("/sbin", program)} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// start starts a program in the network namespace of the calling thread. The function that it returns, which must be called, waits for
// its end, and returns what it has printed.
func start(ctx context.Context, program string, args ...string) (wait func() ([]byte, error)) {
	fail := func(err error) func() ([]byte, error) {
		return func() ([]byte, error) { return nil, fmt.Errorf("%s: %w", program, err) }
	}
	path := installed(program)
	if path == "" {
		return fail(errMissing)
	}
	var out, complaints limited
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaints
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil {
		return fail(err)
	}
	return func() ([]byte, error) {
		if err := cmd.Wait(); err != nil {
			return nil, fmt.Errorf("%s: %w: %.200s", program, err, strings.TrimSpace(complaints.String()))
		}
		return out.Bytes(), nil
	}
}
