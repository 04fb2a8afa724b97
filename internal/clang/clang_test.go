// SPDX-License-Identifier: Apache-2.0

package clang

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/cube/foreign"
)

const fine = "#include <pcn/cube.h>\n#include <pcn/flow.h>\n#include <pcn/sketch.h>\nPCN_INGRESS { return pcn_pkt_pass(ctx, md); }\nPCN_LICENSE;\n"

func compiler(t *testing.T) *Compiler {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	return New(Options{RunDir: t.TempDir(), Log: nil})
}

func TestCodeIsCompiledForAHook(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		object, err := c.Compile(context.Background(), compile.Source{Name: "fine.c", Text: []byte(fine), Hook: h})
		if err != nil {
			t.Fatal(err)
		}
		if err := foreign.Check(map[cube.Hook][]byte{h: object}); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(c.options.RunDir)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestAllMessagesOfTheCompilerAreReturned(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	secret := filepath.Join(c.options.RunDir, "secret.h")
	if err := os.WriteFile(secret, []byte("int secret;\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, text string
		says       []string
		kind       error
	}{
		{"two errors", "#include <pcn/cube.h>\nint one(void) { return a; }\nint two(void) { return b; }\n",
			[]string{"two.c:2:", "undeclared identifier 'a'", "two.c:3:", "undeclared identifier 'b'", "2 errors generated"}, cube.ErrInvalid},
		{"a local include", "#include \"secret.h\"\n", []string{"'secret.h' file not found"}, cube.ErrInvalid},
		{"an include of what is hidden", "#include \"" + secret + "\"\n", []string{"file not found"}, cube.ErrInvalid},
		{"a warning is no error, but says more of one", "int f(void) { int unused; return x; }\n", []string{"'x'"}, cube.ErrInvalid},
		{"a bomb", "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(x))))\nint a[] = { B(B(B(1,))) };\n", []string{""}, cube.ErrInvalid},
	} {
		_, err := c.Compile(context.Background(), compile.Source{Name: "two.c", Text: []byte(tt.text), Hook: cube.TC})
		if !errors.Is(err, tt.kind) {
			t.Errorf("%s: %v, want a kind of %v", tt.name, err, tt.kind)
			continue
		}
		said := err.Error()
		var more *compile.Error
		if errors.As(err, &more) {
			said += strings.Join(more.Detail(), "\n")
		}
		for _, s := range tt.says {
			if !strings.Contains(said, s) {
				t.Errorf("%s: %s, want %q in it", tt.name, said, s)
			}
		}
		if strings.Contains(err.Error(), c.options.RunDir) && !strings.Contains(tt.text, c.options.RunDir) {
			t.Errorf("%s: %v names a directory of the daemon", tt.name, err)
		}
	}
}

func TestWhatCannotBeCompiled(t *testing.T) {
	t.Parallel()
	c := compiler(t)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		path   string
		source compile.Source
		says   string
	}{
		{"a name with a path", context.Background(), "", compile.Source{Name: "../x.c"}, "is no name"},
		{"too much", context.Background(), "", compile.Source{Name: "x.c", Text: make([]byte, maxText+1)}, "the limit is 262144"},
		{"no compiler", context.Background(), t.TempDir(), compile.Source{Name: "x.c"}, "apt-get install clang"},
		{"an ended context", ended, "", compile.Source{Name: "x.c", Text: []byte(fine)}, "context canceled"},
	} {
		c := New(Options{RunDir: c.options.RunDir, Path: tt.path})
		if _, err := c.Compile(tt.ctx, tt.source); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.says)
		}
	}
}

func TestTheChosenCompilerIsTheNewest(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"clang-9", "clang-15", "clang-format"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := find(dir); err != nil || filepath.Base(got) != "clang-15" {
		t.Errorf("%s, %v", got, err)
	}
	if err := os.Symlink("clang-9", filepath.Join(dir, "clang")); err != nil {
		t.Fatal(err)
	}
	if got, err := find(dir); err != nil || filepath.Base(got) != "clang-9" {
		t.Errorf("%s, %v, want what `clang` is", got, err)
	}
}
