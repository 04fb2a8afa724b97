// SPDX-License-Identifier: Apache-2.0

// Errors of a request, in the vocabulary of RESTCONF: the tag decides the HTTP status, the message is for people.

package yang

import (
	"errors"
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/suggest"
)

// Tag is a RESTCONF error tag.
type Tag string

// The tags that this package uses.
const (
	InvalidValue          Tag = "invalid-value"
	MissingAttribute      Tag = "missing-attribute"
	MissingElement        Tag = "missing-element"
	BadAttribute          Tag = "bad-attribute"
	BadElement            Tag = "bad-element"
	DataExists            Tag = "data-exists"
	DataMissing           Tag = "data-missing"
	OperationNotSupported Tag = "operation-not-supported"
)

// ErrNotFound is wrapped by the error of reading data that does not exist.
var ErrNotFound = errors.New("not found")

// Error is a request that the model refuses.
type Error struct {
	// Tag is the kind of error.
	Tag Tag
	// Path is the node as a URL path below the cube.
	Path string
	// Message is a sentence with the node, the value and what is allowed.
	Message string
	// Given is the wrong word or value, if there is a set of valid ones, and Near are suggestions.
	Given string
	Near  []string
	// Errs are all errors if there are several; the first is this one.
	Errs []*Error
}

// Error returns the message, and how many more errors there are.
func (e *Error) Error() string {
	if len(e.Errs) > 1 {
		return fmt.Sprintf("%s (and %d more)", e.Message, len(e.Errs)-1)
	}
	return e.Message
}

// Is makes a data-missing error match [ErrNotFound].
func (e *Error) Is(target error) bool {
	return target == ErrNotFound && e.Tag == DataMissing
}

// PartialKeysError is a path that ends within the keys of a list.
type PartialKeysError struct {
	// List is the list whose keys are incomplete.
	List *Node
	// Path leads to the list; the keys that were given are not part of it.
	Path Path
	// Given are the given keys, in model order.
	Given []string
}

// Error names the missing keys.
func (e *PartialKeysError) Error() string {
	var missing []string
	for _, k := range e.List.Keys()[len(e.Given):] {
		missing = append(missing, k.Name())
	}
	return fmt.Sprintf("%s: %d of %d keys given, missing: %s", e.Path.Words(), len(e.Given), len(e.List.Keys()),
		strings.Join(missing, ", "))
}

// fault returns an error about the node at p.
func fault(tag Tag, p Path, format string, args ...any) *Error {
	e := &Error{Tag: tag, Path: p.String(), Message: fmt.Sprintf(format, args...)}
	if words := p.Words(); words != "" {
		e.Message = words + ": " + e.Message
	}
	for _, arg := range args {
		if cause, ok := arg.(*unknownError); ok {
			e.Given, e.Near = cause.given, cause.near
		}
	}
	return e
}

// unknownError is an unknown word.
type unknownError struct {
	sentence, given string
	near            []string
}

func (e *unknownError) Error() string { return e.sentence }

func unknown(given string, known []string, format string, args ...any) *unknownError {
	return &unknownError{sentence: fmt.Sprintf(format, args...), given: given, near: suggest.Near(given, known)}
}

// join joins several errors into one.
func join(errs []*Error) error {
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	}
	first := *errs[0]
	first.Errs = errs
	return &first
}

// shorten keeps a value that is quoted in a message readable.
func shorten(value string) string {
	const most = 64
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "..."
}
