// SPDX-License-Identifier: Apache-2.0

// Package advertise lets a cube with a namespace (shadow=true) say which addresses it serves: routes in its namespace, which
// a routing daemon there redistributes.
package advertise

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
)

// Protocol is the origin of the routes, as `ip route` shows it.
const Protocol = 80

// Advertiser is an Env whose cube can do that. Those of external services cannot.
type Advertiser interface {
	// Advertise makes the routes of the cube in its namespace those to prefixes. They are of type blackhole, in the main
	// table, with Protocol; others stay as they are. They outlive the daemon, and are compared with what is there. The
	// error wraps cube.ErrNotFound as long as the cube has no namespace.
	Advertise(prefixes []netip.Prefix) error
}

// Set makes the routes of a cube in its namespace those to prefixes.
func Set(env cube.Env, prefixes []netip.Prefix) error {
	a, ok := env.(Advertiser)
	if !ok {
		return fmt.Errorf("a cube of an external service has no routes in its namespace: %w", cube.ErrUnsupported)
	}
	return a.Advertise(prefixes)
}
