// SPDX-License-Identifier: Apache-2.0

// The daemon explains refusals in RESTCONF's error JSON; people get the messages, one per line, and anything else
// unchanged.

package cli

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/cli/output"
)

// sentences is the text of an error response.
func sentences(a answer) string {
	if text := restconfSentences(a.body); text != "" {
		return text
	}
	if text := strings.TrimSpace(output.CleanText(string(a.body))); text != "" {
		return text
	}
	return output.Clean(a.line)
}

// globHint is an additional line if the last word is the name of a one-letter file: the shell replaces "?" with it.
func globHint(words []string) string {
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

// details are the additional lines of an error.
func details(e output.Value) []string {
	detail, _ := e.Get("error-detail")
	out := make([]string, len(detail.Items))
	for i, l := range detail.Items {
		out[i] = "  " + output.Clean(l.Text)
	}
	return out
}

// errorSentence falls back to tag, info and path if there is no message.
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
