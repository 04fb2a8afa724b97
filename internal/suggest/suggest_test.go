// SPDX-License-Identifier: Apache-2.0

package suggest

import (
	"slices"
	"strings"
	"testing"
)

func TestNear(t *testing.T) {
	verbs := []string{"add", "del", "show", "set"}
	members := []string{"ports", "fdb", "loglevel", "type", "uuid", "span", "shadow", "service-name"}
	tests := []struct {
		name, word string
		candidates []string
		want       string
	}{
		{"two letters swapped", "prots", members, "ports"},
		{"a letter too few", "port", members, "ports"},
		{"a letter too many", "portss", members, "ports"},
		{"another letter", "pirts", members, "ports"},
		{"another case", "PORTS", members, "ports"},
		{"the beginning of a word", "log", members, "loglevel"},
		{"the beginning of several", "s", members, ""},
		{"the beginning of several, two letters", "sh", members, "shadow"},
		{"a verb", "shwo", verbs, "show"},
		{"a short word, one mistake", "dell", verbs, "del"},
		{"a short word, two mistakes", "dog", verbs, ""},
		{"a long word, three mistakes", "sevrice-nam", members, "service-name"},
		{"nothing like it", "route", members, ""},
		{"the word itself is not news", "ports", []string{"ports", "port"}, "port"},
		{"only the nearest, by name", "br1", []string{"br3", "rb1", "br2", "br10", "bridge"}, "br10 br2 br3"},
		{"each once", "br1", []string{"br2", "br2"}, "br2"},
		{"letters that are not ASCII", "brücke", []string{"brucke", "Brücke"}, "Brücke"},
		{"one letter", "a", []string{"b", "ab"}, ""},
		{"one letter in another case", "A", []string{"a", "b"}, "a"},
		{"no word", "", members, ""},
		{"a word of a stranger", strings.Repeat("x", 65), []string{strings.Repeat("x", 64)}, ""},
		{"candidates of a stranger", "veth1", []string{"veth\n", "veth\x1b", "veth\xff", "", strings.Repeat("veth1", 20), "veth2"}, "veth2"},
	}
	for _, tt := range tests {
		if got := strings.Join(Near(tt.word, tt.candidates), " "); got != tt.want {
			t.Errorf("%s: %q is near %q, want %q", tt.name, tt.word, got, tt.want)
		}
	}
}

func TestOnlyTheFirstCandidatesAreCompared(t *testing.T) {
	all := slices.Repeat([]string{"nothing"}, widest)
	if got := Near("ports", append(all, "port")); got != nil {
		t.Errorf("candidate %d was compared: %q", widest+1, got)
	}
}

func TestQuestion(t *testing.T) {
	tests := []struct {
		words []string
		want  string
	}{
		{nil, ""},
		{[]string{"a"}, ": did you mean a?"},
		{[]string{"a", "b"}, ": did you mean a or b?"},
		{[]string{"a b", `"`}, `: did you mean "a b" or "\""?`},
		{[]string{"a", "b", "c"}, ": did you mean a, b or c?"},
	}
	for _, tt := range tests {
		if got := Question(tt.words); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.words, got, tt.want)
		}
	}
}

func FuzzNear(f *testing.F) {
	f.Add("prots", "ports")
	f.Add("\xff\xfe", "é")
	f.Fuzz(func(t *testing.T, word, candidate string) {
		near := Near(word, []string{candidate})
		back := Near(candidate, []string{word})
		d1, ok1 := distance(fold(word), fold(candidate), 3)
		d2, ok2 := distance(fold(candidate), fold(word), 3)
		if d1 != d2 || ok1 != ok2 {
			t.Errorf("%q and %q: %d %v there, %d %v back", word, candidate, d1, ok1, d2, ok2)
		}
		if len(near) > 1 || len(back) > 1 || slices.Contains(near, word) {
			t.Errorf("%q: %q, %q", word, near, back)
		}
	})
}
