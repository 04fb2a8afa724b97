// SPDX-License-Identifier: Apache-2.0

package commands

// cubeCommands are the commands about services, cubes and the topology.
var cubeCommands = []Command{
	{
		Name: "services",
		Typed: &Typed{
			Description: "Show, add, update and remove services",
			Usage: "services [show [NAME]] | services add type=lib|grpc uri=URI name=NAME | services update NAME [uri=URI] | " +
				"services del NAME",
			Details: `  services [show]        the available services, that is, types of cubes
  services show NAME     one of them, with its model
  services add ...       type=lib uri=PATH is a program that the daemon starts,
                         type=grpc uri=HOST:PORT one that is already running
  services update NAME   replace it by another version, which takes over its cubes
  services del NAME      refused while it has cubes`,
			Examples:  []string{"services show simplebridge", "services add type=grpc uri=127.0.0.1:9001 name=myservice"},
			Live:      true,
			NeedsVerb: true,
		},
		Resource: &Resource{
			Segments: 1, Entry: 2, Offered: true, Verbs: []string{"show", "add", "del"},
			Member: &Argument{Name: "name", Description: "Name of the service", Example: "simplebridge", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/services", Summary: "The services that are loaded"},
				{Method: "POST", Path: "/services", Summary: "Add a service", Body: []Argument{
					{Name: "type", Description: "How the service runs", Example: "grpc", Values: []string{"lib", "grpc"}},
					{Name: "uri", Description: "Path of the program, or HOST:PORT", Example: "127.0.0.1:9001"},
					{Name: "name", Description: "Name of the service", Example: "myservice"},
				}},
				{Method: "GET", Path: "/services/{name}", Summary: "A service and its model"},
				{Method: "PATCH", Path: "/services/{name}", Summary: "Replace a service by another version, which takes over its cubes", Body: []Argument{
					{Name: "type", Description: "How the service runs", Example: "grpc", Values: []string{"lib", "grpc"}, Optional: true},
					{Name: "uri", Description: "Path of the program, or HOST:PORT", Example: "127.0.0.1:9001", Optional: true},
				}},
				{Method: "DELETE", Path: "/services/{name}", Summary: "Remove a service that has no cubes"},
			},
		},
	},
	{
		Name: "cubes",
		Typed: &Typed{
			Description: "Show running cubes, or add several from a file",
			Usage:       "cubes [show [NAME [stats]]] | cubes add < FILE  (YAML or JSON array of cubes)",
			Details: `  cubes [show]           all cubes by service
  cubes show NAME        one of them; with stats, its counters
  cubes add < FILE       add all cubes of a list in YAML or JSON, or none`,
			Examples:  []string{"cubes show br1 -yaml", "cubes show br1 stats", "cubes add < cubes.yaml"},
			Live:      true,
			NeedsVerb: true,
		},
		Resource: &Resource{
			Segments: 2, Entry: 3, Offered: true, Verbs: []string{"show", "add"},
			Member: &Argument{Name: "name", Description: "Name of the cube", Example: "br1", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/cubes", Summary: "All cubes"},
				{Method: "POST", Path: "/cubes", Summary: "Create several cubes, all or none"},
				{Method: "GET", Path: "/cubes/{name}", Summary: "A cube"},
				{Method: "GET", Path: "/cubes/{name}/stats", Summary: "Counters of a cube"},
			},
		},
	},
	{
		Name: "topology",
		Typed: &Typed{
			Description: "Show how cubes are connected",
			Usage:       "topology [show [NETDEV]]",
			Details:     "With a netdev or CUBE:PORT, the order in which its packets pass the cubes.",
			Examples:    []string{"topology", "topology show veth1"},
			Live:        true,
			NeedsVerb:   true,
		},
		Resource: &Resource{
			Segments: 1, Entry: 5, Offered: true, Verbs: []string{"show"},
			Member: &Argument{Name: "name", Description: "A network device, or a port as CUBE:PORT", Example: "eth0", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/topology", Summary: "How all cubes are connected"},
				{Method: "GET", Path: "/topology/{place}", Summary: "The order of cubes at a netdev or port"},
			},
		},
	},
	{
		Name: "netdevs",
		Typed: &Typed{
			Description: "Show network devices that cubes can use",
			Usage:       "netdevs [show [NAME]]",
			Details:     "peer is the port that a netdev is connected to, tcubes the transparent cubes attached to it.",
			Examples:    []string{"netdevs", "netdevs show veth1"},
			Live:        true,
			NeedsVerb:   true,
		},
		Resource: &Resource{
			Segments: 1, Entry: 4, Offered: true, Verbs: []string{"show"},
			Member: &Argument{Name: "name", Description: "Name of a network device", Example: "eth0", Positional: true},
			Operations: []Operation{
				{Method: "GET", Path: "/netdevs", Summary: "Network devices"},
				{Method: "GET", Path: "/netdevs/{name}", Summary: "A network device"},
			},
		},
	},
}
