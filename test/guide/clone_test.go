// SPDX-License-Identifier: Apache-2.0

// A fresh copy of the repository and a terminal in it. The terminal has its own network, mount and process namespaces,
// where a daemon without any option finds an empty machine.

package guide

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/lint"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// patience bounds a step in the terminal, which may build everything. It is a guard against hangs.
var patience = pace.Stretch(15 * time.Minute)

const root = "../.."

// clone copies the tracked files, as they are now, and new files that are not ignored. Compiled programs are copied,
// too: they do not depend on where they are compiled.
func clone(t *testing.T) string {
	t.Helper()
	netns.NeedRoot(t)
	cmd := exec.Command("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("needs a git checkout: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "polycube")
	for _, name := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	takeObjects(t, dir)
	return dir
}

// takeObjects copies the objects that are newer than all of their possible sources.
func takeObjects(t *testing.T, dir string) {
	t.Helper()
	var newest time.Time
	objects := map[string]time.Time{}
	for _, folder := range []string{
		"bpf", "bucket", "classifier", "conntrack", "cube", "cubes", "examples", "fdb", "gtppath", "gtpu", "internal", "ring", "sdf", "sketch", "test", "Makefile",
	} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(name string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			switch base := e.Name(); {
			case strings.HasSuffix(base, ".tc.o"), strings.HasSuffix(base, ".xdp.o"):
				objects[name] = info.ModTime()
			case filepath.Ext(base) == ".c", filepath.Ext(base) == ".h", base == "Makefile":
				newest = later(newest, info.ModTime())
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, made := range objects {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			t.Fatal(err)
		}
		if made.Before(newest) {
			continue
		}
		if err := copyFile(name, filepath.Join(dir, rel)); err != nil {
			t.Fatal(err)
		}
	}
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, data, info.Mode().Perm())
}

// tree reads the sources of a clone, without build results.
func tree(t *testing.T, dir string) lint.Tree {
	t.Helper()
	out := lint.Tree{}
	err := filepath.WalkDir(dir, func(name string, e os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && (e.Name() == "bin" || e.Name() == ".cache"):
			return filepath.SkipDir
		case e.IsDir(), strings.HasSuffix(name, ".o"):
			return nil
		}
		rel, err := filepath.Rel(dir, name)
		if err == nil {
			out[filepath.ToSlash(rel)], err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// terminal is a shell that stays open: settings of one command apply to the next.
type terminal struct {
	t     *testing.T
	dir   string // for the scripts
	in    io.Writer
	out   *output.Buffer
	ended chan struct{}
	steps int
}

// prepare gives the namespaces separate directories for files of a daemon, and of `ip netns`. Packages use the rest of
// /var/lib.
const prepare = `set -e
mkdir -p "$0/lib"
mount --rbind /var/lib "$0/lib"
mount -t tmpfs machine /var/lib
for each in "$0"/lib/*; do
    [ "${each##*/}" = polycube ] || ln -s "$each" /var/lib/
done
mount -t tmpfs machine /run
mount -t bpf bpf /sys/fs/bpf
exec bash --noprofile --norc 2>&1
`

// open opens a terminal in a folder.
func open(t *testing.T, folder string) *terminal {
	t.Helper()
	lab := netns.NewLab(t)
	term := &terminal{t: t, dir: t.TempDir(), out: &output.Buffer{}, ended: make(chan struct{})}
	cmd := lab.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", prepare, t.TempDir())
	cmd.Dir = folder
	// Paths in build results would prevent the tools from reusing others' results.
	cmd.Env = append(os.Environ(), "SKIP_DEPS=1", "GOFLAGS=-trimpath", "MAKEFLAGS=")
	cmd.Stdout, cmd.Stderr = term.out, term.out
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	term.in = in
	go func() {
		defer close(term.ended)
		_ = cmd.Wait() // ended by the test, or by a command that the test reports
	}()
	t.Cleanup(func() {
		if said, err := os.ReadFile(filepath.Join(folder, "polycubed.log")); err == nil && t.Failed() {
			t.Logf("the daemon said:\n%s", said)
		}
		_ = cmd.Process.Kill() // its namespace ends with it, and all processes in it
		<-term.ended
	})
	return term
}

// Run types a script and returns its output and exit status.
func (term *terminal) Run(script string) (printed string, exit int) {
	term.t.Helper()
	term.steps++
	file := filepath.Join(term.dir, fmt.Sprint(term.steps))
	if err := os.WriteFile(file, []byte(script+"\n"), 0o644); err != nil {
		term.t.Fatal(err)
	}
	before := len(term.out.String())
	mark := fmt.Sprintf("=== step %d ended with ", term.steps)
	if _, err := fmt.Fprintf(term.in, ". %s </dev/null; status=$?; echo; echo '%s'$status.\n", file, mark); err != nil {
		term.t.Fatalf("the terminal is gone: %v\n%s", err, term.out)
	}
	netns.Eventually(term.t, patience, func() error {
		text, rest, ok := strings.Cut(term.out.String()[before:], "\n"+mark)
		if _, err := fmt.Sscanf(rest, "%d.", &exit); ok && err == nil {
			printed = text
			return nil
		}
		select {
		case <-term.ended:
			term.t.Fatalf("the terminal was closed by\n%s\n%s", script, text)
		default:
		}
		return fmt.Errorf("not at its end:\n%s\n%s", script, text)
	})
	return printed, exit
}

// Must types a script and returns its output. A command that fails closes the terminal, and so ends the test.
func (term *terminal) Must(script string) string {
	term.t.Helper()
	printed, _ := term.Run("trap 'echo \"this ended with $?: $BASH_COMMAND\"' ERR; set -e\n" + script + "\nset +e; trap - ERR")
	return printed
}
