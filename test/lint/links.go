// SPDX-License-Identifier: Apache-2.0

package lint

// Links between documents: a file that moves must not break them.

import (
	"path"
	"regexp"
	"strings"
	"unicode"
)

var (
	inlineCode = regexp.MustCompile("`[^`]*`")
	linkTarget = regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?[^)]*\)|^\s*\[[^\]]+\]:\s*(\S+)`)
	scheme     = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9+.-]*:`)
)

// Links reports links in Markdown whose file or heading is not in the tree. Links to other sites are not followed.
func Links(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isMarkdown) {
		eachProseLine(t[name], func(number int, line string) {
			for _, m := range linkTarget.FindAllStringSubmatch(inlineCode.ReplaceAllString(line, ""), -1) {
				target := m[1] + m[2]
				if what := linkError(t, name, target); what != "" {
					out = append(out, Finding{name, number, "links to " + target + ": " + what,
						"point the link at where the text is now"})
				}
			}
		})
	}
	return out
}

func linkError(t Tree, from, target string) string {
	if scheme.MatchString(target) || strings.HasPrefix(target, "//") {
		return ""
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	resolved := from
	if file != "" {
		resolved = path.Join(path.Dir(from), file)
	}
	data, isFile := t[resolved]
	switch {
	case path.IsAbs(file):
		return "a link is relative to its document"
	case !isFile && resolved != "." && !t.HasDir(resolved):
		return "there is no such tracked file or folder"
	case hasAnchor && isFile && isMarkdown(resolved) && !headings(data)[anchor]:
		return "there is no such heading"
	}
	return ""
}

// headings returns the anchors of a document, generated as the usual viewers do.
func headings(data []byte) map[string]bool {
	anchors := map[string]bool{}
	eachProseLine(data, func(_ int, line string) {
		text := strings.TrimLeft(line, "#")
		if text == line || !strings.HasPrefix(text, " ") {
			return
		}
		anchor := strings.Map(func(r rune) rune {
			switch {
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			case r == ' ':
				return '-'
			}
			return -1
		}, strings.TrimSpace(text))
		anchors[anchor] = true
	})
	return anchors
}

// eachProseLine visits the lines outside fenced blocks.
func eachProseLine(data []byte, visit func(number int, line string)) {
	fence := ""
	for i, line := range strings.Split(string(data), "\n") {
		trimmed := strings.TrimSpace(line)
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) {
				fence = ""
			}
		case strings.HasPrefix(trimmed, "```"):
			fence = "```"
		case strings.HasPrefix(trimmed, "~~~"):
			fence = "~~~"
		default:
			visit(i+1, line)
		}
	}
}
