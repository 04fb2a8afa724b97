// SPDX-License-Identifier: Apache-2.0

package lint

// Words that an engineer of the field would not search for, or would not use. Descriptions of models are the API: REST,
// the command line and OpenAPI show them.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// poorWords are parts of identifiers and file names, with words to use instead.
var poorWords = map[string]string{
	"anew":     "recreate, rebuild, reattach",
	"beside":   "background, sibling, peer",
	"bring":    "restore, create, apply",
	"deaf":     "without the feature",
	"dress":    "set, configure",
	"favour":   "priority",
	"heard":    "received, seen, notified",
	"insist":   "ensure, retry",
	"nobody":   "unknown, none",
	"outsider": "external",
	"spared":   "retained",
	"undress":  "release, restore",
	"upward":   "from the fast path, to user space",
	"weed":     "remove",
}

// poorPhrases are phrases in the descriptions of models.
var poorPhrases = regexp.MustCompile(`(?i)\b(whoever|besides|beside|anew|goes on|is told|are told|that there (?:is|are)|as long as there (?:is|are)|taken away|takes away|a port more)\b`)

// poorTexts are phrases in errors, log messages, help and metrics: the strings of shipped Go files.
var poorTexts = regexp.MustCompile(`(?i)\b(whoever|besides?|anew|goes on|go on|is told|are told|(?:is|are) wanted|not understood|ha(?:s|ve) to be|any more|somebody|nobody|others than|exclude each other|is none of|(?:a|the) maps? inside|maps inside|taken away|takes away|(?:it|they) (?:is|are) no|that there (?:is|are))\b`)

// PlainNames finds poor words in the identifiers and the names of shipped Go files.
func PlainNames(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isShippedGo) {
		base, _, _ := strings.Cut(path.Base(name), ".")
		if word := poorWord(base); word != "" {
			out = append(out, poor(name, 0, path.Base(name), word))
		}
		fset, file, _ := parseGo(name, t[name], parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		seen := map[string]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			id, ok := n.(*ast.Ident)
			if !ok || seen[id.Name] {
				return true
			}
			seen[id.Name] = true
			if word := poorWord(id.Name); word != "" {
				out = append(out, poor(name, fset.Position(id.Pos()).Line, id.Name, word))
			}
			return true
		})
	}
	return out
}

func poor(name string, line int, what, word string) Finding {
	return Finding{name, line, fmt.Sprintf("%s: nobody searches for %q", what, word), "use a word of the field: " + poorWords[word]}
}

// poorWord returns the first poor word in a name.
func poorWord(name string) string {
	i := slices.IndexFunc(wordsOf(name), func(w string) bool { return poorWords[w] != "" })
	if i < 0 {
		return ""
	}
	return wordsOf(name)[i]
}

// wordsOf splits a name at underscores, dashes and capital letters.
func wordsOf(name string) []string {
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
		}
		if r == '_' || r == '-' {
			r = ' '
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.Fields(b.String())
}

// PlainDescriptions finds poor phrases in models.
func PlainDescriptions(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(func(name string) bool { return strings.HasSuffix(name, ".yang") && !strings.Contains(name, "testdata") }) {
		for i, line := range strings.Split(string(t[name]), "\n") {
			if phrase := poorPhrases.FindString(line); phrase != "" {
				out = append(out, Finding{name, i + 1, fmt.Sprintf("%q reads as a translation", phrase),
					"name the thing, with the verbs of the field"})
			}
		}
	}
	return out
}

// PlainTexts finds poor phrases in the strings of shipped Go files.
func PlainTexts(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isShippedGo) {
		fset, file, _ := parseGo(name, t[name], parser.SkipObjectResolution)
		if file == nil {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text, ok := n.(*ast.BasicLit)
			if !ok || text.Kind != token.STRING {
				return true
			}
			if phrase := poorTexts.FindString(text.Value); phrase != "" {
				out = append(out, Finding{name, fset.Position(text.Pos()).Line, fmt.Sprintf("%q reads as a translation", phrase),
					"say what is expected, or what happened, with the verbs of the field"})
			}
			return true
		})
	}
	return out
}
