// SPDX-License-Identifier: Apache-2.0

// The pages of the client's own commands: what "?" behind them shows, with a
// daemon or without.

package cli

// page is what help says of a command beside its usage and description.
type page struct {
	details  string
	examples []string
	live     bool // the daemon knows what can follow
}

var pages = map[string]page{
	"connect": {
		details:  "One of the two is a port, and both are free. It is the same as to set the port's peer.",
		examples: []string{"connect br1:p1 veth1", "connect br1:p2 r1:to_br1"},
		live:     true,
	},
	"disconnect": {
		details:  "The two are named as connect names them, in any order.",
		examples: []string{"disconnect br1:p1 veth1"},
		live:     true,
	},
	"attach": {
		details: `  position=first   next to the cube, or to the stack at a netdev
  position=last    next to the wire
  position=auto    the only place there is
  before=CUBE      before a cube that is attached there, in that order
  after=CUBE       after it`,
		examples: []string{"attach fw1 br1:p1", "attach fw1 veth1 position=last", "attach mon1 br1:p1 before=fw1"},
		live:     true,
	},
	"detach": {
		details:  "The cube stays, with its configuration; packets pass it by.",
		examples: []string{"detach fw1 br1:p1"},
		live:     true,
	},
	"masquerade": {
		details: `  masquerade PLACE       what leaves there gets the address that it has, and goes on
                         to have it when the address changes
  masquerade del PLACE   the opposite
  masquerade [show]      what is masqueraded, by which cube of service nat

Packets of others have to come by: they are routed by this machine
(sysctl -w net.ipv4.ip_forward=1) or by the router whose port it is.`,
		examples: []string{"masquerade eth0", "masquerade r1:wan", "masquerade del eth0"},
	},
	"services": {
		details: `  services [show]        the services that cubes can be of
  services show NAME     one of them, with its model
  services add ...       type=lib uri=PATH is a program that the daemon starts,
                         type=grpc uri=HOST:PORT one that runs already
  services update NAME   another version takes over its cubes
  services del NAME      refused while it has cubes`,
		examples: []string{"services show simplebridge", "services add type=grpc uri=127.0.0.1:9001 name=myservice"},
		live:     true,
	},
	"cubes": {
		details: `  cubes [show]           all cubes by service
  cubes show NAME        one of them; with stats, its counters
  cubes add < FILE       several at once, or none: a list of cubes in YAML or JSON`,
		examples: []string{"cubes show br1 -yaml", "cubes show br1 stats", "cubes add < cubes.yaml"},
		live:     true,
	},
	"topology": {
		details:  "With a netdev or CUBE:PORT, the order of the cubes that its packets pass.",
		examples: []string{"topology", "topology show veth1"},
		live:     true,
	},
	"netdevs": {
		details:  "Peer is the port that a netdev is connected with, tcubes the cubes attached to it.",
		examples: []string{"netdevs", "netdevs show veth1"},
		live:     true,
	},
	"drops": {
		details:  "Each row is one reason of one cube, since it was made. A cube called framework has\nwhat belongs to none.",
		examples: []string{"drops", "drops br1"},
		live:     true,
	},
	"trace": {
		details: `  FILTER                 as tcpdump takes it; in quotes if it has brackets
  --cube CUBE            only what this cube does
  -c COUNT, -t SECONDS   end after so many steps, or seconds; Ctrl-C ends it, too
  -json                  one object a line
  --inject PACKET PLACE  what would happen to a packet; nothing is sent or learned.
                         Without "eth MAC > MAC", it is sent to the router's port
  --egress               from the cube outwards instead of inwards`,
		examples: []string{"trace icmp --cube br1", `trace --inject "ip 10.0.0.1 > 10.0.0.2 / udp 1 > 2" br1:p1`},
	},
	"capture": {
		details: `  PLACE                  a port CUBE:PORT, a transparent cube or a netdev
  FILTER                 as tcpdump takes it; in quotes if it has brackets
  -w FILE                write pcapng; - is standard output
  -c COUNT, -t SECONDS   end after so many packets, or seconds; Ctrl-C ends it, too
  -json                  one object a line`,
		examples: []string{"capture br1:p1 icmp", "capture veth1 -w veth1.pcapng -c 100"},
		live:     true,
	},
	"status": {
		details:  "ok, or what is not well and what to do about it. With --check, one line, and the\nexit status 5 for a warning, 6 for something critical.",
		examples: []string{"status", "status --check"},
	},
	"events": {
		details: `  CUBE           only what concerns this cube
  --type TYPE    config port cube netdev relink service daemon, several with commas
  --after ID     from there on, for who was away
  -c COUNT       end after so many; Ctrl-C ends it, too
  -json          one object a line`,
		examples: []string{"events", "events br1 --type port,netdev"},
		live:     true,
	},
	"daemon": {
		details:  "The level holds until the daemon ends.",
		examples: []string{"daemon", "daemon set loglevel=debug"},
	},
	"export": {
		details: `  -o FILE        write to a file
  -r REVISION    as it was then
  -json          as JSON`,
		examples: []string{"export -o before.yaml", "export -r 7"},
	},
	"apply": {
		details: `  -f FILE              YAML or JSON, as export writes it; - is standard input
  --dry-run            show the difference, change nothing
  --prune              delete cubes that no file has
  --yes                do not ask
  --detailed-exitcode  exit status 3 when something changed, or would change
  -json                the difference as JSON`,
		examples: []string{"apply -f topology.yaml --dry-run", "apply -f topology.yaml -f services.yaml --yes"},
	},
	"history": {
		details: `  REVISION       what this change did
  -n COUNT       so many of the latest`,
		examples: []string{"history -n 5", "history 7"},
		live:     true,
	},
	"rollback": {
		details:  "It is a change like others, with a revision of its own: it can be rolled back, too.",
		examples: []string{"rollback 7 --dry-run", "rollback 7"},
		live:     true,
	},
	"version": {
		details: "That of the client is shown even when the daemon's is not to be had.",
	},
	"completion": {
		details: `Completion asks the daemon at each TAB, so it knows what exists. To have it always:

  bash   polycubectl completion bash > /etc/bash_completion.d/polycubectl
  zsh    polycubectl completion zsh > a folder of $fpath, as _polycubectl
  fish   polycubectl completion fish > ~/.config/fish/completions/polycubectl.fish`,
		examples: []string{"completion bash"},
	},
}
