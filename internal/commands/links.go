// SPDX-License-Identifier: Apache-2.0

package commands

// linkCommands are the commands that connect cubes with each other and with network devices.
var linkCommands = []Command{
	{
		Name: "connect",
		Typed: &Typed{
			Description: "Connect two ports, or a port and a netdev",
			Usage:       "connect PEER1 PEER2     (a peer is CUBE:PORT or the name of a netdev)",
			Details:     "At least one of the two must be a port, and both must be free. Same as setting the port's peer.",
			Examples:    []string{"connect br1:p1 veth1", "connect br1:p2 r1:to_br1"},
			Live:        true,
		},
		Resource: &Resource{
			Segments: 2, Offered: true,
			Operations: []Operation{
				{Method: "POST", Path: "/connect", Summary: "Connect two ports, or a port and a network device", Body: []Argument{
					{Name: "peer1", Description: "A netdev or CUBE:PORT", Example: "br1:p1", Positional: true},
					{Name: "peer2", Description: "A netdev or CUBE:PORT", Example: "veth1", Positional: true},
				}, Example: []any{"peer1", "br1:port1", "peer2", "veth1"}},
			},
		},
	},
	{
		Name: "disconnect",
		Typed: &Typed{
			Description: "Undo a connection",
			Usage:       "disconnect PEER1 PEER2  (a peer is CUBE:PORT or the name of a netdev)",
			Details:     "Takes the same names as connect, in any order.",
			Examples:    []string{"disconnect br1:p1 veth1"},
			Live:        true,
		},
		Resource: &Resource{
			Segments: 2, Offered: true,
			Operations: []Operation{
				{Method: "POST", Path: "/disconnect", Summary: "Disconnect two ports, or a port and a network device", Body: []Argument{
					{Name: "peer1", Description: "A netdev or CUBE:PORT", Example: "br1:p1", Positional: true},
					{Name: "peer2", Description: "A netdev or CUBE:PORT", Example: "veth1", Positional: true},
				}, Example: []any{"peer1", "br1:port1", "peer2", "veth1"}},
			},
		},
	},
	{
		Name: "attach",
		Typed: &Typed{
			Description: "Attach a transparent cube to a port, a netdev or the host",
			Usage:       "attach CUBE PORT [position=auto|first|last | before=CUBE | after=CUBE]  (PORT is CUBE:PORT, a netdev, or host for all netdevs)",
			Details: `  position=first   on a port next to the cube, on a netdev or the host next to the wire
  position=last    on a port next to the wire, on a netdev or the host next to the network stack
  position=auto    the only position, if no cube is attached yet
  before=CUBE      before a cube that is attached there
  after=CUBE       after a cube that is attached there`,
			Examples: []string{"attach fw1 br1:p1", "attach fw1 veth1 position=last", "attach fw1 host", "attach mon1 br1:p1 before=fw1"},
			Live:     true,
		},
		Resource: &Resource{
			Segments: 3, Offered: true,
			Operations: []Operation{
				{Method: "POST", Path: "/attach", Summary: "Attach a transparent cube to a port, a network device or the host", Body: []Argument{
					{Name: "cube", Description: "A transparent cube", Example: "fw1", Positional: true},
					{Name: "port", Description: "A netdev, CUBE:PORT or host", Example: "br1:p1", Positional: true},
					{Name: "position", Description: "on a port, first is next to the cube and last next to the wire; on a netdev or the host, first is next to the wire and last next to the network stack", Example: "last",
						Values: []string{"auto", "first", "last"}, Optional: true},
					{Name: "before", Description: "Attach before this cube", Example: "fw2", Optional: true},
					{Name: "after", Description: "Attach after this cube", Example: "fw2", Optional: true},
				}, Example: []any{"cube", "th1", "port", "br1:port1", "position", "last"}},
			},
		},
	},
	{
		Name: "detach",
		Typed: &Typed{
			Description: "Detach a transparent cube from a port or a netdev",
			Usage:       "detach CUBE PORT        (PORT is CUBE:PORT or a netdev)",
			Details:     "The cube keeps its configuration; packets no longer pass it.",
			Examples:    []string{"detach fw1 br1:p1"},
			Live:        true,
		},
		Resource: &Resource{
			Segments: 3, Offered: true,
			Operations: []Operation{
				{Method: "POST", Path: "/detach", Summary: "Detach a transparent cube", Body: []Argument{
					{Name: "cube", Description: "A transparent cube", Example: "fw1", Positional: true},
					{Name: "port", Description: "A netdev or CUBE:PORT", Example: "br1:p1", Positional: true},
				}, Example: []any{"cube", "th1", "port", "br1:port1"}},
			},
		},
	},
	{
		Name: "masquerade",
		Typed: &Typed{
			Description: "Masquerade behind the address of a netdev: source NAT in one command",
			Usage:       "masquerade PLACE | masquerade del PLACE | masquerade [show [PLACE]] [-json]  (PLACE is a netdev, or the CUBE:PORT of a router)",
			Details: `  masquerade PLACE       translate the source address of packets sent there to the address
                         of PLACE, also when that address changes
  masquerade del PLACE   stop masquerading there
  masquerade [show]      list masqueraded places, with the nat cubes that do it

The packets of other hosts must pass PLACE: they are routed by this machine
(sysctl -w net.ipv4.ip_forward=1), or by the router that the port belongs to.`,
			Examples: []string{"masquerade eth0", "masquerade r1:wan", "masquerade del eth0"},
			Flags:    map[string]bool{"-json": false},
		},
	},
}
