// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"regexp"

	"github.com/spf13/pflag"

	"github.com/polycube/polycube/internal/suggest"
)

// A wrong option is answered with the right one.

// didYouMean is the end of the error about an unknown option, with similar options.
func didYouMean(f *pflag.FlagSet, prefix, word string) string {
	var known []string
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			known = append(known, prefix+flag.Name)
		}
	})
	return suggest.Question(suggest.Near(prefix+word, known))
}

var unknownFlag = regexp.MustCompile(`^unknown flag: --(.+)$`)

// explainFlag adds similar options to the error of a command line.
func explainFlag(f *pflag.FlagSet, err error) error {
	if m := unknownFlag.FindStringSubmatch(err.Error()); m != nil {
		return fmt.Errorf("%w%s", err, didYouMean(f, "--", m[1]))
	}
	return err
}
