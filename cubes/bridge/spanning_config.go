// SPDX-License-Identifier: Apache-2.0

package bridge

// The spanning tree types of the model.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/bridge/stp"
)

// Version is the highest protocol version that a tree may use.
type Version uint32

// The versions.
const (
	VersionSTP Version = iota
	VersionRSTP
)

var versions = []string{VersionSTP: "stp", VersionRSTP: "rstp"}

// String returns the model's name.
func (v Version) String() string { return versions[v] }

// UnmarshalText parses the model's name.
func (v *Version) UnmarshalText(text []byte) (err error) {
	*v, err = cube.Enum[Version]("force-version", text, versions...)
	return err
}

func (v Version) protocol() stp.Version {
	if v == VersionSTP {
		return stp.STP
	}
	return stp.RSTP
}

// PointToPoint says whether the link of a port is point-to-point.
type PointToPoint uint32

// The kinds.
const (
	PointToPointAuto PointToPoint = iota
	PointToPointTrue
	PointToPointFalse
)

var pointToPoints = []string{PointToPointAuto: "auto", PointToPointTrue: "force-true", PointToPointFalse: "force-false"}

// String returns the model's name.
func (p PointToPoint) String() string { return pointToPoints[p] }

// UnmarshalText parses the model's name.
func (p *PointToPoint) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[PointToPoint]("point-to-point", text, pointToPoints...)
	return err
}

func (p PointToPoint) protocol() stp.PointToPoint {
	return [...]stp.PointToPoint{stp.Auto, stp.ForceTrue, stp.ForceFalse}[p]
}
