// SPDX-License-Identifier: Apache-2.0

// Package python runs the tests of the Python SDK with the others.
package python

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// interpreter is that of the environment with the SDK.
func interpreter(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../.cache/python/bin/python")
	if err == nil {
		_, err = os.Stat(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		t.Fatalf("%v (run make python)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPython(t *testing.T) {
	t.Parallel()
	runs := map[string][]string{
		"unit tests": {"-I", "-m", "unittest", "discover", "-s", "tests"},
		"types":      {"-m", "mypy", "--cache-dir", t.TempDir(), "polycube", "tests"},
	}
	for _, name := range []string{"portknock", "quota"} {
		folder := "../../examples/services/" + name
		runs[name] = []string{"-I", "-m", "unittest", "discover", "-s", folder}
		runs[name+", types"] = []string{"-m", "mypy", "--cache-dir", t.TempDir(), "--config-file", "pyproject.toml", folder + "/" + name + ".py"}
	}
	for name, args := range runs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(interpreter(t), args...)
			cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
			// The package that is tested is the installed one, with its stubs: -I leaves this folder out.
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
