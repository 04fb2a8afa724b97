// SPDX-License-Identifier: Apache-2.0

// Package commands is the table of the words that a command line or a URL can begin with and that no model describes:
// connect, attach, services, trace and the others. It is data. The REST API derives from it its resources, their
// bodies and their descriptions; the command line its usage, help, flags and completion; the daemon and make new-cube
// the names that no service or cube can have.
package commands

import (
	"cmp"
	"slices"
)

// Command is one word.
type Command struct {
	Name string
	// Typed is the word on the command line; nil for one that exists only in URLs.
	Typed *Typed
	// Resource is the word in a URL, /polycube/v1/NAME; nil for one that the client implements with other requests.
	Resource *Resource
	// Unreserved tells that a service or a cube may have the name.
	Unreserved bool
}

// Typed is a command on the command line.
type Typed struct {
	// Description is its line in the help, Usage all its forms.
	Description, Usage string
	// Details and Examples are more lines of help.
	Details  string
	Examples []string
	// Live tells that the daemon knows what can follow. Ask is the path to query, if it is not the name, and AskVerb
	// the verb.
	Live    bool
	Ask     []string
	AskVerb string
	// Flags are those of a command with a separate grammar, true for one that takes a value; nil for the common
	// grammar.
	Flags map[string]bool
	// Unlisted commands are about the client itself, so the daemon's list omits them.
	Unlisted bool
	// NeedsVerb tells that members of the collection come only after a verb.
	NeedsVerb bool
}

// Resource is a command in the API.
type Resource struct {
	// Segments is how many path segments can follow the name.
	Segments int
	// Conditional tells that If-Match is supported.
	Conditional bool
	// Entry is the position among the links of the entry point, starting at 1; 0 for none.
	Entry int
	// Offered tells that completion offers the word at the start of a command, and Verbs after which verbs.
	Offered bool
	Verbs   []string
	// Member is the name of a collection's member.
	Member *Argument
	// Operations are the methods of its paths. OPTIONS is not among them, because every path supports it, for help.
	Operations []Operation
}

// Operation is a method of a path.
type Operation struct {
	Method, Path string
	// Summary is its line in the description of the API.
	Summary string
	// Body are the members of a request body, an object of strings, in the order of help.
	Body []Argument
	// Example is such a body, names and values in turn.
	Example []any
	// Secret tells that a read shows packets of others: it requires the role of a change and is recorded like one.
	Secret bool
}

// Argument is a member of a body, or a word after the command.
type Argument struct {
	Name, Description, Example string
	// Values are all valid values; nil for any text.
	Values []string
	// Number tells that it is a number.
	Number bool
	// Positional arguments are path words on the command line, others key=value.
	Positional bool
	Optional   bool
}

// Required are the names of the required members of a body, Allowed those of the optional ones.
func (o Operation) Required() []string { return o.members(false) }

// Allowed are the names of the optional members of a body.
func (o Operation) Allowed() []string { return o.members(true) }

func (o Operation) members(optional bool) []string {
	var out []string
	for _, a := range o.Body {
		if a.Optional == optional {
			out = append(out, a.Name)
		}
	}
	return out
}

// Values are the valid values of a member, nil for any text.
func (o Operation) Values(member string) []string {
	for _, a := range o.Body {
		if a.Name == member {
			return a.Values
		}
	}
	return nil
}

// All are the commands in the order of help.
func All() []Command { return table }

// Find finds a command by its name.
func Find(name string) (Command, bool) {
	for _, c := range table {
		if c.Name == name {
			return c, true
		}
	}
	return Command{}, false
}

// Served finds a resource by its name, nil if there is none.
func Served(name string) *Resource {
	c, _ := Find(name)
	return c.Resource
}

// Of finds an operation; the zero Operation if there is none.
func Of(method, path string) Operation {
	for _, c := range table {
		if c.Resource == nil {
			continue
		}
		for _, o := range c.Resource.Operations {
			if o.Method == method && o.Path == path {
				return o
			}
		}
	}
	return Operation{}
}

// Secret reports whether a read of a resource shows packets of others.
func Secret(name string) bool {
	r := Served(name)
	return r != nil && slices.ContainsFunc(r.Operations, func(o Operation) bool { return o.Secret })
}

// Offered are the words that completion offers at the start of a command; verb is "" or the one already typed.
func Offered(verb string) []string {
	var out []string
	for _, c := range table {
		if r := c.Resource; r != nil && r.Offered && (verb == "" || slices.Contains(r.Verbs, verb)) {
			out = append(out, c.Name)
		}
	}
	return out
}

// Entries are the resources that the entry point links to, in its order.
func Entries() []string {
	var linked []Command
	for _, c := range table {
		if c.Resource != nil && c.Resource.Entry > 0 {
			linked = append(linked, c)
		}
	}
	slices.SortFunc(linked, func(a, b Command) int { return cmp.Compare(a.Resource.Entry, b.Resource.Entry) })
	out := make([]string, len(linked))
	for i, c := range linked {
		out[i] = c.Name
	}
	return out
}

// Verbs are the verbs of the command line; they can be where a name could.
func Verbs() []string { return []string{"add", "del", "show", "set"} }

// Framework is the name in counters, drops and traces for packets of no cube.
const Framework = "framework"

// Reserved are the words that no service and no cube can have as its name.
func Reserved() []string {
	out := append(Verbs(), Framework)
	for _, c := range table {
		if !c.Unreserved {
			out = append(out, c.Name)
		}
	}
	return out
}
