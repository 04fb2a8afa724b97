// SPDX-License-Identifier: Apache-2.0

package cube

import "errors"

// The kinds of error that a caller can distinguish. Wrap them with a sentence that says what was being done:
// fmt.Errorf("simplebridge br1: port p9: %w", cube.ErrNotFound). One switch in the REST server maps them to statuses.
var (
	// ErrNotFound: the named thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists: an object with that name exists already.
	ErrExists = errors.New("already exists")
	// ErrInvalid: the request can never succeed in this form.
	ErrInvalid = errors.New("invalid")
	// ErrInUse: valid, but refused because something else uses the resource.
	ErrInUse = errors.New("in use")
	// ErrUnsupported: not possible on this kernel, device or hook.
	ErrUnsupported = errors.New("not supported")
	// ErrStale: the request was made for an earlier state of what it changes.
	ErrStale = errors.New("changed meanwhile")
	// ErrUnavailable: a required resource is missing at the moment; it may work later.
	ErrUnavailable = errors.New("not available at the moment")
	// ErrFull: a table or an identifier space is full.
	ErrFull = errors.New("full")
	// ErrRefused: the kernel refuses a program of a cube.
	ErrRefused = errors.New("refused by the kernel")
)
