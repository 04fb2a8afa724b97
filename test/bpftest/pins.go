// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"os"
	"path/filepath"
	"strings"
)

// Pins returns the names of the pins of a cube's own maps.
func (l *Lab) Pins(name string) (pins []string) {
	l.t.Helper()
	entries, err := os.ReadDir(l.PinsOf(name))
	if err != nil {
		l.t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "+") {
			pins = append(pins, e.Name())
		}
	}
	return pins
}

// PinsOf returns the directory of the pins of a cube's own maps.
func (l *Lab) PinsOf(name string) string {
	l.t.Helper()
	return filepath.Join(l.dir, "cubes", strings.Trim(l.Read(name+" uuid"), `"`))
}
