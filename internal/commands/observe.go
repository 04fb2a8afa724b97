// SPDX-License-Identifier: Apache-2.0

package commands

// observeCommands are the commands that show packets, and the health of the daemon.
var observeCommands = []Command{
	{
		Name: "drops",
		Typed: &Typed{
			Description: "Show which cubes drop packets, why, and since when",
			Usage:       "drops [show] [CUBE]       (cube \"framework\" stands for drops outside any cube)",
			Details:     "Each row is one drop reason of one cube, counted since the cube was created. The cube\nnamed framework stands for drops outside any cube.",
			Examples:    []string{"drops", "drops br1"},
			Live:        true,
		},
		Resource: &Resource{
			Segments: 1, Entry: 6, Offered: true, Verbs: []string{"show"},
			Member: &Argument{Name: "cube", Description: "Name of the cube", Example: "br1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/drops", Summary: "Which cubes drop packets, and why"},
				{Method: "GET", Path: "/drops/{cube}", Summary: "Why a cube drops packets"},
			},
		},
	},
	{
		Name: "trace",
		Typed: &Typed{
			Description: "Show each step of packets through the cubes, live",
			Usage:       "trace [FILTER] [--cube CUBE] [-c COUNT] [-t SECONDS] [-json]  (FILTER in tcpdump syntax)\n  trace --inject PACKET CUBE:PORT|CUBE|NETDEV [--egress] [-json]  (PACKET is hex, @FILE[:N] of a capture, or like \"ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2\")",
			Details: `  FILTER                 in tcpdump syntax; quote it if it has parentheses
  --cube CUBE            only steps in this cube
  -c COUNT, -t SECONDS   stop after this many steps, or seconds; Ctrl-C also stops it
  -json                  one object per line
  --inject PACKET PLACE  show what would happen to a packet; nothing is sent or learned.
                         Without "eth MAC > MAC", it is addressed to the router's port
  --egress               outwards from the cube, instead of inwards`,
			Examples: []string{"trace icmp --cube br1", `trace --inject "ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2" br1:p1`},
			Flags:    map[string]bool{"--cube": true, "-c": true, "-t": true, "-json": false, "--inject": true, "--egress": false},
		},
		Resource: &Resource{
			Segments: 1, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/trace", Summary: "Live steps of packets through the cubes", Secret: true},
				{Method: "POST", Path: "/trace/inject", Summary: "Trace of a hypothetical packet", Body: []Argument{
					{Name: "place"}, {Name: "packet"}, {Name: "direction", Values: []string{"ingress", "egress"}, Optional: true},
				}, Example: []any{"place", "br1:port1", "packet", "ip 10.0.0.1 > 10.0.0.2 / icmp echo", "direction", "ingress"}},
			},
		},
	},
	{
		Name: "capture",
		Typed: &Typed{
			Description: "Capture the packets of a port, a transparent cube or a netdev",
			Usage:       "capture CUBE:PORT|CUBE|NETDEV [FILTER] [-w FILE] [-c COUNT] [-t SECONDS] [-json]  (FILE is pcapng, - is standard output)",
			Details: `  PLACE                  a port CUBE:PORT, a transparent cube or a netdev
  FILTER                 in tcpdump syntax; quote it if it has parentheses
  -w FILE                write pcapng; - is standard output
  -c COUNT, -t SECONDS   stop after this many packets, or seconds; Ctrl-C also stops it
  -json                  one object per line`,
			Examples: []string{"capture br1:p1 icmp", "capture veth1 -w veth1.pcapng -c 100"},
			Live:     true,
			Flags:    map[string]bool{"-w": true, "-c": true, "-t": true, "-json": false},
		},
		Resource: &Resource{
			Segments: 1, Offered: true,
			Member: &Argument{Name: "place", Description: "CUBE:PORT, a transparent cube or a netdev", Example: "br1:p1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/capture", Summary: "Not a resource: append a place", Secret: true},
				{Method: "GET", Path: "/capture/{place}", Summary: "Live packets at a place", Secret: true},
			},
		},
	},
	{
		Name: "status",
		Typed: &Typed{
			Description: "Show the health of the daemon and its cubes, with problems and remedies",
			Usage:       "status [show] [-json] [--check]  (--check prints one line; its exit status distinguishes warning and critical)",
			Details:     "Prints ok, or the problems and what to do about them. With --check, prints one line;\nthe exit status is 5 for a warning and 6 for a critical problem.",
			Examples:    []string{"status", "status --check"},
			Flags:       map[string]bool{"--check": false, "-json": false},
		},
		Resource: &Resource{
			Entry: 7, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/status", Summary: "Health of the daemon and its cubes"},
			},
		},
	},
	{
		Name: "events",
		Typed: &Typed{
			Description: "Show events live: changes, ports, cubes, netdevs, services",
			Usage:       "events [CUBE] [--type TYPE[,TYPE]] [--after ID] [-c COUNT] [-json]  (types: config port cube netdev relink service daemon)",
			Details: `  CUBE           only events about this cube
  --type TYPE    config port cube netdev relink service daemon, separated by commas
  --after ID     start after this event, to resume where a client stopped
  -c COUNT       stop after this many; Ctrl-C also stops it
  -json          one object per line`,
			Examples: []string{"events", "events br1 --type port,netdev"},
			Live:     true,
			Flags:    map[string]bool{"--type": true, "--after": true, "-c": true, "-json": false},
			Ask:      []string{"cubes"}, AskVerb: "SHOW",
		},
		Resource: &Resource{
			Offered: true,
			Member:  &Argument{Name: "cube", Description: "Only events about this cube", Example: "br1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/events", Summary: "Live events"},
			},
		},
	},
	{
		Name: "daemon",
		Typed: &Typed{
			Description: "Show the daemon, or change its log level",
			Usage:       "daemon [show] | daemon set loglevel=trace|debug|info|warn|err|critical|off",
			Details:     "The level stays until the daemon stops.",
			Examples:    []string{"daemon", "daemon set loglevel=debug"},
		},
		Resource: &Resource{
			Segments: 1, Entry: 8, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/daemon", Summary: "State of the daemon"},
				{Method: "GET", Path: "/daemon/loglevel", Summary: "Log level of the daemon itself"},
				{Method: "PATCH", Path: "/daemon/loglevel", Summary: "Change the log level of the daemon itself, until it stops"},
			},
		},
	},
}
