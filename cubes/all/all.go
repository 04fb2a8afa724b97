// SPDX-License-Identifier: Apache-2.0

// Package all registers the services that ship with Polycube: a program that imports it has all of them.
package all

import (
	_ "github.com/polycube/polycube/cubes/bridge"                // registers itself
	_ "github.com/polycube/polycube/cubes/classifier"            // registers itself
	_ "github.com/polycube/polycube/cubes/ddosmitigator"         // registers itself
	_ "github.com/polycube/polycube/cubes/dynmon"                // registers itself
	_ "github.com/polycube/polycube/cubes/edpi"                  // registers itself
	_ "github.com/polycube/polycube/cubes/efw"                   // registers itself
	_ "github.com/polycube/polycube/cubes/elb"                   // registers itself
	_ "github.com/polycube/polycube/cubes/firewall"              // registers itself
	_ "github.com/polycube/polycube/cubes/gtphandler"            // registers itself
	_ "github.com/polycube/polycube/cubes/helloworld"            // registers itself
	_ "github.com/polycube/polycube/cubes/ipset"                 // registers itself
	_ "github.com/polycube/polycube/cubes/iptables"              // registers itself
	_ "github.com/polycube/polycube/cubes/lbdsr"                 // registers itself
	_ "github.com/polycube/polycube/cubes/lbrp"                  // registers itself
	_ "github.com/polycube/polycube/cubes/nat"                   // registers itself
	_ "github.com/polycube/polycube/cubes/packetcapture"         // registers itself
	_ "github.com/polycube/polycube/cubes/pbforwarder"           // registers itself
	_ "github.com/polycube/polycube/cubes/policer"               // registers itself
	_ "github.com/polycube/polycube/cubes/router"                // registers itself
	_ "github.com/polycube/polycube/cubes/simplebridge"          // registers itself
	_ "github.com/polycube/polycube/cubes/simpleforwarder"       // registers itself
	_ "github.com/polycube/polycube/cubes/synflood"              // registers itself
	_ "github.com/polycube/polycube/cubes/transparenthelloworld" // registers itself
	_ "github.com/polycube/polycube/cubes/upf"                   // registers itself
)
