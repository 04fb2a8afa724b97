// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestExamplesRun runs the scripts of examples/ as a user does. Each checks its results, and that it leaves nothing
// behind.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	netns.NeedRoot(t)
	scripts, err := filepath.Glob("../../examples/*/run.sh")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range scripts {
		t.Run(filepath.Base(filepath.Dir(path)), func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), path)
			cmd.Env = append(os.Environ(), "NO_COLOR=1")
			cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}
