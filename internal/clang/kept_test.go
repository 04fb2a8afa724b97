// SPDX-License-Identifier: Apache-2.0

package clang

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
)

// TestWhatWasCompiledNeedsNoCompiler: the same code for the same hook, and nothing else; nor a file that is damaged.
func TestWhatWasCompiledNeedsNoCompiler(t *testing.T) {
	t.Parallel()
	with := compiler(t)
	with.options.Keep = filepath.Join(t.TempDir(), "objects")
	source := compile.Source{Name: "fine.c", Text: []byte(fine), Hook: cube.TC}
	object, err := with.Compile(context.Background(), source)
	if err != nil {
		t.Fatal(err)
	}
	without := New(Options{RunDir: with.options.RunDir, Keep: with.options.Keep, Path: t.TempDir()})
	if got, err := without.Compile(context.Background(), source); err != nil || !bytes.Equal(got, object) {
		t.Errorf("%d bytes, %v, want the %d of the compiler", len(got), err, len(object))
	}
	for what, other := range map[string]compile.Source{
		"another hook":   {Name: source.Name, Text: source.Text, Hook: cube.XDP},
		"another name":   {Name: "x.c", Text: source.Text, Hook: source.Hook},
		"another text":   {Name: source.Name, Text: append([]byte("\n"), source.Text...), Hook: source.Hook},
		"another define": {Name: source.Name, Text: source.Text, Hook: source.Hook, Defines: []string{"X=1"}},
	} {
		if _, err := without.Compile(context.Background(), other); err == nil {
			t.Errorf("%s: an object without a compiler", what)
		}
	}
	files, err := filepath.Glob(filepath.Join(with.options.Keep, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v, want one file", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1]++
	if err := os.WriteFile(files[0], text, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := without.Compile(context.Background(), source); err == nil {
		t.Error("a damaged object is used")
	}
}

// TestTheObjectsUsedLastAreKept, and nothing that a killed daemon has left.
func TestTheObjectsUsedLastAreKept(t *testing.T) {
	t.Parallel()
	k := kept{t.TempDir()}
	for i := range most {
		name := fmt.Sprint(i)
		if err := k.keep(name, []byte(name)); err != nil {
			t.Fatal(err)
		}
		at := time.Now().Add(time.Duration(i-2*most) * time.Minute)
		if err := os.Chtimes(filepath.Join(k.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(k.dir, ".new-1"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := k.find("0"); string(got) != "0" {
		t.Errorf("the first object is %q", got)
	}
	if err := k.keep("new", []byte("new")); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"0": true, "1": false, "2": true, "new": true, ".new-1": false} {
		if _, err := os.Stat(filepath.Join(k.dir, name)); (err == nil) != there {
			t.Errorf("%s: %v, want it there: %t", name, err, there)
		}
	}
}
