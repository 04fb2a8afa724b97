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

// Error is the verifier's refusal of a program.
type Error struct {
	// Place is the code in question. If it is unknown, it has neither cube nor function, and Among are the cubes of
	// the program.
	link.Place
	Among []link.Origin
	// Sentence is the verifier's message, Hint a possible remedy, "" if the message is unknown.
	Sentence, Hint string
	// Log is the end of the verifier's path through the program.
	Log []string
	// Stack contains the frames of the deepest call chain, if the stack is the problem.
	Stack []Frame
	// Loops are the places where the cube's code jumps back, if it is too complex.
	Loops []link.Line
	// Verified is how many instructions the verifier processed, each as often as it was reached; Instructions the
	// number of instructions of the program.
	Verified, Instructions int

	cause error
}

// Frame is the stack usage of a function.
type Frame struct {
	link.Origin
	Bytes int
	// Inlined are the cubes whose code is in the frame's function.
	Inlined []string
}

// As returns the refusal in an error, nil if there is none.
func As(err error) *Error {
	var r *Error
	if errors.As(err, &r) {
		return r
	}
	return nil
}

// Ours reports whether the framework is at fault.
func (r *Error) Ours() bool { return r.Framework() && (r.Function != "" || len(r.Among) == 0) }

// who names the part at fault, for the beginning of a sentence.
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

// Unwrap returns the kernel's error, and cube.ErrRefused if a cube is at fault.
func (r *Error) Unwrap() []error {
	if r.Ours() {
		return []error{r.cause}
	}
	return []error{cube.ErrRefused, r.cause}
}

// Detail returns additional information for an author, in lines.
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

// Attrs returns the attributes of a line of the daemon's log.
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
