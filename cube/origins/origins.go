// SPDX-License-Identifier: Apache-2.0

// Package origins says how the maps of cubes came to be.
package origins

// Origin says how a map of a cube came to be what it is.
type Origin uint8

// The origins. A map that was Created is empty. One that was Adopted is that of an earlier life of the cube: before a
// restart of the daemon, or before its service was loaded again. One that was Resized has the entries of a map of
// another size, and one that was Migrated what Service.Migrate made of those of a map of another layout.
const (
	Created Origin = iota
	Adopted
	Resized
	Migrated
)

// String names the origin.
func (o Origin) String() string {
	switch o {
	case Adopted:
		return "adopted"
	case Resized:
		return "resized"
	case Migrated:
		return "migrated"
	case Created:
	}
	return "created"
}
