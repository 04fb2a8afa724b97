// SPDX-License-Identifier: Apache-2.0

package commands

// observeCommands are the commands that show what becomes of packets, and how the daemon is.
var observeCommands = []Command{
	{
		Name: "drops",
		Typed: &Typed{
			Description: "Show who drops packets and why, now and since when",
			Usage:       "drops [show] [CUBE]       (the cube framework has what belongs to none)",
			Details:     "Each row is one reason of one cube, since it was made. A cube called framework has\nwhat belongs to none.",
			Examples:    []string{"drops", "drops br1"},
			Live:        true,
		},
		Resource: &Resource{
			Segments: 1, Entry: 6, Offered: true, Verbs: []string{"show"},
			Member: &Argument{Name: "cube", Description: "Name of the cube", Example: "br1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/drops", Summary: "Who drops packets and why"},
				{Method: "GET", Path: "/drops/{cube}", Summary: "Why a cube drops packets"},
			},
		},
	},
	{
		Name: "trace",
		Typed: &Typed{
			Description: "Show each step of packets through the cubes, live",
			Usage:       "trace [FILTER] [--cube CUBE] [-c COUNT] [-t SECONDS] [-json]  (FILTER as tcpdump takes it)\n  trace --inject PACKET CUBE:PORT|CUBE|NETDEV [--egress] [-json]  (PACKET is hex, @FILE[:N] of a capture, or like \"ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2\")",
			Details: `  FILTER                 as tcpdump takes it; in quotes if it has brackets
  --cube CUBE            only what this cube does
  -c COUNT, -t SECONDS   end after so many steps, or seconds; Ctrl-C ends it, too
  -json                  one object a line
  --inject PACKET PLACE  what would happen to a packet; nothing is sent or learned.
                         Without "eth MAC > MAC", it is sent to the router's port
  --egress               from the cube outwards instead of inwards`,
			Examples: []string{"trace icmp --cube br1", `trace --inject "ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2" br1:p1`},
			Flags:    map[string]bool{"--cube": true, "-c": true, "-t": true, "-json": false, "--inject": true, "--egress": false},
		},
		Resource: &Resource{
			Segments: 1, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/trace", Summary: "Steps of packets, live", Secret: true},
				{Method: "POST", Path: "/trace/inject", Summary: "What would happen to a packet", Body: []Argument{
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
  FILTER                 as tcpdump takes it; in quotes if it has brackets
  -w FILE                write pcapng; - is standard output
  -c COUNT, -t SECONDS   end after so many packets, or seconds; Ctrl-C ends it, too
  -json                  one object a line`,
			Examples: []string{"capture br1:p1 icmp", "capture veth1 -w veth1.pcapng -c 100"},
			Live:     true,
			Flags:    map[string]bool{"-w": true, "-c": true, "-t": true, "-json": false},
		},
		Resource: &Resource{
			Segments: 1, Offered: true,
			Member: &Argument{Name: "place", Description: "CUBE:PORT, a transparent cube or a netdev", Example: "br1:p1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/capture", Summary: "Nothing: a place has to follow", Secret: true},
				{Method: "GET", Path: "/capture/{place}", Summary: "Packets of a place, live", Secret: true},
			},
		},
	},
	{
		Name: "status",
		Typed: &Typed{
			Description: "Show how the daemon and its cubes are, and what to do about what is not well",
			Usage:       "status [show] [-json] [--check]  (--check prints one line; its exit status tells warning and critical apart)",
			Details:     "ok, or what is not well and what to do about it. With --check, one line, and the\nexit status 5 for a warning, 6 for something critical.",
			Examples:    []string{"status", "status --check"},
			Flags:       map[string]bool{"--check": false, "-json": false},
		},
		Resource: &Resource{
			Entry: 7, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/status", Summary: "How the daemon and its cubes are"},
			},
		},
	},
	{
		Name: "events",
		Typed: &Typed{
			Description: "Show what happens, live: changes, ports, cubes, netdevs, services",
			Usage:       "events [CUBE] [--type TYPE[,TYPE]] [--after ID] [-c COUNT] [-json]  (types: config port cube netdev relink service daemon)",
			Details: `  CUBE           only what concerns this cube
  --type TYPE    config port cube netdev relink service daemon, several with commas
  --after ID     from there on, for who was away
  -c COUNT       end after so many; Ctrl-C ends it, too
  -json          one object a line`,
			Examples: []string{"events", "events br1 --type port,netdev"},
			Live:     true,
			Flags:    map[string]bool{"--type": true, "--after": true, "-c": true, "-json": false},
			Ask:      []string{"cubes"}, AskVerb: "SHOW",
		},
		Resource: &Resource{
			Offered: true,
			Member:  &Argument{Name: "cube", Description: "Only what concerns this cube", Example: "br1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/events", Summary: "What happens, live"},
			},
		},
	},
	{
		Name: "daemon",
		Typed: &Typed{
			Description: "Show the daemon itself, or change what it logs",
			Usage:       "daemon [show] | daemon set loglevel=trace|debug|info|warn|err|critical|off",
			Details:     "The level holds until the daemon ends.",
			Examples:    []string{"daemon", "daemon set loglevel=debug"},
		},
		Resource: &Resource{
			Segments: 1, Entry: 8, Offered: true,
			Operations: []Operation{
				{Method: "GET", Path: "/daemon", Summary: "The daemon itself"},
				{Method: "GET", Path: "/daemon/loglevel", Summary: "Log level of the daemon itself"},
				{Method: "PATCH", Path: "/daemon/loglevel", Summary: "Change what the daemon itself logs, until it ends"},
			},
		},
	},
}
