// SPDX-License-Identifier: Apache-2.0

package lint

// Quotations in documents: a guide that shows code shows the code that is there.

import (
	"bytes"
	"strings"
)

// Quotes reports fenced blocks of Markdown that name a file after their language ("```c
// cubes/helloworld/helloworld.bpf.c") and contain text that is not in it. A line with only "..." stands for omitted
// lines.
func Quotes(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isMarkdown) {
		for _, q := range quotes(t[name]) {
			what := ""
			switch source, ok := t[q.file]; {
			case !ok:
				what = "quotes " + q.file + ", which is not a tracked file"
			case !quotedFrom(source, q.text):
				what = "shows what is not in " + q.file
			}
			if what != "" {
				out = append(out, Finding{name, q.line, what, "quote the file as it is now"})
			}
		}
	}
	return out
}

// quote is a fenced block that names a file.
type quote struct {
	line int
	file string
	text []string
}

func quotes(data []byte) []quote {
	var out []quote
	var open *quote
	fenced := false
	for i, line := range strings.Split(string(data), "\n") {
		info, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			if open != nil {
				out = append(out, *open)
			}
			fenced, open = false, nil
		case isFence:
			fenced = true
			// "file=" tells a reader of a guide to create a file.
			if words := strings.Fields(info); len(words) == 2 && !strings.HasPrefix(words[1], "file=") {
				open = &quote{line: i + 1, file: words[1]}
			}
		case open != nil:
			open.text = append(open.text, line)
		}
	}
	return out
}

// quotedFrom reports whether the parts between "..." are in the source, in order.
func quotedFrom(source []byte, text []string) bool {
	for part := range strings.SplitSeq(strings.Join(text, "\n")+"\n", "...\n") {
		_, after, found := bytes.Cut(source, []byte(part))
		if !found {
			return false
		}
		source = after
	}
	return true
}
