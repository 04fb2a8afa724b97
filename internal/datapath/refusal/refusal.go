// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Error is the verifier's no to a program.
type Error struct {
	// Place is the code in question. Where that cannot be told, it has neither cube nor function, and Among are the cubes of
	// the program.
	link.Place
	Among []link.Origin
	// Sentence is what the verifier says, Hint what may help, "" if the sentence is an unknown one.
	Sentence, Hint string
	// Log is the end of the verifier's way through the program.
	Log []string
	// Stack are the frames of the deepest chain of calls, where the stack is what is wrong.
	Stack []Frame
	// Loops are the places where the cube's code goes back, where there is too much of it.
	Loops []link.Line
	// Verified is how many instructions the verifier looked at, each as often as it came there; Instructions how many the
	// program has.
	Verified, Instructions int

	cause error
}

// Frame is what a function takes of the stack.
type Frame struct {
	link.Origin
	Bytes int
	// Inlined are the cubes whose code is in the frame's function.
	Inlined []string
}

// As returns the refusal that an error is of, nil if it is none.
func As(err error) *Error {
	var r *Error
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// Ours tells whether the fault is the framework's.
func (r *Error) Ours() bool { return r.Framework() && (r.Function != "" || len(r.Among) == 0) }

// who is the one at fault, for the beginning of a sentence.
func (r *Error) who() string {
	switch {
	case !r.Framework():
		return named(r.Origin)
	case r.Ours():
		return "the framework"
	}
	names := make([]string, len(r.Among))
	for i, o := range r.Among {
		names[i] = named(o)
	}
	return "one of " + strings.Join(names, ", ")
}

func named(o link.Origin) string {
	if o.Service == "" {
		return "cube " + o.Cube
	}
	return fmt.Sprintf("cube %s (%s)", o.Cube, o.Service)
}

// Error is one sentence.
func (r *Error) Error() string {
	what := "its program"
	if r.Function != "" {
		what = r.Function
	}
	if r.Line.File != "" {
		what += " at " + r.Line.String()
	}
	return fmt.Sprintf("%s: the kernel's verifier refuses %s: %s", r.who(), what, r.Sentence)
}

// Unwrap is the kernel's error, and cube.ErrRefused where the fault is a cube's.
func (r *Error) Unwrap() []error {
	if r.Ours() {
		return []error{r.cause}
	}
	return []error{cube.ErrRefused, r.cause}
}

// Detail is what an author needs beside the sentence, in lines.
func (r *Error) Detail() []string {
	var out []string
	if r.Caller.File != "" {
		out = append(out, fmt.Sprintf("%5d | %s", r.Caller.Number, strings.TrimSpace(r.Caller.Text)), "which uses "+r.Line.String()+":")
	}
	if r.Line.File != "" {
		out = append(out, fmt.Sprintf("%5d | %s", r.Line.Number, strings.TrimSpace(r.Line.Text)))
	}
	if len(r.Stack) > 0 {
		out = append(out, "Stack: "+r.stack())
	}
	if len(r.Loops) > 0 {
		out = append(out, "Loops: "+r.loops())
	}
	if r.Hint != "" {
		out = append(out, "Hint: "+r.Hint)
	}
	if len(r.Log) > 0 {
		out = append(out, "The verifier's last steps:")
		for _, l := range r.Log {
			out = append(out, "  "+l)
		}
	}
	if r.Instructions > 0 {
		out = append(out, fmt.Sprintf("It processed %d instructions of a program of %d.", r.Verified, r.Instructions))
	}
	return out
}

func (r *Error) stack() string {
	sum := 0
	frames := make([]string, len(r.Stack))
	for i, f := range r.Stack {
		sum += f.Bytes
		frames[i] = fmt.Sprintf("%s %d", f.Function, f.Bytes)
		if !f.Framework() {
			frames[i] = f.Cube + " " + frames[i]
		}
		if len(f.Inlined) > 0 {
			frames[i] += " (with " + strings.Join(f.Inlined, ", ") + " in it)"
		}
	}
	return fmt.Sprintf("%s = %d bytes", strings.Join(frames, " + "), sum)
}

func (r *Error) loops() string {
	lines := make([]string, len(r.Loops))
	for i, l := range r.Loops {
		lines[i] = l.String()
	}
	return strings.Join(lines, ", ")
}

// Attrs are the attributes of a line of the daemon's log.
func (r *Error) Attrs() []slog.Attr {
	out := []slog.Attr{
		slog.String("cube", r.Cube), slog.String("service", r.Service), slog.String("function", r.Function),
		slog.String("file", r.Line.File), slog.Int("line", r.Line.Number), slog.String("verifier", r.Sentence),
	}
	if r.Hint != "" {
		out = append(out, slog.String("hint", r.Hint))
	}
	return append(out, slog.Int("verified", r.Verified), slog.Int("instructions", r.Instructions))
}
