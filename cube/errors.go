// SPDX-License-Identifier: Apache-2.0

package cube

import "errors"

// The kinds of error that a caller can act on. Wrap them with a sentence that says what
// was being done: fmt.Errorf("simplebridge br1: port p9: %w", cube.ErrNotFound). One
// switch in the REST server maps them to statuses.
var (
	// ErrNotFound: the thing named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: a thing with that name is there already.
	ErrExists = errors.New("already exists")
	// ErrInvalid: the request can never be right as it is.
	ErrInvalid = errors.New("invalid")
	// ErrInUse: right in itself, refused because something else holds the resource.
	ErrInUse = errors.New("in use")
	// ErrUnsupported: not possible on this kernel, device or hook.
	ErrUnsupported = errors.New("not supported")
	// ErrStale: the request was made for an earlier state of what it changes.
	ErrStale = errors.New("changed meanwhile")
	// ErrUnavailable: what it takes is not there at the moment, it may work later.
	ErrUnavailable = errors.New("not available at the moment")
	// ErrFull: a table or an identifier space has no room left.
	ErrFull = errors.New("full")
	// ErrRefused: the kernel does not run a program of a cube as it is.
	ErrRefused = errors.New("refused by the kernel")
)
