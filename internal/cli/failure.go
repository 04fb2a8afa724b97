// SPDX-License-Identifier: Apache-2.0

// What the daemon refuses, it explains in RESTCONF's error JSON; people get the
// sentences, one a line, and anything else as it came.

package cli

import (
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// sentences is the text of an answer that is no success.
func sentences(a answer) string {
	if text := restconfSentences(a.body); text != "" {
		return text
	}
	if text := strings.TrimSpace(cleanText(string(a.body))); text != "" {
		return text
	}
	return clean(a.line)
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
	return fmt.Sprintf("If you typed ?, the shell made %q of it, the name of a file here: write \\? or -h.\n", clean(last))
}

func restconfSentences(body []byte) string {
	v, err := decodeJSON(body)
	if err != nil {
		return ""
	}
	envelope, _ := v.get("ietf-restconf:errors")
	list, _ := envelope.get("error")
	var lines []string
	for _, e := range list.items {
		if s := errorSentence(e); s != "" {
			lines = append(lines, clean(s))
		}
		lines = append(lines, details(e)...)
	}
	return strings.Join(lines, "\n")
}

// details are the lines that an error has beside its sentence.
func details(e value) []string {
	detail, _ := e.get("error-detail")
	out := make([]string, len(detail.items))
	for i, l := range detail.items {
		out[i] = "  " + clean(l.text)
	}
	return out
}

// errorSentence makes do with tag, info and path where the message is missing.
func errorSentence(e value) string {
	if s := e.string("error-message"); s != "" {
		return s
	}
	s := e.string("error-tag")
	if info, ok := e.get("error-info"); ok && info.isLeaf() {
		s += ": " + info.text
	} else if ok {
		s += ": " + string(info.appendJSON(nil))
	}
	if path := e.string("error-path"); path != "" {
		s += " (" + path + ")"
	}
	return s
}
