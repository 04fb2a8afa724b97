// SPDX-License-Identifier: Apache-2.0

package reference

// From headers to the document, and back to its costs.

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Document is where the reference is, from the top of the repository.
const Document = "docs/reference/helpers.md"

// Costs are the measured costs of each helper by name: a sentence, such as "2.1 ns at TC, 1.9 ns at XDP".
type Costs map[string]string

// Figures are the costs of the helpers: per packet, and for verifier and stack.
type Figures struct{ Costs, Weights Costs }

const opening = `# Helpers for cube programs

The functions and macros that ` + "`#include <pcn/cube.h>`" + ` provides, by header. ` + "`make reference`" + ` generates this page from the
comments in ` + "`bpf/include/pcn`" + `. ` + "`make bench`" + ` (its part ` + "`helpers`" + `) measures the costs: the nanoseconds that one use adds to a
packet, as the median over rounds of ` + "`BPF_PROG_TEST_RUN`" + ` on the machine of [performance](../performance.md), with warm caches.
Helpers that return a verdict are measured together with the framework's handling of that verdict, relative to
` + "`pcn_pkt_drop`" + `. The same part determines the weights: the number of additional instructions that the verifier of Linux 6.18
processes when a program uses the helper once, where an instruction counts each time it is processed, and the bytes of stack
used by the helper and the functions it calls. Small differences are due to the compiler. Declarations and helpers that are
folded into constants add no instructions. Unless stated otherwise, every helper works at both hooks. Packet pointers,
including those of a cursor, are valid until a helper is called that is documented to move packet bytes.

`

// Beginnings of the lines with figures.
const (
	measured = "Cost: "
	weighed  = "Weight: "
)

// Render writes the document.
func Render(headers []Header, figures Figures) []byte {
	var b strings.Builder
	b.WriteString(opening)
	for _, h := range headers {
		if len(h.Helpers) == 0 {
			continue
		}
		fmt.Fprintf(&b, "## %s\n\n%s\n\n", h.Name, wrap(h.About))
		for i := 0; i < len(h.Helpers); {
			n := 1 // those that share a comment are shown together
			for i+n < len(h.Helpers) && h.Helpers[i+n].Doc == h.Helpers[i].Doc {
				n++
			}
			entry(&b, h.Helpers[i:i+n], figures)
			i += n
		}
	}
	return []byte(strings.TrimRight(b.String(), "\n") + "\n")
}

// entry writes helpers of one comment.
func entry(b *strings.Builder, helpers []Helper, figures Figures) {
	var names []string
	for _, h := range helpers {
		names = append(names, "`"+h.Name+"`")
	}
	fmt.Fprintf(b, "### %s\n\n```c\n", strings.Join(names, ", "))
	for _, h := range helpers {
		fmt.Fprintln(b, h.Signature)
	}
	doc := helpers[0].Doc
	if hook := helpers[0].Hook; hook != "" {
		doc += " At " + hook + " only."
	}
	fmt.Fprintf(b, "```\n\n%s\n\n", wrap(doc))
	for _, h := range helpers {
		if cost := figures.Costs[h.Name]; cost != "" {
			fmt.Fprintf(b, "%s`%s` %s.\n\n", measured, h.Name, cost)
		}
		if weight := figures.Weights[h.Name]; weight != "" {
			fmt.Fprintf(b, "%s`%s` %s.\n\n", weighed, h.Name, weight)
		}
	}
}

// columns is the line width, as in the hand-written documents.
const columns = 120

func wrap(text string) string {
	var b strings.Builder
	length := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case length+1+len(word) > columns:
			b.WriteByte('\n')
			length = 0
		default:
			b.WriteByte(' ')
			length++
		}
		b.WriteString(word)
		length += len(word)
	}
	return b.String()
}

var figureLine = regexp.MustCompile("(?m)^(" + measured + "|" + weighed + ")`(\\w+)` (.*)\\.$")

// FiguresOf reads the figures out of a document that Render wrote.
func FiguresOf(document []byte) Figures {
	f := Figures{Costs{}, Costs{}}
	for _, m := range figureLine.FindAllSubmatch(document, -1) {
		of := f.Costs
		if string(m[1]) == weighed {
			of = f.Weights
		}
		of[string(m[2])] = string(m[3])
	}
	return f
}

// Write writes the document of a repository. It keeps its figures except for those that were measured again.
func Write(root string, fresh Figures) error {
	paths, err := filepath.Glob(filepath.Join(root, Headers, "*.h"))
	if err != nil || len(paths) == 0 {
		return errors.Join(err, fmt.Errorf("no header in %s", Headers))
	}
	files := map[string][]byte{}
	for _, name := range paths {
		if files[Headers+filepath.Base(name)], err = os.ReadFile(name); err != nil {
			return fmt.Errorf("reading the headers: %w", err)
		}
	}
	document := filepath.Join(root, Document)
	old, err := os.ReadFile(document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the figures measured before: %w", err)
	}
	figures := FiguresOf(old)
	maps.Copy(figures.Costs, fresh.Costs)
	maps.Copy(figures.Weights, fresh.Weights)
	if err := os.MkdirAll(filepath.Dir(document), 0o755); err != nil {
		return fmt.Errorf("the folder of the reference: %w", err)
	}
	if err := os.WriteFile(document, Render(Parse(files), figures), 0o644); err != nil {
		return fmt.Errorf("writing the reference: %w", err)
	}
	return nil
}
