// SPDX-License-Identifier: Apache-2.0

// Apply and rollback: the client shows the difference, asks the user, and applies exactly what it showed, or nothing.
// A script is not asked.

package cli

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/cli/output"
)

// isTerminal reports whether a user may be at the other end.
func isTerminal(file any) bool {
	f, ok := file.(*os.File)
	if !ok || f == nil {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// change applies or shows a change of the whole configuration.
func (s *session) change(f fileCommand, r request, doc *documents) error {
	if f.dry || f.yes || !isTerminal(s.stdin) || !s.screen {
		if f.dry {
			r.query = "dry-run"
		}
		_, err := s.makeChange(f, r, doc)
		return err
	}
	look := r
	look.query = "dry-run"
	looked, err := s.makeChange(fileCommand{command: f.command, dry: true}, look, doc)
	if err != nil || !looked.changed {
		return err
	}
	if err := s.stdout.Flush(); err != nil {
		return err
	}
	if err := s.askUser("Make these changes?", "nothing was changed"); err != nil {
		return err
	}
	r.ifMatch = `"` + looked.revision + `"`
	done, err := s.send(r, doc)
	if err == nil {
		fmt.Fprintf(s.stdout, "done, revision %s\n", output.Clean(done.revision))
		err = f.verdict(done)
	}
	return err
}

// changed is the daemon's response to a change.
type changed struct {
	changed  bool
	revision string
	value    output.Value
	body     []byte
}

func (s *session) send(r request, doc *documents) (changed, error) {
	a, err := s.demand(r)
	var refused *serverError
	if errors.As(err, &refused) {
		return changed{}, &serverError{doc.complaints(a)}
	}
	if err != nil {
		return changed{}, err
	}
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return changed{}, fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	return changed{changed: v.TextOf("changed") == "true", revision: v.TextOf("revision"), value: v, body: a.body}, nil
}

// makeChange sends a change and shows the difference.
func (s *session) makeChange(f fileCommand, r request, doc *documents) (changed, error) {
	c, err := s.send(r, doc)
	if err != nil {
		return c, err
	}
	if f.json {
		if err := output.Print(s.stdout, c.body, output.Options{Form: output.FormJSON}, false); err != nil {
			return c, err
		}
		return c, f.verdict(c)
	}
	difference, _ := c.value.Get("difference")
	d := s.differencePrinter()
	d.print(difference)
	switch {
	case !c.changed:
		fmt.Fprintf(s.stdout, "no change, revision %s\n", output.Clean(c.revision))
	case f.dry:
		fmt.Fprintf(s.stdout, "\n%s; nothing was changed yet, revision %s\n", d.summary("to add", "to change", "to re-create", "to delete"), output.Clean(c.revision))
	default:
		fmt.Fprintf(s.stdout, "\n%s; revision %s\n", d.summary("added", "changed", "re-created", "deleted"), output.Clean(c.revision))
	}
	return c, f.verdict(c)
}

// verdict is the exit status that a script asked for.
func (f fileCommand) verdict(c changed) error {
	if f.detailed && c.changed {
		return &exitError{code: ExitChanged}
	}
	return nil
}
