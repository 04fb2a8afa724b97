// SPDX-License-Identifier: Apache-2.0

// A few words at the start of a line do not come from a model: they name the daemon's own resources. Each command is
// checked here, so that a wrong option can be answered with its usage.

package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/suggest"
)

// alias is a command that the client adds to those of the models: its entry in the table of commands, and its
// implementation.
type alias struct {
	commands.Typed
	// plan is for the common grammar, run for a separate grammar.
	plan func(command) (plan, error)
	run  func(s *session, name string, words []string) error
}

var aliases map[string]alias

// plans are the plans of the commands with the common grammar.
func plans() map[string]func(command) (plan, error) {
	return map[string]func(command) (plan, error){
		"connect": planPeers, "disconnect": planPeers, "attach": planAttach, "detach": planDetach,
		"services": planServices, "cubes": planCubes, "topology": planTopology, "netdevs": planNetdevs,
		"drops": planDrops, "daemon": planDaemon, "version": planVersion, "completion": planCompletion,
		"confirm": planConfirm,
	}
}

// runs execute the commands with separate grammars.
func runs() map[string]func(s *session, name string, words []string) error {
	return map[string]func(*session, string, []string) error{
		"trace": (*session).watch, "capture": (*session).watch, "events": (*session).watch, "status": (*session).watch,
		"export": (*session).file, "apply": (*session).file, "history": (*session).file, "rollback": (*session).file,
		"masquerade": masquerade,
	}
}

// Filled here because the plans read their own usage texts.
func init() {
	plans, runs := plans(), runs()
	aliases = map[string]alias{}
	for _, c := range commands.All() {
		if c.Typed == nil {
			continue
		}
		a := alias{Typed: *c.Typed, plan: plans[c.Name], run: runs[c.Name]}
		if a.run != nil {
			a.plan = notAlone
		}
		aliases[c.Name] = a
	}
}

// allAliases are the client's commands, in the order of help.
func allAliases() []string {
	var out []string
	for _, c := range commands.All() {
		if c.Typed != nil {
			out = append(out, c.Name)
		}
	}
	return out
}

// ownFlags are the flags of a command with a separate grammar, true for one that takes a value; nil for another
// command.
func ownFlags(name string) map[string]bool { return aliases[name].Flags }

// planPost is a POST of strings, passed unchanged: a cube may be named "1".
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

func planConfirm(c command) (plan, error) {
	if c.verb == verbShow && len(c.path) == 1 {
		return planShow(c)
	}
	keep := true
	if len(c.path) == 2 && c.path[1] == "no" {
		keep, c.path = false, c.path[:1]
	}
	if err := wordsOnly(c, 0); err != nil {
		return plan{}, err
	}
	return planPost("confirm", output.Member{Key: "keep", Val: output.Value{Kind: output.KindBool, Text: fmt.Sprint(keep)}}), nil
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
	attach := commands.Of("POST", "/attach")
	if len(options) > 1 {
		return plan{}, usagef("attach takes only one of position=, before= and after=, but %d are given", len(options))
	}
	body := []output.Member{{Key: "cube", Val: output.StringValue(c.path[1])}, {Key: "port", Val: output.StringValue(c.path[2])}}
	for _, o := range options {
		switch {
		case !slices.Contains(attach.Allowed(), o.key):
			return plan{}, unknownf(assigned(attach.Allowed()), o.key+"=", "attach does not know %q", o.key+"=")
		case o.key == "position" && !slices.Contains(attach.Values(o.key), o.value):
			return plan{}, unknownf(attach.Values(o.key), o.value, "position must be auto, first or last, not %q", o.value)
		case o.value == "":
			return plan{}, usagef("%s= needs the name of a cube", o.key)
		}
		body = append(body, output.Member{Key: o.key, Val: output.StringValue(o.value)})
	}
	return planPost("attach", body...), nil
}

// assigned are keys as typed.
func assigned(keys []string) []string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = key + "="
	}
	return out
}

// planShow is the "[show [NAME]]" that the daemon's collections share.
func planShow(c command) (plan, error) {
	switch {
	case c.verb == verbNone && len(c.path) > 1:
		if near := suggest.Near(c.path[1], verbWords); near != nil {
			return plan{}, usagef("%s does not know %q%s", c.path[0], c.path[1], suggest.Question(near))
		}
		return plan{}, usagef("%s does not take %q: write %s show %s", c.path[0], c.path[1], c.path[0], c.path[1])
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

// isStats reports whether the words name the counters of a cube.
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

// planServicesUpdate replaces a service by another version; without options, by the one at its current URI.
func planServicesUpdate(c command) (plan, error) {
	if len(c.path) != 3 {
		return plan{}, usagef("services update takes one name, but %d are given", len(c.path)-2)
	}
	if err := noInput(c); err != nil {
		return plan{}, err
	}
	var body []output.Member
	for _, p := range c.pairs {
		if !slices.Contains(commands.Of("PATCH", "/services/{name}").Allowed(), p.key) {
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
	add := commands.Of("POST", "/services")
	keys := add.Required()
	for _, p := range c.pairs {
		if !slices.Contains(keys, p.key) {
			return plan{}, unknownf(assigned(keys), p.key+"=", "services add does not know %q", p.key+"=")
		}
	}
	for _, key := range keys {
		if given[key] == "" {
			return plan{}, usagef("services add needs %s=", key)
		}
		body = append(body, output.Member{Key: key, Val: output.StringValue(given[key])})
	}
	if kind := body[0].Val.Text; !slices.Contains(add.Values("type"), kind) {
		return plan{}, unknownf(add.Values("type"), kind, "the type of a service must be lib or grpc, not %q", kind)
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
