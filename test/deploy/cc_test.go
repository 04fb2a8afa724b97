// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// wrapper is a staged installation with polycube-cc, and a folder with a service.
type wrapper struct {
	t           *testing.T
	path, there string
}

func newWrapper(t *testing.T) wrapper {
	t.Helper()
	need(t, "clang")
	dest, there := t.TempDir(), t.TempDir()
	makeTarget(t, "install", "DESTDIR="+dest, "PREFIX=/usr")
	for _, name := range []string{"quota.yang", "quota.bpf.c"} {
		text, err := os.ReadFile(filepath.Join(root(t), "examples/services/quota", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(there, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return wrapper{t, dest + "/usr/bin/polycube-cc", there}
}

// run runs polycube-cc with variables, and compares the exit status and a part of the output.
func (w wrapper) run(vars []string, status int, says string, args ...string) {
	w.t.Helper()
	cmd := exec.Command(w.path, args...)
	cmd.Dir, cmd.Env = w.there, append(os.Environ(), vars...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != status || !strings.Contains(string(text), says) {
		w.t.Errorf("polycube-cc %v, %v: status %d, want %d with %q\n%s", args, vars, got, status, says, text)
	}
}

// objects checks which objects there are, and removes them.
func (w wrapper) objects(want ...string) {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.there, "*.o*"))
	more, moreErr := filepath.Glob(filepath.Join(w.there, "out/*"))
	if err != nil || moreErr != nil {
		w.t.Fatal(err, moreErr)
	}
	var got []string
	for _, path := range append(paths, more...) {
		name, _ := filepath.Rel(w.there, path) // it is below
		got = append(got, name)
		if err := os.Remove(path); err != nil {
			w.t.Error(err)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		w.t.Errorf("compiled %v, want %v", got, want)
	}
}

func (w wrapper) write(name, text string, mode os.FileMode) string {
	w.t.Helper()
	path := filepath.Join(w.there, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func TestTheInstalledWrapperCompilesForBothHooks(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	w.run(nil, 0, "polycubed", "quota.bpf.c")
	w.objects("quota.tc.o", "quota.xdp.o")
	w.run(nil, 0, "", "--hook", "xdp", "--no-check", "quota.bpf.c")
	w.objects("quota.xdp.o")
	if err := os.Mkdir(filepath.Join(w.there, "out"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.run(nil, 0, "", "-o", "out", "-DUNUSED", "-I", "out", "--no-check", "quota.bpf.c")
	w.objects("out/quota.tc.o", "out/quota.xdp.o")
	w.run(nil, 0, filepath.Join(filepath.Dir(w.path), "../include/polycube"), "--flags")
}

func TestWhatTheWrapperCannotCompileLeavesNoObject(t *testing.T) {
	t.Parallel()
	w := newWrapper(t)
	for _, tt := range []struct {
		status int
		says   string
		args   []string
	}{
		{64, "no source given (see polycube-cc --help)", nil},
		{64, "quota.c is not the name of a source", []string{"quota.c"}},
		{64, "--hook lwt: a hook is tc or xdp", []string{"--hook", "lwt", "quota.bpf.c"}},
		{64, "-o needs a value", []string{"quota.bpf.c", "-o"}},
		{64, "unknown option --fast", []string{"--fast", "quota.bpf.c"}},
		{1, "none is not a folder", []string{"-o", "none", "quota.bpf.c"}},
		{1, "none.bpf.c cannot be read", []string{"none.bpf.c"}},
	} {
		w.run(nil, tt.status, tt.says, tt.args...)
	}
	for version, says := range map[string]string{"13.0.1": "clang 14 or newer is needed", "": "clang 14 or newer is needed", "17.0.6": "has no target bpf"} {
		clang := w.write("clang"+version, "#!/bin/sh\n[ \"$1\" != -dumpversion ] || echo "+version+"\n", 0o755)
		w.run([]string{"CLANG=" + clang}, 1, says, "quota.bpf.c")
	}
	w.run([]string{"CLANG=none"}, 1, "there is no none: install it", "quota.bpf.c")

	source, err := os.ReadFile(filepath.Join(w.there, "quota.bpf.c"))
	if err != nil {
		t.Fatal(err)
	}
	w.write("broken.bpf.c", string(source)+"\nnonsense", 0o644)
	w.run(nil, 1, "broken.bpf.c does not compile for tc", "broken.bpf.c")
	w.objects()
	w.write("quota.bpf.c", strings.Replace(string(source), "\treturn pcn_pkt_pass(ctx, md);\n}\n\nPCN_LICENSE", "\tmd->md[0] = bpf_redirect(1, 0);\n"+
		"\treturn pcn_pkt_pass(ctx, md);\n}\n\nPCN_LICENSE", 1), 0o644)
	w.run(nil, 1, "polycubed would refuse the service: see above", "quota.bpf.c")
}
