// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"encoding/json"
	"net"
	"net/netip"
)

// Interface is how a port looks to programs in the namespace of a shadow cube.
type Interface struct {
	// MAC is nil where the cube leaves it to the interface.
	MAC net.HardwareAddr
	// Addresses with their prefix lengths, in any order; without IPv6 link-local ones.
	Addresses []netip.Prefix
}

// Shadower is a cube whose ports have addresses, which its namespace has, too, when it is a shadow cube: the framework
// keeps the two equal, whichever side changes. Its methods must not touch maps or packets.
type Shadower interface {
	// Interfaces tells from a configuration how the cube's ports are to look, by name. A port that is not in the answer
	// has nothing to keep equal.
	Interfaces(conf json.RawMessage) (map[string]Interface, error)
	// InterfaceChanged returns the changes of configuration by which a port follows its interface, which somebody in the
	// namespace has changed from was, what Interfaces answers, to is; none, if the cube does not want to follow. They are
	// validated, carried out and persisted like those of a request.
	InterfaceChanged(port string, was, is Interface) ([]Edit, error)
}
