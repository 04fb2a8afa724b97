// SPDX-License-Identifier: Apache-2.0

package fault

// Where libyang says that something is wrong.

import "strings"

// Quoted returns the first quoted text of a message. Text quoted by libyang may contain quotes; it then ends where
// the message continues.
func Quoted(msg string) string {
	_, rest, ok := strings.Cut(msg, `"`)
	if !ok {
		return ""
	}
	for _, end := range []string{`" - no target`, `" not satisfied`, `" instance`, `" data do not`} {
		if text, _, ok := strings.Cut(rest, end); ok {
			return text
		}
	}
	text, _, _ := strings.Cut(rest, `"`)
	return text
}

// Location parses the path in libyang's description of a location, such as Data location "/m:list[k='v']/leaf".
func Location(place string) Path {
	if _, after, ok := strings.Cut(place, `location "`); ok {
		place = after
		for _, end := range []string{`", line`, `", data`, `".`} {
			if i := strings.LastIndex(place, end); i >= 0 {
				place = place[:i]
			}
		}
	}
	var p Path
	for strings.HasPrefix(place, "/") {
		end := strings.IndexAny(place[1:], "/[") + 1
		if end == 0 {
			end = len(place)
		}
		step := Step{Name: Bare(place[1:end])}
		place = place[end:]
		for strings.HasPrefix(place, "[") {
			key, rest, ok := parsePredicate(place)
			if !ok {
				return append(p, step)
			}
			step.Keys = append(step.Keys, key)
			place = rest
		}
		p = append(p, step)
	}
	return p
}

// parsePredicate reads [name='value'] and returns the value and what follows.
func parsePredicate(s string) (key, rest string, ok bool) {
	i := strings.IndexByte(s, '=')
	if i < 0 || i+1 >= len(s) || (s[i+1] != '\'' && s[i+1] != '"') {
		return "", "", false
	}
	key, rest, ok = strings.Cut(s[i+2:], s[i+1:i+2]+"]")
	return key, rest, ok
}

// Bare removes the prefix of a name.
func Bare(name string) string { return name[strings.LastIndexByte(name, ':')+1:] }

// nativePrefixes are the prefixes of libyang's own messages about values.
var nativePrefixes = []string{"Invalid ", "Unsatisfied ", "Value ", "Unsupported ", "Failed ", "Internal ", "Leafref ", "Base64 ",
	"Unexpected ", "Duplicate ", "Conversion ", "libyang error"}

// CustomMessage returns an error-message of the model, "" for a message of libyang itself.
func CustomMessage(msg string) string {
	if msg == "" {
		return ""
	}
	for _, s := range nativePrefixes {
		if strings.HasPrefix(msg, s) {
			return ""
		}
	}
	return strings.TrimSuffix(msg, ".")
}
