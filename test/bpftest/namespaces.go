// SPDX-License-Identifier: Apache-2.0

package bpftest

// The namespaces of a lab's cubes.

import (
	"errors"
	"log/slog"
	"os/exec"
	"path/filepath"

	"github.com/polycube/polycube/internal/shadow"
)

// shadows are the namespaces of a lab's cubes. Events in them are processed in the lab's namespace.
type shadows struct {
	*shadow.Keeper
	lab   *Lab
	names string
}

// Start implements topology.Shadows.
func (s *shadows) Start(changed func(uuid string)) {
	s.Keeper.Start(func(uuid string) {
		_ = s.lab.Do(func() error { changed(uuid); return nil }) // the function returns no error
	})
}

// openShadows enables namespaces of cubes, whose names are in a directory of the test's own.
func (l *Lab) openShadows(logger *slog.Logger) error {
	if l.shadows == nil {
		l.shadows = &shadows{lab: l, names: l.t.TempDir()}
	}
	k, err := shadow.Open(shadow.Options{
		Instance: filepath.Base(filepath.Dir(l.dir)), Logger: logger, Prepare: l.plane.AttachSpanEnd, Dir: l.shadows.names,
	})
	if err != nil {
		return err
	}
	l.shadows.Keeper = k
	l.undo = append(l.undo, func() error {
		err := k.Close()
		if l.plane.clean {
			err = errors.Join(err, k.Sweep(func(string) bool { return false }))
		}
		return err
	})
	return nil
}

// Within is a command in the namespace of a cube. The caller runs it, and ends it if it does not end by itself.
func (l *Lab) Within(cube, name string, args ...string) *exec.Cmd {
	path := filepath.Join(l.shadows.names, l.shadows.Name(cube))
	return exec.Command("nsenter", append([]string{"--net=" + path, "--", name}, args...)...)
}
