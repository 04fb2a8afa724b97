// SPDX-License-Identifier: Apache-2.0

package topology

// Names travel through URLs, command lines, peers ("cube:port") and pins, so what they may hold is decided once, here.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
)

// reserved are the first words of command lines and URLs that mean something else.
var reserved = map[string]bool{
	"connect": true, "disconnect": true, "attach": true, "detach": true, "services": true, "cubes": true,
	"topology": true, "netdevs": true, "version": true, "add": true, "del": true, "show": true, "set": true,
	"metrics": true, "openapi.json": true, "drops": true, "trace": true, "capture": true, "framework": true,
	"events": true, "status": true, "daemon": true, "masquerade": true,
	"config": true, "apply": true, "export": true, "history": true, "rollback": true,
}

// nameLimit is the length of the longest name of a cube or port.
const nameLimit = 64

// validName is [A-Za-z0-9][A-Za-z0-9._+-]*; it runs for every port in every transaction.
func validName(s string) bool {
	for i := range len(s) {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '.' && c != '_' && c != '+' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= nameLimit
}

// shadowPortPrefix names the hidden twins of a shadow cube's ports.
const shadowPortPrefix = "ns_port_"

func checkPortName(owner, name string) error {
	if !validName(name) {
		return fmt.Errorf("%s: port name %.80q: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ + -, and begins with a letter or digit: %w",
			owner, name, cube.ErrInvalid)
	}
	if strings.HasPrefix(name, shadowPortPrefix) {
		return fmt.Errorf("%s: port name %q: names that begin with %s are the framework's: %w",
			owner, name, shadowPortPrefix, cube.ErrInvalid)
	}
	return nil
}

// place is where a port's peer or a transparent cube can be: a cube's port, or a netdev.
type place struct {
	cube, port string
	netdev     string
}

// String is how the place is written in requests and answers.
func (p place) String() string {
	if p.netdev != "" {
		return p.netdev
	}
	return p.cube + ":" + p.port
}

// parsePlace reads "cube:port" or the name of a netdev.
func parsePlace(s string) (place, error) {
	c, p, isPort := strings.Cut(s, ":")
	if isPort {
		if !validName(c) || !validName(p) {
			return place{}, fmt.Errorf("%.140q: a port is written cube:port: %w", s, cube.ErrInvalid)
		}
		return place{cube: c, port: p}, nil
	}
	if s == "" || len(s) > 15 || s == "." || s == ".." || strings.ContainsAny(s, "/ \t\n\v\f\r\x00") {
		return place{}, fmt.Errorf("%.80q is neither a netdev's name nor cube:port: %w", s, cube.ErrInvalid)
	}
	return place{netdev: s}, nil
}
