// SPDX-License-Identifier: Apache-2.0

// Package suggest finds candidates for a mistyped word. The daemon and the command line share it, so that both behave
// the same: in doubt they suggest nothing.
package suggest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// most is how many candidates are useful; more would be a list to search.
	most = 3
	// longest is the maximum size in bytes of a mistyped word and of a candidate to compare: both may come from
	// untrusted clients.
	longest = 64
	// widest limits the number of candidates to compare.
	widest = 10000
)

// Near returns the candidates for a mistyped word, those with the fewest mistakes, at most three. Case is ignored; a
// candidate that starts with the word counts as one mistake away, as do two swapped letters. The word itself is never
// among them, nor is a candidate that cannot be shown on one line.
func Near(word string, candidates []string) []string {
	if word == "" || len(word) > longest {
		return nil
	}
	typed := fold(word)
	var found []scored
	for _, c := range candidates[:min(len(candidates), widest)] {
		if c == word || !showable(c) || slices.ContainsFunc(found, func(s scored) bool { return s.word == c }) {
			continue
		}
		if d, ok := mistakes(typed, fold(c)); ok {
			found = append(found, scored{c, d})
		}
	}
	slices.SortStableFunc(found, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.distance, b.distance), strings.Compare(a.word, b.word))
	})
	var out []string
	for _, s := range found[:min(len(found), most)] {
		if s.distance == found[0].distance {
			out = append(out, s.word)
		}
	}
	return out
}

// Question asks whether one of the words was meant, as the end of a sentence: `: did you mean a, b or c?`. Without
// words it is empty.
func Question(words []string) string {
	shown := make([]string, len(words))
	for i, w := range words {
		shown[i] = w
		if strings.ContainsAny(w, " \"'") {
			shown[i] = fmt.Sprintf("%q", w)
		}
	}
	switch n := len(shown); n {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(": did you mean %s?", shown[0])
	default:
		return fmt.Sprintf(": did you mean %s or %s?", strings.Join(shown[:n-1], ", "), shown[n-1])
	}
}

// scored is a candidate and its distance from what was typed.
type scored struct {
	word     string
	distance int
}

func fold(s string) []rune { return []rune(strings.ToLower(s)) }

func showable(s string) bool {
	return s != "" && len(s) <= longest && utf8.ValidString(s) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// allowed is how many mistakes a word of n letters may have: two short words are always similar, which means nothing.
func allowed(n int) int {
	switch {
	case n < 2:
		return 0
	case n < 5:
		return 1
	case n < 8:
		return 2
	default:
		return 3
	}
}

// mistakes is the distance of two words, and whether it is plausible.
func mistakes(typed, candidate []rune) (int, bool) {
	limit := allowed(len(typed))
	if len(typed) > 1 && len(candidate) > len(typed) {
		limit = allowed(len(typed) + 1)
	}
	if d, ok := distance(typed, candidate, limit); ok {
		return d, true
	}
	begins := len(typed) > 1 && len(typed) < len(candidate) && slices.Equal(typed, candidate[:len(typed)])
	return 1, begins
}

// distance counts the letters to insert, delete, replace or swap with their neighbour to turn a into b (optimal string
// alignment, after Damerau 1964), up to a limit.
func distance(a, b []rune, limit int) (int, bool) {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return 0, false
	}
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(above[j]+1, row[j-1]+1, above[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)], above[len(b)] <= limit
}
