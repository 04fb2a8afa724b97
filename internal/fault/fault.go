// SPDX-License-Identifier: Apache-2.0

// Package fault says what is wrong with a request, and where: paths into a cube's data, and errors in the vocabulary of
// RESTCONF, whose tag decides the HTTP status and whose message is for people.
package fault

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

// About notes the wrong word or value that the message is about.
func (e *Error) About(given string) *Error {
	e.Given = given
	return e
}

// Is makes a data-missing error match [ErrNotFound].
func (e *Error) Is(target error) bool {
	return target == ErrNotFound && e.Tag == DataMissing
}

// At returns an error about the node at p.
func At(tag Tag, p Path, format string, args ...any) *Error {
	e := &Error{Tag: tag, Path: p.String(), Message: fmt.Sprintf(format, args...)}
	if words := p.Words(); words != "" {
		e.Message = words + ": " + e.Message
	}
	for _, arg := range args {
		if cause, ok := arg.(*UnknownError); ok {
			e.Given, e.Near = cause.Given, cause.Near
		}
	}
	return e
}

// UnknownError is an unknown word, and what may have been meant.
type UnknownError struct {
	Sentence, Given string
	Near            []string
}

// Error returns the sentence.
func (e *UnknownError) Error() string { return e.Sentence }

// Unknown returns the error about a word that is none of the known ones.
func Unknown(given string, known []string, format string, args ...any) *UnknownError {
	return &UnknownError{Sentence: fmt.Sprintf(format, args...), Given: given, Near: suggest.Near(given, known)}
}

// Join joins several errors into one.
func Join(errs []*Error) error {
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

// Shorten keeps a value that is quoted in a message readable.
func Shorten(value string) string {
	const most = 64
	if len(value) <= most {
		return value
	}
	return strings.ToValidUTF8(value[:most], "") + "..."
}
