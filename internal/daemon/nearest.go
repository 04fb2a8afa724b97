// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/internal/suggest"
)

// A wrong option is answered with the right one: who mistypes knows what the option is for.

// meant is the end of a sentence about an unknown option, with the options that are near.
func meant(f *pflag.FlagSet, prefix, word string) string {
	var known []string
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			known = append(known, prefix+flag.Name)
		}
	})
	return suggest.Question(suggest.Near(prefix+word, known))
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// explainFlag adds the nearest options to the error of a command line.
func explainFlag(f *pflag.FlagSet, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%w%s", err, meant(f, "--", m[1]))
	}
	return err
}
