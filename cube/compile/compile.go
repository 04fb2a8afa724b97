// SPDX-License-Identifier: Apache-2.0

// Package compile lets a cube compile C that a user gives it, where a compiler is installed.
package compile

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Source is a program in C. It includes the headers of <pcn/...>, which come with the daemon, and those of the machine.
type Source struct {
	// Name is the name of the file in the compiler's messages: letters, digits, dots, dashes.
	Name string
	Text []byte
	Hook cube.Hook
	// Defines are macros, NAME or NAME=VALUE.
	Defines []string
}

// Error has what a compiler said.
type Error struct {
	// Lines are all lines.
	Lines []string
	// Kind is cube.ErrInvalid or cube.ErrUnsupported.
	Kind error
}

// Error returns the first error among the lines, with its place.
func (e *Error) Error() string {
	at := max(slices.IndexFunc(e.Lines, func(l string) bool { return strings.Contains(l, "error:") }), 0)
	return e.Lines[at] + ": " + e.Kind.Error()
}

// Unwrap returns the kind.
func (e *Error) Unwrap() error { return e.Kind }

// Detail returns the lines, which are shown below the error.
func (e *Error) Detail() []string { return e.Lines }

// Compiler is an Env whose cube can compile. Those of external services cannot.
type Compiler interface {
	// Compile returns the object (ELF). An error wraps cube.ErrInvalid and has all messages of the compiler, or
	// cube.ErrUnsupported and says what to install. It ends with the context.
	Compile(ctx context.Context, s Source) ([]byte, error)
}

// With compiles a source with an Env.
func With(ctx context.Context, env cube.Env, s Source) ([]byte, error) {
	if c, ok := env.(Compiler); ok {
		return c.Compile(ctx, s)
	}
	return nil, fmt.Errorf("this cube cannot compile C; give it a compiled object: %w", cube.ErrUnsupported)
}
