// SPDX-License-Identifier: Apache-2.0

package bridge

// The words of the model for spanning trees.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/bridge/stp"
)

// Version is what a tree may speak at most.
type Version uint32

// The versions.
const (
	VersionSTP Version = iota
	VersionRSTP
)

var versions = []string{VersionSTP: "stp", VersionRSTP: "rstp"}

// String is the form of the model.
func (v Version) String() string { return versions[v] }

// UnmarshalText reads the form of the model.
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

// PointToPoint is what is known of the link of a port.
type PointToPoint uint32

// The kinds.
const (
	PointToPointAuto PointToPoint = iota
	PointToPointTrue
	PointToPointFalse
)

var pointToPoints = []string{PointToPointAuto: "auto", PointToPointTrue: "force-true", PointToPointFalse: "force-false"}

// String is the form of the model.
func (p PointToPoint) String() string { return pointToPoints[p] }

// UnmarshalText reads the form of the model.
func (p *PointToPoint) UnmarshalText(text []byte) (err error) {
	*p, err = cube.Enum[PointToPoint]("point-to-point", text, pointToPoints...)
	return err
}

func (p PointToPoint) protocol() stp.PointToPoint {
	return [...]stp.PointToPoint{stp.Auto, stp.ForceTrue, stp.ForceFalse}[p]
}
