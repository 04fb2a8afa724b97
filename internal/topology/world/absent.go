// SPDX-License-Identifier: Apache-2.0

package world

// What is missing is told as data beside the sentence: whoever answers a person can name what there is instead.

import "fmt"

// AbsentError is a request that names what does not exist. It wraps cube.ErrNotFound.
type AbsentError struct {
	// Kind is netdev, cube or port; Cube is the port's.
	Kind, Name, Cube string
	Err              error
}

// Error names what is missing; a long name is cut.
func (a *AbsentError) Error() string {
	of := ""
	if a.Cube != "" {
		of = fmt.Sprintf(" of %.80s", a.Cube)
	}
	return fmt.Sprintf("%s %.80s%s: %v", a.Kind, a.Name, of, a.Err)
}

// Unwrap returns why it is missing.
func (a *AbsentError) Unwrap() error { return a.Err }
