// SPDX-License-Identifier: Apache-2.0

// A plan is the meaning of a command line as data: which request to send, what standard input may add to it, and how
// to show the response. Nothing has been opened, read or sent yet, so a wrong command line changes nothing.

package cli

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// request is one HTTP request relative to the configured base.
type request struct {
	method string
	path   []string // one word per URL segment, not yet escaped
	query  string
	body   []byte // nil: none
	accept string // another content type than that of models
	// ifMatch makes the request conditional on a revision.
	ifMatch string
	verb    string // the typed verb, for the daemon's messages: two verbs use POST
}

// target is the escaped path below the base, always with a trailing slash.
func (r request) target() string {
	var b strings.Builder
	for _, w := range r.path {
		b.WriteString(url.PathEscape(w))
		b.WriteByte('/')
	}
	if r.query != "" {
		b.WriteString("?" + r.query)
	}
	return b.String()
}

// rendering says how to print a success response.
type rendering uint8

const (
	renderNothing rendering = iota
	renderAnswer
	renderAlias // help of an alias, which the daemon does not know
	renderHelp
	renderRootHelp
	renderVersion
)

type plan struct {
	req    request
	node   []string // the path when the body comes from standard input
	stdin  stdinUse
	noBody string // the error if no body arrives
	usage  string // of the alias, for errors found later
	show   output.Options
	render rendering
	single bool // show the only element of an array as an object
	about  helpFor
}

// withInput puts the body from standard input into the request, instead of the pairs.
func (p *plan) withInput(data []byte) error {
	body, err := output.BodyFromYAML(data)
	if err != nil {
		return usagef("standard input is neither YAML nor JSON: %v", err)
	}
	if body == nil {
		if p.noBody != "" {
			return &usageError{message: p.noBody, usage: p.usage}
		}
		return nil
	}
	if len(body) > output.MaxBody {
		return usagef("the body is larger than %d MiB as JSON", output.MaxBody>>20)
	}
	p.req.path, p.req.body = p.node, body
	return nil
}

// resolve returns the plan of a command; single reports whether "set" with one pair is sent as a bare scalar.
func resolve(c command, single bool) (plan, error) {
	a, isAlias := aliases[c.first()]
	if c.help {
		p := helpPlan(c)
		if isAlias {
			p.render, p.about.text = renderAlias, a.help()
			if !a.Live {
				p.req.path = nil
			}
			if a.Ask != nil {
				p.req.path = a.Ask
			}
			if a.AskVerb != "" {
				p.req.query = "help=" + a.AskVerb
			}
		}
		return p, nil
	}
	if isAlias {
		if c.all {
			return plan{}, usagef("%s is accepted only on lists of a cube, not on %s", flagAll, c.first())
		}
		if c.show.Page != nil {
			return plan{}, usagef("-limit, -after and -filter are accepted only on a service and the lists of its cubes, not on %s", c.first())
		}
		p, err := a.plan(c)
		var wrong *usageError
		if errors.As(err, &wrong) {
			wrong.usage = a.Usage
		}
		p.usage = a.Usage
		return p, err
	}
	return genericPlan(c, single)
}

func genericPlan(c command, single bool) (plan, error) {
	p := plan{req: request{method: c.verb.method(), path: c.path, verb: c.verb.helpName()}, node: c.path, show: c.show}
	switch c.verb {
	case verbShow:
		p.render = renderAnswer
		p.req.query = c.show.Page.Encode()
		return p, nil
	case verbDel:
		for _, w := range c.typed {
			p.usage += output.Clean(quoteWord(w)) + " "
		}
		p.usage += flagAll
		if c.all {
			p.req.query = flagAll[2:]
		}
		return p, nil
	case verbNone:
		p.render = renderAnswer
	case verbAdd, verbSet:
	}
	p.stdin = useOfStdin(c)
	if c.stdin {
		p.noBody = `"-" asks for a body on standard input, but it is empty`
	}
	if c.verb == verbSet && len(c.pairs) == 0 && p.noBody == "" {
		p.noBody = "set needs key=value, as in \"r1 ports p1 set peer=veth1\", or a body in YAML or JSON on standard input"
	}
	if c.verb == verbSet && len(c.pairs) == 1 && single {
		only := c.pairs[0]
		p.req.path = append(append([]string{}, c.path...), strings.Split(only.key, ".")...)
		p.req.body = typed(only.value).AppendJSON(nil)
		return p, nil
	}
	if c.verb == verbAdd || len(c.pairs) > 0 {
		body, err := object(c.pairs)
		if err != nil {
			return plan{}, err
		}
		p.req.body = body.AppendJSON(nil)
	}
	return p, nil
}

// useOfStdin: an action with one empty pair ("batch rules=") announces a body, and a set without pairs requires one.
func useOfStdin(c command) stdinUse {
	switch {
	case c.stdin:
		return stdinExplicit
	case c.verb == verbSet && len(c.pairs) == 0:
		return stdinRequired
	case c.verb == verbNone && len(c.pairs) == 1 && c.pairs[0].value == "":
		return stdinExpected
	default:
		return stdinOffered
	}
}

// helpPlan asks the daemon what can follow. A last "key=" asks about that key; other keys are ignored.
func helpPlan(c command) plan {
	about := helpFor{verb: c.verb, words: c.typed}
	path, asked := c.path, false
	for i, p := range c.pairs {
		if i == len(c.pairs)-1 && p.value == "" {
			about.leaf, asked = p.key, true
			path = append(slices.Clone(path), strings.Split(p.key, ".")...)
			continue
		}
		about.given = append(about.given, p.key)
	}
	if about.leaf == "" && len(path) > 0 {
		about.leaf = path[len(path)-1]
		about.words = nil
		if i := len(c.typed) - 1; c.verb == verbSet && c.typed[i] == about.leaf {
			about.words = c.typed[:i]
		}
	}
	query := "help=" + c.verb.helpName()
	if asked {
		query += "&value" // of a list, not its entries
	}
	p := plan{
		req:    request{method: "OPTIONS", path: path, query: query, verb: c.verb.helpName()},
		render: renderHelp,
		about:  about,
	}
	if len(path) == 0 && c.verb == verbNone {
		p.render = renderRootHelp
	}
	return p
}
