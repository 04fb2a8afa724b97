// SPDX-License-Identifier: Apache-2.0

package help

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/trace"
)

// Shell completion: the same help as a flat list of words, and help for the commands that no model describes.

// words are the possible next words: verbs, existing keys, a placeholder for a new key, members with "=", and the
// values of an enumeration in lower case.
func (h Help) words(verb string) []string {
	out := append([]string{}, h.Commands...)
	for _, e := range h.Elements {
		if len(e) > 0 {
			out = append(out, fmt.Sprint(e[0].Value))
		}
	}
	for i, p := range h.Params {
		out = append(out, p.words(verb, i == 0, h)...)
	}
	for _, p := range h.Optional {
		out = append(out, p.words(verb, false, h)...)
	}
	for _, p := range h.actions {
		out = append(out, p.Name)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(w string) bool {
		dup := seen[w]
		seen[w] = true
		return dup
	})
}

// flagWords are the flags as typed.
func (h Help) flagWords() (out []string) {
	for _, f := range h.flags {
		out = append(out, f.Name)
	}
	return out
}

// words of one parameter. Keys are positional, so only the first one is next.
func (p Param) words(verb string, first bool, h Help) []string {
	switch {
	case p.Implied || p.Type == "key" && !first:
		return nil
	case p.Type == "key" && len(p.Candidates) > 0:
		return p.Candidates
	case p.Type == "key" && len(p.Values) > 0 && h.Elements == nil:
		return directory.Lower(p.Values)
	case p.Type == "key" && (verb == resource.VerbAdd || h.Elements == nil):
		return []string{"<" + p.Name + ">"}
	case p.Type == "key":
		return nil
	case p.Type == "leaf" && (verb == resource.VerbAdd || verb == resource.VerbSet):
		return []string{p.Name + "="}
	case p.Type == "leaf" && verb == resource.VerbNone && h.Commands == nil:
		// The input of an action.
		return []string{p.Name + "="}
	}
	return []string{p.Name}
}

// leafWords are the known values of a leaf.
func (p Param) leafWords() []string {
	if len(p.Candidates) > 0 {
		return p.Candidates
	}
	return []string{"<" + p.Name + ">"}
}

// BegunBy keeps the words that start with ?prefix=, because a shell needs only a few of a long list.
func BegunBy(r *http.Request, words []string) []string {
	prefix := r.URL.Query().Get("prefix")
	out := []string{}
	for _, w := range words {
		if strings.HasPrefix(w, prefix) && len(out) < maxWords {
			out = append(out, w)
		}
	}
	return out
}

// maxWords is how many words completion offers; a shell asks before it shows that many.
const maxWords = 2000

// commandsWith are the commands that support a verb.
func commandsWith(verb string) []string {
	if verb == resource.VerbNone {
		verb = ""
	}
	return commands.Offered(strings.ToLower(verb))
}

// Member describes the name of a member of the framework's collections.
func Member(name string) Param {
	a := commands.Served(name).Member
	return argument(*a)
}

// arguments describe the body of a command.
func arguments(o commands.Operation) []Param {
	out := make([]Param, len(o.Body))
	for i, a := range o.Body {
		out[i] = argument(a)
	}
	return out
}

// argument describes a word after a command. If one of several values is required, the user must choose.
func argument(a commands.Argument) Param {
	p := Param{Name: a.Name, Description: a.Description, Example: a.Example, Type: "leaf", SimpleType: "string"}
	p.Values = a.Values
	p.Mandatory = a.Values != nil && !a.Optional
	switch {
	case a.Number:
		p.SimpleType = "uint64"
	case a.Values != nil:
		p.SimpleType = "enumeration"
	}
	if a.Positional {
		p.Type = "key"
	}
	return p
}

// serviceParam describes a service in the help of the root.
type serviceParam struct {
	Name        string `json:"name"`
	SimpleType  string `json:"simpletype"`
	Type        string `json:"type"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Pyang       string `json:"pyang_repo_id"`
	Swagger     string `json:"swagger_codegen_repo_id"`
}

// Root handles OPTIONS /.
func (g *Guide) Root(w http.ResponseWriter, r *http.Request) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	message.SetAllow(w.Header(), []string{http.MethodGet, http.MethodOptions})
	words := commandsWith(verb)
	var params message.Ordered
	for _, i := range g.manager.Services() {
		words = append(words, i.Name)
		params = params.With(i.Name, serviceParam{Name: i.Name, SimpleType: "service", Type: "leaf", Description: i.Description, Version: i.Version})
	}
	if completion {
		for _, ref := range g.manager.Cubes() {
			words = append(words, ref.Name)
		}
		return g.out.JSON(w, r, http.StatusOK, BegunBy(r, words))
	}
	return g.out.JSON(w, r, http.StatusOK, message.Ordered{}.With("params", params))
}

// Show handles OPTIONS of read-only resources. Members of a collection are completed.
func (g *Guide) Show(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	h := Help{}
	if verb == resource.VerbNone {
		h.Commands = []string{"show"}
	}
	if len(rest) == 0 && (verb == resource.VerbNone || verb == resource.VerbShow) {
		g.addMembers(r, &h)
	}
	return g.Answer(w, r, []string{http.MethodGet, http.MethodOptions}, verb, completion, h)
}

// addMembers adds the members of a read-only collection.
func (g *Guide) addMembers(r *http.Request, h *Help) {
	switch message.CommandName(r) {
	case "netdevs":
		h.Params = []Param{Member("netdevs")}
		h.Elements = Named(g.names.NetdevNames(r))
	case "topology":
		h.Params = []Param{Member("topology")}
		h.Elements = Named(g.names.Attachable(r))
	case "history":
		h.Params = []Param{Member("history")}
		h.Elements = Named(g.names.Revisions(resource.DefaultRevisions))
	case "drops":
		h.Params = []Param{Member("drops")}
		h.Elements = append(g.CubeElements(func(CubeName) bool { return true }), Named([]string{trace.Framework})...)
	}
}

// Cubes handles OPTIONS of /cubes.
func (g *Guide) Cubes(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	h, methods := Help{}, []string{http.MethodGet, http.MethodOptions}
	if verb == resource.VerbNone {
		h.Commands = []string{"show"}
	}
	if len(rest) == 1 && verb == resource.VerbShow {
		h.Params = []Param{{Name: "stats", Description: "Counters, and the state of its programs", Type: "leaf"}}
	}
	if len(rest) == 0 {
		methods = []string{http.MethodGet, http.MethodPost, http.MethodOptions}
		if verb == resource.VerbNone {
			h.Commands = []string{"add", "show"}
		}
		if verb != resource.VerbAdd {
			h.Params = []Param{Member("cubes")}
			h.Elements = g.CubeElements(func(CubeName) bool { return true })
		}
	}
	return g.Answer(w, r, methods, verb, completion, h)
}

// Services handles OPTIONS of /services.
func (g *Guide) Services(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	h, methods := Help{}, []string{http.MethodGet, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	if verb == resource.VerbNone {
		h.Commands = []string{"show", "update", "del"}
	}
	if len(rest) == 0 {
		methods = []string{http.MethodGet, http.MethodPost, http.MethodOptions}
		if verb == resource.VerbNone {
			h.Commands = []string{"add", "show", "update", "del"}
		}
		if verb == resource.VerbAdd {
			h.Params = arguments(commands.Of(http.MethodPost, "/services"))
		} else {
			h.Params = []Param{Member("services")}
			h.Elements = []message.Ordered{}
			for _, i := range g.manager.Services() {
				h.Elements = append(h.Elements, message.Ordered{}.With("name", i.Name))
			}
		}
	}
	return g.Answer(w, r, methods, verb, completion, h)
}

// Connect handles OPTIONS of /connect and /disconnect; one segment is the first peer.
func (g *Guide) Connect(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	peers := arguments(commands.Of(http.MethodPost, "/connect"))
	h := Help{Params: peers[len(rest):]}
	if len(rest) < 2 {
		h.Elements = Named(g.peers(r, message.CommandName(r) == "connect", rest))
	}
	return g.Answer(w, r, []string{http.MethodPost, http.MethodOptions}, verb, completion, h)
}

// peers are what can be connected to, or disconnected from, the first peer.
func (g *Guide) peers(r *http.Request, connect bool, rest []string) []string {
	far := ""
	if len(rest) > 0 {
		far = rest[0]
	}
	if !connect {
		return g.names.Linked(far)
	}
	isNetdev := far != "" && !strings.Contains(far, ":")
	return slices.DeleteFunc(g.names.Usable(r), func(place string) bool {
		return place == far || isNetdev && !strings.Contains(place, ":")
	})
}

// attachPlaces are the cube and the port of attach and detach, attachOptions the positions among the cubes that are
// already attached.
func attachPlaces() []Param { return arguments(commands.Of(http.MethodPost, "/detach")) }

func attachOptions() []Param {
	return arguments(commands.Of(http.MethodPost, "/attach"))[len(attachPlaces()):]
}

// Attach handles OPTIONS of /attach and /detach; segments are the cube, the port and an option.
func (g *Guide) Attach(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	attach := message.CommandName(r) == "attach"
	methods := []string{http.MethodPost, http.MethodOptions}
	var h Help
	switch {
	case len(rest) == 3:
		return g.helpAttachOption(w, r, rest, completion)
	case len(rest) == 0:
		h.Elements = Named(g.names.TransparentCubes(func(parent string) bool { return (parent == "") == attach }))
	case len(rest) == 1 && attach:
		h.Elements = Named(g.names.Attachable(r))
	case len(rest) == 1:
		h.Elements = Named(g.names.ParentOf(rest[0]))
	}
	h.Params = attachPlaces()[len(rest):]
	if attach && (len(rest) == 2 || !completion) {
		h.Optional = attachOptions()
	}
	return g.Answer(w, r, methods, verb, completion, h)
}

// helpAttachOption handles OPTIONS of /attach/CUBE/PORT/OPTION.
func (g *Guide) helpAttachOption(w http.ResponseWriter, r *http.Request, rest []string, completion bool) error {
	options := attachOptions()
	i := slices.IndexFunc(options, func(p Param) bool { return p.Name == rest[2] })
	if i < 0 || message.CommandName(r) != "attach" {
		return message.NotFound("no resource %s", message.Clip(strings.Join(rest, "/")))
	}
	p := options[i]
	if p.Values == nil {
		p.Candidates = g.names.TransparentCubes(func(parent string) bool { return parent == rest[1] })
	}
	methods := []string{http.MethodOptions}
	if completion && p.Values != nil {
		p.Candidates = p.Values
	}
	if completion {
		message.SetAllow(w.Header(), methods)
		return g.out.JSON(w, r, http.StatusOK, BegunBy(r, p.leafWords()))
	}
	return g.Answer(w, r, methods, resource.VerbNone, false, Help{Params: []Param{p}})
}

// Named are elements with only a name.
func Named(names []string) []message.Ordered {
	out := []message.Ordered{}
	for _, n := range names {
		out = append(out, message.Ordered{}.With("name", n))
	}
	return out
}
