// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// ways are the arguments of examples that can be run in several ways.
var ways = map[string][]string{
	"evnf/traffic-accounting": {"", "--machines 2 --switch linux --containers", "--machines 2 --switch polycube", "--machines 2 --switch ovs --hook xdp"},
	"evnf/web-service":        {"", "--machines 2 --switch polycube", "--containers", "--machines 2 --switch ovs --hook xdp"},
}

// TestExamplesRun runs the scripts of examples/ as a user does. Each checks its results, and that it leaves nothing
// behind.
func TestExamplesRun(t *testing.T) {
	t.Parallel()
	netns.NeedRoot(t)
	const root = "../../examples"
	found := map[string]bool{}
	for _, pattern := range []string{"*/run.sh", "*/*/run.sh"} {
		scripts, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(scripts) == 0 {
			t.Fatalf("no examples %s: %v", pattern, err)
		}
		for _, path := range scripts {
			name, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				t.Fatal(err)
			}
			found[name] = true
			runs := ways[name]
			if runs == nil {
				runs = []string{""}
			}
			for _, args := range runs {
				t.Run(strings.TrimSpace(name+" "+args), func(t *testing.T) {
					t.Parallel()
					cmd := exec.CommandContext(t.Context(), path, strings.Fields(args)...)
					cmd.Env = append(os.Environ(), "NO_COLOR=1")
					cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it cleans up
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Errorf("%v\n%s", err, out)
					}
				})
			}
		}
	}
	for name := range ways {
		if !found[name] {
			t.Errorf("%s is no example", name)
		}
	}
}

// TestExamplesRefuseWrongArguments runs no example: each call is wrong, and changes nothing.
func TestExamplesRefuseWrongArguments(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]map[string]string{
		"traffic-accounting": {
			"--machines 3":              "--machines 3: 1 or 2",
			"--machines":                "--machines needs a value",
			"--machines 2 --switch x":   "--switch x: linux, polycube or ovs",
			"--machines 1 --switch ovs": "--switch connects two machines: add --machines 2",
			"--machines 2 --hook skb":   "--hook skb: tc or xdp",
			"--hook xdp":                "--hook is for two machines: add --machines 2",
			"--all":                     "unknown argument --all",
		},
		"web-service": {
			"--machines 3": "--machines 3: 1 or 2",
			"--switch x":   "--switch x: linux, polycube or ovs",
			"--switch":     "--switch needs a value",
			"--hook skb":   "--hook skb: tc or xdp",
			"--hook xdp":   "--hook is for two machines: add --machines 2",
			"--all":        "unknown argument --all",
		},
	} {
		script := "../../examples/evnf/" + name + "/run.sh"
		for args, want := range refused {
			out, err := exec.CommandContext(t.Context(), script, strings.Fields(args)...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != 2 || !strings.Contains(string(out), want) || !strings.Contains(string(out), "usage:") {
				t.Errorf("%s %s: %v: %s; want status 2, %q and the usage", script, args, err, out, want)
			}
		}
		out, err := exec.CommandContext(t.Context(), script, "--help").CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "usage:") {
			t.Errorf("%s --help: %v: %s", script, err, out)
		}
	}
}

// TestBundlesRefuseWrongArguments: no folder is made.
func TestBundlesRefuseWrongArguments(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "bundle")
	for args, want := range map[string]string{
		folder + " none1":                          "usage: bundle.sh",
		folder + " none1 vnf1 bash":                "usage: bundle.sh",
		folder + " no-such-netns vnf1 polycubed":   "there is no network namespace no-such-netns",
		filepath.Dir(folder) + " a b polycubed":    "exists",
		folder + " ../../proc/self/fd a polycubed": "a name of a namespace has no slash",
	} {
		out, err := exec.CommandContext(t.Context(), "../../examples/evnf/bundle.sh", strings.Fields(args)...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("bundle.sh %s: %v: %s; want %q", args, err, out, want)
		}
		if _, err := os.Stat(folder); err == nil {
			t.Errorf("bundle.sh %s has made a folder", args)
		}
	}
}
