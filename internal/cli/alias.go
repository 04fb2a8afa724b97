// SPDX-License-Identifier: Apache-2.0

// A few words at the start of a line are not part of any model: they name the
// daemon's own resources. Each is checked here, because a wrong option is best
// answered with the usage of that word.

package cli

import (
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/suggest"
)

// alias is a command the client adds to the models.
type alias struct {
	description string
	usage       string
	plan        func(command) (plan, error)
}

// aliasOrder is the order of the root help.
var aliasOrder = []string{"connect", "disconnect", "attach", "detach", "masquerade", "services", "cubes", "topology", "netdevs", "drops", "trace", "capture", "status", "events", "daemon", "export", "apply", "history", "rollback"}

var aliases map[string]alias

// allAliases are the client's commands, in the order of help.
func allAliases() []string { return append(slices.Clone(aliasOrder), "version", "completion") }

// Filled here because the plans read their own usage texts.
func init() {
	aliases = map[string]alias{
		"connect": {
			description: "Connect two ports, or a port and a netdev",
			usage:       "connect PEER1 PEER2     (a peer is CUBE:PORT or the name of a netdev)",
			plan:        planPeers,
		},
		"disconnect": {
			description: "Undo a connection",
			usage:       "disconnect PEER1 PEER2  (a peer is CUBE:PORT or the name of a netdev)",
			plan:        planPeers,
		},
		"attach": {
			description: "Attach a transparent cube to a port or a netdev",
			usage:       "attach CUBE PORT [position=auto|first|last | before=CUBE | after=CUBE]  (PORT is CUBE:PORT or a netdev)",
			plan:        planAttach,
		},
		"detach": {
			description: "Detach a transparent cube from a port or a netdev",
			usage:       "detach CUBE PORT        (PORT is CUBE:PORT or a netdev)",
			plan:        planDetach,
		},
		"services": {
			description: "Show, add, update and remove services",
			usage: "services [show [NAME]] | services add type=lib|grpc uri=URI name=NAME | services update NAME [uri=URI] | " +
				"services del NAME",
			plan: planServices,
		},
		"cubes": {
			description: "Show running cubes, or add several from a file",
			usage:       "cubes [show [NAME [stats]]] | cubes add < FILE  (YAML or JSON array of cubes)",
			plan:        planCubes,
		},
		"topology": {
			description: "Show how cubes are connected",
			usage:       "topology [show [NETDEV]]",
			plan:        planTopology,
		},
		"netdevs": {
			description: "Show network devices that cubes can use",
			usage:       "netdevs [show [NAME]]",
			plan:        planNetdevs,
		},
		"version": {
			description: "Show the versions of client and daemon",
			usage:       "version",
			plan:        planVersion,
		},
		"completion": {
			description: "Print the completion script of a shell",
			usage:       "completion bash|zsh|fish  (for this shell: source <(polycubectl completion bash))",
			plan:        planCompletion,
		},
	}
	maps.Copy(aliases, packetAliases())
	maps.Copy(aliases, statusAliases())
	maps.Copy(aliases, fileAliases())
	maps.Copy(aliases, masqueradeAliases())
}

// planPost is a POST of strings, taken as they are: a cube may be named "1".
func planPost(resource string, members ...output.Member) plan {
	return plan{
		req:    request{method: "POST", path: []string{resource}, body: output.ObjectValue(members...).AppendJSON(nil)},
		render: renderAnswer,
	}
}

// wordsOnly checks that a command is its name, count operands and nothing else.
func wordsOnly(c command, count int) error {
	switch {
	case c.verb != verbNone:
		return usagef("%s takes no verb, but %q is given", c.path[0], c.verb)
	case len(c.path)-1 != count:
		return usagef("%s takes %d names, but %d are given", c.path[0], count, len(c.path)-1)
	}
	return noBodyArguments(c)
}

func noBodyArguments(c command) error {
	if len(c.pairs) > 0 {
		return usagef("%s does not take %q here", c.path[0], c.pairs[0].key+"=")
	}
	return noInput(c)
}

func noInput(c command) error {
	if c.stdin {
		return usagef("%s takes no body, but \"-\" asks for one", c.path[0])
	}
	return nil
}

func planPeers(c command) (plan, error) {
	if err := wordsOnly(c, 2); err != nil {
		return plan{}, err
	}
	return planPost(c.path[0], output.Member{Key: "peer1", Val: output.StringValue(c.path[1])}, output.Member{Key: "peer2", Val: output.StringValue(c.path[2])}), nil
}

func planDetach(c command) (plan, error) {
	if err := wordsOnly(c, 2); err != nil {
		return plan{}, err
	}
	return planPost("detach", output.Member{Key: "cube", Val: output.StringValue(c.path[1])}, output.Member{Key: "port", Val: output.StringValue(c.path[2])}), nil
}

func planAttach(c command) (plan, error) {
	options := c.pairs
	c.pairs = nil
	if err := wordsOnly(c, 2); err != nil {
		return plan{}, err
	}
	if len(options) > 1 {
		return plan{}, usagef("attach takes one of position=, before= and after=, but %d are given", len(options))
	}
	body := []output.Member{{Key: "cube", Val: output.StringValue(c.path[1])}, {Key: "port", Val: output.StringValue(c.path[2])}}
	for _, o := range options {
		switch {
		case o.key != "position" && o.key != "before" && o.key != "after":
			return plan{}, unknownf([]string{"position=", "before=", "after="}, o.key+"=", "attach does not know %q", o.key+"=")
		case o.key == "position" && !slices.Contains([]string{"auto", "first", "last"}, o.value):
			return plan{}, unknownf([]string{"auto", "first", "last"}, o.value, "position is auto, first or last, not %q", o.value)
		case o.value == "":
			return plan{}, usagef("%s= needs the name of a cube", o.key)
		}
		body = append(body, output.Member{Key: o.key, Val: output.StringValue(o.value)})
	}
	return planPost("attach", body...), nil
}

// planShow is the "[show [NAME]]" that the daemon's collections share.
func planShow(c command) (plan, error) {
	switch {
	case c.verb == verbNone && len(c.path) > 1:
		if near := suggest.Near(c.path[1], verbWords); near != nil {
			return plan{}, usagef("%s does not know %q%s", c.path[0], c.path[1], suggest.Question(near))
		}
		return plan{}, usagef("%s: say what to do with %q: write %s show %s", c.path[0], c.path[1], c.path[0], c.path[1])
	case len(c.path) > 2 && !isStats(c.path):
		return plan{}, usagef("%s show takes one name, but %d are given", c.path[0], len(c.path)-1)
	case c.verb != verbNone && c.verb != verbShow:
		return plan{}, usagef("%s has no verb %q", c.path[0], c.verb)
	}
	if err := noBodyArguments(c); err != nil {
		return plan{}, err
	}
	return plan{
		req:    request{method: "GET", path: c.path},
		show:   c.show,
		render: renderAnswer,
	}, nil
}

// isStats tells whether the words name the counters of a cube.
func isStats(path []string) bool {
	return len(path) == 3 && path[0] == "cubes" && path[2] == "stats"
}

func planServices(c command) (plan, error) {
	switch c.verb {
	case verbAdd:
		return planServicesAdd(c)
	case verbDel:
		if len(c.path) != 2 {
			return plan{}, usagef("services del takes one name, but %d are given", len(c.path)-1)
		}
		return plan{req: request{method: "DELETE", path: c.path}}, nil
	case verbNone:
		if len(c.path) > 1 && c.path[1] == "update" {
			return planServicesUpdate(c)
		}
	case verbShow, verbSet:
	}
	p, err := planShow(c)
	p.single = len(c.path) == 2
	return p, err
}

// planServicesUpdate has another version of a service take over; without options, the one that is at its place now.
func planServicesUpdate(c command) (plan, error) {
	if len(c.path) != 3 {
		return plan{}, usagef("services update takes one name, but %d are given", len(c.path)-2)
	}
	if err := noInput(c); err != nil {
		return plan{}, err
	}
	var body []output.Member
	for _, p := range c.pairs {
		if p.key != "type" && p.key != "uri" {
			return plan{}, usagef("services update does not know %q", p.key+"=")
		}
		body = append(body, output.Member{Key: p.key, Val: output.StringValue(p.value)})
	}
	return plan{
		req:    request{method: "PATCH", path: []string{"services", c.path[2]}, body: output.ObjectValue(body...).AppendJSON(nil)},
		render: renderNothing,
	}, nil
}

func planServicesAdd(c command) (plan, error) {
	if len(c.path) > 1 {
		return plan{}, usagef("services add takes options only, but %q is given", c.path[1])
	}
	if err := noInput(c); err != nil {
		return plan{}, err
	}
	given := map[string]string{}
	for _, p := range c.pairs {
		given[p.key] = p.value
	}
	var body []output.Member
	keys := []string{"type", "uri", "name"}
	for _, p := range c.pairs {
		if !slices.Contains(keys, p.key) {
			return plan{}, unknownf([]string{"type=", "uri=", "name="}, p.key+"=", "services add does not know %q", p.key+"=")
		}
	}
	for _, key := range keys {
		if given[key] == "" {
			return plan{}, usagef("services add needs %s=", key)
		}
		body = append(body, output.Member{Key: key, Val: output.StringValue(given[key])})
	}
	if kind := body[0].Val.Text; kind != "lib" && kind != "grpc" {
		return plan{}, unknownf([]string{"lib", "grpc"}, kind, "the type of a service is lib or grpc, not %q", kind)
	}
	p := planPost("services", body...)
	p.render = renderNothing
	return p, nil
}

func planCubes(c command) (plan, error) {
	if c.verb != verbAdd {
		return planShow(c)
	}
	if len(c.path) > 1 {
		return plan{}, usagef("cubes add takes a file on standard input; to add one cube: SERVICE add %s", strings.Join(c.path[1:], " "))
	}
	c.stdin = false // "-" only repeats what cubes add always does
	if err := noBodyArguments(c); err != nil {
		return plan{}, err
	}
	return plan{
		req:    request{method: "POST", path: c.path},
		node:   c.path,
		stdin:  stdinRequired,
		noBody: "cubes add needs the cubes, in YAML or JSON, on standard input",
	}, nil
}

func planTopology(c command) (plan, error) {
	p, err := planShow(c)
	if err == nil && c.verb == verbNone {
		p.show = output.Options{Form: output.FormVerbose, Hide: []string{"uuid"}}
	}
	return p, err
}

func planNetdevs(c command) (plan, error) { return planShow(c) }

func planVersion(c command) (plan, error) {
	if len(c.path) > 1 {
		return plan{}, usagef("version takes no name, but %q is given", c.path[1])
	}
	p, err := planShow(c)
	p.render = renderVersion
	return p, err
}
