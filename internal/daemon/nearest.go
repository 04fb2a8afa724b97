// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/pflag"
)

// A wrong option is answered with the right one: who mistypes knows what the option is for.

// nearestOption is the option of the flag set that a word was probably meant to be, "" when none is near.
func nearestOption(f *pflag.FlagSet, word string) string {
	best, least := "", max(2, len(word)/3)+1
	f.VisitAll(func(flag *pflag.Flag) {
		if flag.Hidden {
			return
		}
		d := distance(word, flag.Name)
		if len(word) > 2 && (strings.HasPrefix(flag.Name, word) || strings.HasSuffix(flag.Name, "-"+word)) {
			d = 1
		}
		if d < least {
			best, least = flag.Name, d
		}
	})
	return best
}

// distance counts the letters to insert, delete, replace or swap with the next to turn a into b
// (optimal string alignment).
func distance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	before, last, now := rows[0], rows[1], rows[2]
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// meant is the end of a sentence about an unknown option.
func meant(f *pflag.FlagSet, prefix, word string) string {
	if near := nearestOption(f, word); near != "" {
		return fmt.Sprintf(": did you mean %s%s?", prefix, near)
	}
	return ""
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// explainFlag adds the nearest option to the error of a command line.
func explainFlag(f *pflag.FlagSet, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%w%s", err, meant(f, "--", m[1]))
	}
	return err
}
