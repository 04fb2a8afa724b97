// SPDX-License-Identifier: Apache-2.0

package lint

// The rules on the repository itself.

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// repository reads the tracked files from the working tree: files deleted by a change, and symbolic links to folders,
// are skipped.
func repository(t *testing.T) Tree {
	t.Helper()
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs a git checkout, as the rules are about tracked files: %v", err)
	}
	tree := Tree{}
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		tree[name] = data
	}
	return tree
}

func TestRepositoryKeepsTheHouseRules(t *testing.T) {
	tree := repository(t)
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			for _, f := range rule.Check(tree) {
				t.Error(f)
			}
		})
	}
}

// TestTheChangelogHasTheRelease: the version in --version is the newest release that the CHANGELOG describes.
func TestTheChangelogHasTheRelease(t *testing.T) {
	tree := repository(t)
	version := strings.TrimSpace(string(tree["VERSION"]))
	newest := regexp.MustCompile(`(?m)^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d{2}-\d{2}$`).FindSubmatch(tree["CHANGELOG.md"])
	if newest == nil || string(newest[1]) != version {
		t.Errorf("VERSION is %q, and the newest release of CHANGELOG.md is %q", version, newest)
	}
}

func TestFieldsHaveOneOwner(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	found, err := FieldOwners(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		t.Error(f)
	}
}

func TestObjectsHoldNoPathOfThisMachine(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	objects := 0
	err = filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // a concurrent build or test removed it
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !strings.HasSuffix(name, ".tc.o") && !strings.HasSuffix(name, ".xdp.o"):
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		objects++
		if bytes.Contains(data, []byte(top)) {
			t.Errorf("%s holds %s; remedy: compile it by make generate, which maps the prefix", name, top)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if objects == 0 {
		t.Skip("needs the objects that make generate compiles")
	}
}
