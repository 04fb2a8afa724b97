// SPDX-License-Identifier: Apache-2.0

package world

// Names are used in URLs, command lines, peers ("cube:port") and pins, so the allowed characters are defined once,
// here.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/commands"
)

// Reserved are first words of command lines and URLs that have another meaning.
var Reserved = reserved()

func reserved() map[string]bool {
	words := map[string]bool{}
	for _, word := range commands.Reserved() {
		words[word] = true
	}
	return words
}

// nameLimit is the maximum length of the name of a cube or port.
const nameLimit = 64

// ValidName is [A-Za-z0-9][A-Za-z0-9._+-]*; it is called for every port in every transaction.
func ValidName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '+' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= nameLimit
}

// shadowPortPrefix is the prefix of the hidden counterparts of a shadow cube's ports.
const shadowPortPrefix = "ns_port_"

// CheckPortName returns an error if a new port of the cube owner cannot have a name; the error wraps [cube.ErrInvalid].
func CheckPortName(owner, name string) error {
	if !ValidName(name) {
		return fmt.Errorf("%s: port name %.80q: a name must have 1 to 64 characters from A-Z a-z 0-9 . _ + -, and begin with a letter or digit: %w",
			owner, name, cube.ErrInvalid)
	}
	if strings.HasPrefix(name, shadowPortPrefix) {
		return fmt.Errorf("%s: port name %q: names with the prefix %s are reserved for the framework: %w",
			owner, name, shadowPortPrefix, cube.ErrInvalid)
	}
	return nil
}

// HostStack is the place between the netdevs and the host's stack, where transparent cubes get the packets of all netdevs. A
// netdev with this name can be the peer of a port, but has no place of its own for transparent cubes.
const HostStack = "host"

// Place is the location of a port's peer or of a transparent cube: a cube's port, a netdev, or the host's stack.
type Place struct {
	Cube, Port string
	Netdev     string
}

// String is the place in the form of requests and answers.
func (p Place) String() string {
	if p.Netdev != "" {
		return p.Netdev
	}
	return p.Cube + ":" + p.Port
}

// IsHost reports whether it is the host's stack.
func (p Place) IsHost() bool { return p.Netdev == HostStack }

// ParsePlace reads "cube:port" or the name of a netdev.
func ParsePlace(s string) (Place, error) {
	c, p, isPort := strings.Cut(s, ":")
	if isPort {
		if !ValidName(c) || !ValidName(p) {
			return Place{}, fmt.Errorf("%.140q: a port is written cube:port: %w", s, cube.ErrInvalid)
		}
		return Place{Cube: c, Port: p}, nil
	}
	if s == "" || len(s) > 15 || s == "." || s == ".." || strings.ContainsAny(s, "/ \t\n\v\f\r\x00") {
		return Place{}, fmt.Errorf("%.80q is neither a netdev's name nor cube:port: %w", s, cube.ErrInvalid)
	}
	return Place{Netdev: s}, nil
}
