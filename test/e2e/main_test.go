// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// patience bounds every wait; it is reached only when something is broken.
var patience = pace.Stretch(20 * time.Second)

// soak reports whether the long form of a test was requested.
var soak = os.Getenv("POLYCUBE_SOAK") != ""

// TestMain runs more tests in parallel than there are CPUs: they mostly wait for the kernel's grace periods. The flag
// still overrides it.
func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		beService()
	}
	if os.Getenv(serviceSocket) != "" {
		beMalicious()
	}
	if os.Getenv(asDaemon) != "" {
		beDaemon()
	}
	if os.Getenv(asReturner) != "" {
		beReturner()
	}
	if os.Getenv(asFarmServer) != "" {
		beFarmServer()
	}
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err) // the testing package has another name for it
	}
	os.Exit(netns.CheckLeaks(m))
}

// program is the absolute path of a built program. Tests use those of bin/, or of the directory POLYCUBE_BIN.
func program(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("POLYCUBE_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s: run make build (%v)", name, err)
	}
	return path
}
