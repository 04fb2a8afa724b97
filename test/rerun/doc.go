// SPDX-License-Identifier: Apache-2.0

// Package rerun runs `go test` and records the output of every test, reruns failed tests alone, and repeats suspects
// under load. `make test` stays strict: one failed test fails it. A test that fails in the full run and passes alone is
// flaky, which is a bug until proven otherwise; .ci/run reports it by name, seed and log instead of failing the run.
package rerun

import (
	"os/exec"
	"path/filepath"
	"strings"
)

// Dir is where runs are recorded, and Kept, below it, where the logs of flaky tests stay.
const (
	Dir  = ".cache/test"
	Kept = "flaky"
)

// module is the import path of the module in the working directory.
func module() (string, error) {
	out, err := exec.Command("go", "list", "-m").Output()
	return strings.TrimSpace(string(out)), err
}

// short is a package's path from the top of the module.
func short(module, pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

// logName is the file name for the log of a suspect.
func logName(name string) string {
	return filepath.Base(strings.ReplaceAll(name, "/", "_")) + ".log"
}
