// SPDX-License-Identifier: Apache-2.0

package confine

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

func TestAToolReadsFilesAndWritesOne(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	dir := t.TempDir()
	in, out := ToolDir+"/deep/er/in", ToolDir+"/out"
	tool := Tool{Files: map[string][]byte{"deep/er/in": []byte("content"), "deep/other": nil}, Result: "out", MaxResult: 1024, MaxOutput: 100}
	for _, tt := range []struct {
		name, path string
		args       []string
		result     string
		failed     bool
		output     string
		err        error
	}{
		{"a copy", "/usr/bin/cp", []string{in, out}, "content", false, "", nil},
		{"no result", "/usr/bin/cat", []string{in}, "", false, "content", nil},
		{"a failure", "/usr/bin/cat", []string{"/nothing"}, "", true, "No such file", nil},
		{"much output", "/usr/bin/seq", []string{"100000"}, "", false, "more output was left out", nil},
		{"a link as the result", "/usr/bin/ln", []string{"-s", "/etc/passwd", out}, "", false, "", ErrUnsafe},
		{"a pipe as the result", "/usr/bin/mkfifo", []string{out}, "", true, "Operation not permitted", nil},
		{"a large result", "/usr/bin/truncate", []string{"-s", "1025", out}, "", false, "", ErrUnsafe},
		{"a file of the machine", "/usr/bin/cp", []string{in, "/etc/polycube-was-here"}, "", true, "Read-only file system", nil},
		{"a file of another user", "/usr/bin/cp", []string{"/etc/shadow", out}, "", true, "Permission denied", nil},
		{"a program that is missing", "/usr/bin/polycube-is-missing", nil, "", false, "", os.ErrNotExist},
	} {
		did, err := Run(context.Background(), Config{Name: "tool", Path: tt.path, Args: tt.args, RunDir: dir}, tool)
		if !errors.Is(err, tt.err) || tt.err == nil && err != nil {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
			continue
		}
		if string(did.Result) != tt.result || (did.Failed != nil) != tt.failed || !strings.Contains(did.Output, tt.output) || len(did.Output) > 200 {
			t.Errorf("%s: %+v with %q, want %q and %q", tt.name, did.Failed, did.Output, tt.result, tt.output)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, Config{Name: "tool", Path: "/usr/bin/sleep", Args: []string{"1000"}, RunDir: dir}, tool); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a tool that does not end: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
