// SPDX-License-Identifier: Apache-2.0

// Package cubes registers all services for the test of a cube that needs another one, such as a transparent cube, which
// needs a port. Cubes may not import each other; their external tests import this package.
package cubes

import _ "github.com/polycube/polycube/cubes/all" // registers them
