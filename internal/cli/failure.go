// SPDX-License-Identifier: Apache-2.0

// What the daemon refuses, it explains in RESTCONF's error JSON; people get the
// sentences, one a line, and anything else as it came.

package cli

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/cli/output"
)

// sentences is the text of an answer that is no success.
func sentences(a answer) string {
	if text := restconfSentences(a.body); text != "" {
		return text
	}
	if text := strings.TrimSpace(output.CleanText(string(a.body))); text != "" {
		return text
	}
	return output.Clean(a.line)
}

// globbed is a further line where the last word is the name of a file of one
// letter: the shell puts that in place of "?".
func globbed(words []string) string {
	if len(words) < 2 {
		return ""
	}
	last := words[len(words)-1]
	if _, err := os.Lstat(last); err != nil || utf8.RuneCountInString(last) != 1 {
		return ""
	}
	return fmt.Sprintf("If you typed ?, the shell made %q of it, the name of a file here: write \\? or -h.\n", output.Clean(last))
}

func restconfSentences(body []byte) string {
	v, err := output.DecodeJSON(body)
	if err != nil {
		return ""
	}
	envelope, _ := v.Get("ietf-restconf:errors")
	list, _ := envelope.Get("error")
	var lines []string
	for _, e := range list.Items {
		if s := errorSentence(e); s != "" {
			lines = append(lines, output.Clean(s))
		}
		lines = append(lines, details(e)...)
	}
	return strings.Join(lines, "\n")
}

// details are the lines that an error has beside its sentence.
func details(e output.Value) []string {
	detail, _ := e.Get("error-detail")
	out := make([]string, len(detail.Items))
	for i, l := range detail.Items {
		out[i] = "  " + output.Clean(l.Text)
	}
	return out
}

// errorSentence makes do with tag, info and path where the message is missing.
func errorSentence(e output.Value) string {
	if s := e.TextOf("error-message"); s != "" {
		return s
	}
	s := e.TextOf("error-tag")
	if info, ok := e.Get("error-info"); ok && info.IsLeaf() {
		s += ": " + info.Text
	} else if ok {
		s += ": " + string(info.AppendJSON(nil))
	}
	if path := e.TextOf("error-path"); path != "" {
		s += " (" + path + ")"
	}
	return s
}
