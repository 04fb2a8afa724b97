// SPDX-License-Identifier: Apache-2.0

// The same documents are given to an edit and to libyang's own tool: what one accepts the other must accept, and where one
// finds the fault, the other must.

package yang_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/yang"
	"github.com/polycube/polycube/test/pace"
)

var one = big.NewRat(1, 1)

// models are all that ship, and those of tests.
func models(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, pattern := range []string{"../../cubes/*/*.yang", "testdata/*.yang", "../rest/testdata/*.yang", "../topology/testdata/*.yang",
		"../../test/*/*.yang", "../../test/*/testdata/*.yang", "../../examples/*/*/*.yang", "../../examples/*/*.yang"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, found...)
	}
	if len(out) < 10 {
		t.Fatalf("only %d models: %v", len(out), out)
	}
	return out
}

// verdict is what yanglint says of a document; message is "" when it accepts it.
type verdict struct {
	message string
	place   yang.Path
}

// yanglint judges documents in one run: between two of them it is asked for a file that does not exist, which it says.
func yanglint(t *testing.T, model, module string, documents []string) []verdict {
	t.Helper()
	tool, err := exec.LookPath("yanglint")
	if err != nil {
		t.Skip("yanglint is not installed")
	}
	path, err := filepath.Abs(model)
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs("../../yang")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var commands strings.Builder
	fmt.Fprintf(&commands, "searchpath %s\nadd -F %s: %s\n", base, module, path)
	for i, d := range documents {
		file := filepath.Join(dir, fmt.Sprintf("%d.json", i))
		if err := os.WriteFile(file, []byte(d), 0o600); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&commands, "data -t config -f json -o %s %s\ndata end-of-%d\n", os.DevNull, file, i)
	}
	ctx, cancel := context.WithTimeout(context.Background(), pace.Stretch(time.Minute))
	defer cancel()
	cmd := exec.CommandContext(ctx, tool)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "HOME="+dir)
	cmd.Stdin = strings.NewReader(commands.String())
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("run yanglint: %v: %s", err, &said)
	}
	out := make([]verdict, len(documents))
	rest := said.String()
	if i := strings.Index(rest, "Failed to parse \""); i >= 0 && i < strings.Index(rest, "end-of-0") {
		t.Fatalf("yanglint does not take the model: %s", rest[:i])
	}
	for i := range out {
		before, after, ok := strings.Cut(rest, fmt.Sprintf("(end-of-%d)", i))
		if !ok {
			t.Fatalf("yanglint stopped before document %d: %s", i, documents[i])
		}
		rest = after
		for line := range strings.Lines(before) {
			if text, ok := strings.CutPrefix(line, "libyang[0]: "); ok && out[i].message == "" {
				out[i].message = strings.TrimSpace(text)
				if _, place, ok := strings.Cut(text, "(path: "); ok {
					out[i].place = yang.ParseLocation(place)
				}
			}
		}
		if out[i].message == "" && strings.Contains(before, "Failed to parse input") {
			out[i].message = "refused without a message"
		}
	}
	return out
}

// trial is one document, what was done to it, and what it was before.
type trial struct {
	seed      uint64
	what      string
	base, doc *datum
}

// TestAgainstYanglint compares answers for generated documents of every model: as they are, and with one thing wrong.
func TestAgainstYanglint(t *testing.T) {
	count := uint64(60)
	if os.Getenv("POLYCUBE_SOAK") != "" {
		count = 4000
	}
	for _, model := range models(t) {
		t.Run(strings.TrimSuffix(filepath.Base(model), ".yang"), func(t *testing.T) {
			t.Parallel()
			source, err := os.ReadFile(model)
			if err != nil {
				t.Fatal(err)
			}
			s, err := yang.Load(string(source))
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			c := &comparison{t: t, s: s, model: model}
			for from := uint64(0); from < count; from += 500 {
				c.round(from, min(from+500, count))
			}
			if t.Failed() {
				return
			}
			t.Logf("%d documents accepted, %d refused, %d of them at one place", c.accepted, c.refused, c.placed)
			if c.accepted < int(count)/20 || c.refused < int(count)/20 {
				t.Errorf("the documents are one-sided: %d accepted, %d refused", c.accepted, c.refused)
			}
		})
	}
}

type comparison struct {
	t                         *testing.T
	s                         *yang.Schema
	model                     string
	accepted, refused, placed int
}

// round compares the answers to the documents of some seeds.
func (c *comparison) round(from, to uint64) {
	var trials []trial
	var documents []string
	module := c.s.Service().Module
	for seed := from; seed < to; seed++ {
		tr := c.trial(seed)
		trials = append(trials, tr)
		documents = append(documents, tr.base.json(module), tr.doc.json(module))
	}
	verdicts := yanglint(c.t, c.model, module, documents)
	for i, tr := range trials {
		base, doc := verdicts[2*i], verdicts[2*i+1]
		c.compare(trial{seed: tr.seed, what: "as generated", doc: tr.base}, base)
		c.compare(tr, doc)
		if base.message == "" {
			c.places(tr, doc)
			c.inPlace(tr, doc)
		}
	}
}

// trial makes a document, mostly one that is valid, and changes one thing of it.
func (c *comparison) trial(seed uint64) trial {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 7)), density: 6}
	tr := trial{seed: seed, base: g.document(c.s.Root())}
	for try := 0; seed%4 != 0 && try < 20 && c.edit(tr.base) != nil; try++ {
		g.density = 6 - try/4
		tr.base = g.document(c.s.Root())
	}
	g.root = tr.base
	tr.doc = tr.base.clone()
	tr.what = g.mutate(tr.doc, c.s.Root())
	return tr
}

// edit creates a cube with a document.
func (c *comparison) edit(d *datum) error {
	tree := c.s.NewTree()
	defer tree.Close()
	_, err := tree.Edit(context.Background(), yang.Create, nil, []byte(d.json("")))
	return err
}

// compare gives a document to an edit.
func (c *comparison) compare(tr trial, v verdict) {
	err := c.edit(tr.doc)
	var e *yang.Error
	switch {
	case err != nil && v.message == "" && strings.Contains(err.Error(), "is an address in a network"):
		// polycube-base:no-host-bits, which YANG does not know
	case err != nil && v.message == "" && strings.Contains(err.Error(), "so the next one is"):
		// polycube-base:positions, which YANG does not know
	case (err == nil) != (v.message == ""):
		c.t.Errorf("seed %d: %s: %s\nyanglint: %s\nedit: %v", tr.seed, tr.what, tr.doc.json(""), v.message, err)
	case err == nil:
		c.accepted++
		return
	case !errors.As(err, &e):
		c.t.Errorf("seed %d: %s: %v is no fault of the request", tr.seed, tr.what, err)
	}
	c.refused++
}

// places compares where the only fault of a document is.
func (c *comparison) places(tr trial, v verdict) {
	var e *yang.Error
	if v.message == "" || !errors.As(c.edit(tr.doc), &e) {
		return
	}
	all := e.Errs
	if len(all) == 0 {
		all = []*yang.Error{e}
	}
	if !slices.ContainsFunc(all, func(e *yang.Error) bool { return c.near(e.Path, v) }) {
		c.t.Errorf("seed %d: %s: %s\nyanglint: %s\nedit at %s: %v", tr.seed, tr.what, tr.doc.json(""), v.message, e.Path, e)
		return
	}
	c.placed++
}

// inPlace brings the change into a cube that is there: it is accepted when a cube created so is, with the same result, and
// when it is refused nothing has changed.
func (c *comparison) inPlace(tr trial, v verdict) {
	tree := c.s.NewTree()
	defer tree.Close()
	if _, err := tree.Edit(context.Background(), yang.Create, nil, []byte(tr.base.json(""))); err != nil {
		return // said already
	}
	if strings.HasPrefix(tr.what, "an unknown member") || strings.HasPrefix(tr.what, "another alternative") || strings.HasPrefix(v.message, "When ") {
		// No path leads to the first, the second takes the place of what was there (RFC 7950, 7.9), and what had a condition
		// goes with it (8.2).
		return
	}
	before := c.print(tree)
	var err error
	for _, n := range c.s.Root().Children() {
		was, is := tr.base.member(n.Name()), tr.doc.member(n.Name())
		switch {
		case err != nil || was == is || was != nil && is != nil && was.json("") == is.json(""):
		case is == nil:
			_, err = tree.Amend(context.Background(), yang.Delete, yang.Path{{Name: n.Name()}}, nil)
		case n.Kind() == yang.Leaf && (is.json("") == "null" || is.json("") == `""`):
			return // there, it unsets the leaf (RFC 7396)
		case n.Kind() == yang.Leaf:
			_, err = tree.Amend(context.Background(), yang.Merge, yang.Path{{Name: n.Name()}}, []byte(is.json("")))
		default:
			_, err = tree.Amend(context.Background(), yang.Replace, yang.Path{{Name: n.Name()}}, []byte(is.json("")))
		}
	}
	after, want := c.print(tree), before
	if err == nil && v.message == "" {
		fresh := c.s.NewTree()
		defer fresh.Close()
		if _, err := fresh.Edit(context.Background(), yang.Create, nil, []byte(tr.doc.json(""))); err != nil {
			return // said already
		}
		want = c.print(fresh)
	}
	if (err == nil) != (v.message == "") || after != want {
		c.t.Errorf("seed %d: %s in place: %s\nyanglint: %s\nedit: %v\nbefore %s\nafter  %s\nwanted %s", tr.seed, tr.what, tr.doc.json(""),
			v.message, err, before, after, want)
	}
}

// print is all there is to see of a tree.
func (c *comparison) print(tree *yang.Tree) string {
	out, err := tree.JSON(nil, yang.JSONOptions{Defaults: true})
	if err != nil {
		c.t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(out, &v); err != nil {
		c.t.Fatal(err)
	}
	sortEntries(c.s.Root(), v)
	if out, err = json.Marshal(v); err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}

// sortEntries brings lists whose order means nothing into one order.
func sortEntries(n *yang.Node, v any) {
	object, _ := v.(map[string]any)
	for name, value := range object {
		child := n.Child(name)
		entries, isList := value.([]any)
		if !isList {
			sortEntries(child, value)
			continue
		}
		for _, e := range entries {
			sortEntries(child, e)
		}
		if !child.UserOrdered() {
			slices.SortFunc(entries, func(a, b any) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		}
	}
}

// near reports whether two tools mean the same place. Where yanglint names no place, at the top, its message names the
// member. It leaves out the keys of entries in places of the schema, and names the node above for what is missing.
func (c *comparison) near(ours string, v verdict) bool {
	words := strings.Split(ours, "/")
	var place []string
	for n, i := c.s.Root(), 0; i < len(v.place); i++ {
		if next := n.Child(v.place[i].Name); next != nil { // choices and cases are no data
			n = next
			place = append(place, n.Name())
		}
	}
	if len(place) == 0 {
		named := strings.Split(v.message, `"`)
		return len(named) == 1 || slices.ContainsFunc(named, func(name string) bool { return slices.Contains(words, name) })
	}
	i := 0
	for _, word := range words {
		if i < len(place) && place[i] == word {
			i++
		}
	}
	return i == len(place) || i == len(place)-1 && i > 0
}
