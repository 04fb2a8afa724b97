// SPDX-License-Identifier: Apache-2.0

// Package forwarder registers the cube that joins ports, for tests of a transparent cube that are in the package of the
// cube: package cubes, which has all, would import that in a circle.
package forwarder

import _ "github.com/polycube/polycube/cubes/simpleforwarder" // registers it
