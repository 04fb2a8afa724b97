// SPDX-License-Identifier: Apache-2.0

package world

// The missing object is data beside the message, so that a client that answers a user can list the existing objects.

import "fmt"

// AbsentError is the error of a request that names an object that does not exist. It wraps cube.ErrNotFound.
type AbsentError struct {
	// Kind is netdev, cube or port; Cube is the port's cube.
	Kind, Name, Cube string
	Err              error
}

// Error names the missing object; a long name is shortened.
func (a *AbsentError) Error() string {
	of := ""
	if a.Cube != "" {
		of = fmt.Sprintf(" of %.80s", a.Cube)
	}
	return fmt.Sprintf("%s %.80s%s: %v", a.Kind, a.Name, of, a.Err)
}

// Unwrap returns the reason why it is missing.
func (a *AbsentError) Unwrap() error { return a.Err }
