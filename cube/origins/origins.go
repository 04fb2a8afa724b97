// SPDX-License-Identifier: Apache-2.0

// Package origins names the ways in which the maps of cubes are created.
package origins

// Origin is how a map of a cube was created.
type Origin uint8

// The origins. A map that was Created is empty. An Adopted map is from a previous run of the cube: before a restart of the
// daemon, or before its service was loaded again. A Resized map has the entries of a map of another size, and a Migrated
// map those that Service.Migrate derived from a map of another layout.
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
