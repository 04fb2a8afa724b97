// SPDX-License-Identifier: Apache-2.0

package help

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/yang"
)

// Help for people who type commands, derived from the model: OPTIONS …?help=VERB returns what can come next. Verbs are
// those of the command line: NONE, ADD, SET, SHOW, DEL.

// Guide handles OPTIONS: what can be typed next, for people and for shells.
type Guide struct {
	names   *directory.Directory
	manager directory.Manager
	out     message.Sender
}

// New creates the guide to the cubes of a Manager.
func New(names *directory.Directory, manager directory.Manager, out message.Sender) *Guide {
	return &Guide{names: names, manager: manager, out: out}
}

// Param describes one word or key=value that can come next.
type Param struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Example     string `json:"example"`
	// Type is key, leaf, list, complex or action; SimpleType the built-in type of its value.
	Type       string `json:"type"`
	SimpleType string `json:"simpletype"`
	Constraints

	// Implied is a member that nobody types, because the path already has it.
	Implied bool `json:"implied,omitempty"`
}

// Constraints are what else the model says about a value. Members that do not apply are omitted; the first API had
// none of them.
type Constraints struct {
	// Typedef is the name of the type in the model, if it is not a built-in one.
	Typedef  string   `json:"typedef,omitempty"`
	Units    string   `json:"units,omitempty"`
	Default  *string  `json:"default,omitempty"`
	Range    string   `json:"range,omitempty"`
	Length   string   `json:"length,omitempty"`
	Patterns []string `json:"pattern,omitempty"`
	Values   []string `json:"values,omitempty"`
	// Meanings are the descriptions of values that have one.
	Meanings  message.Ordered `json:"value-descriptions,omitempty"`
	Leafref   string          `json:"leafref,omitempty"`
	Mandatory bool            `json:"mandatory,omitempty"`
	// InitOnly marks nodes that are given only at creation, State read-only ones.
	InitOnly bool `json:"init-only,omitempty"`
	State    bool `json:"state,omitempty"`
	// Candidates are existing values, for a reference.
	Candidates []string `json:"candidates,omitempty"`
}

// Help is the response to OPTIONS; missing parts are omitted.
type Help struct {
	Commands         []string
	Params, Optional []Param
	// flags can follow anywhere.
	flags []Param
	// Elements are the entries of a list by their keys, in the model's order.
	Elements []message.Ordered
	actions  []Param
}

// MarshalJSON writes params in the model's order.
func (h Help) MarshalJSON() ([]byte, error) {
	var out message.Ordered
	if h.Commands != nil {
		out = out.With("commands", h.Commands)
	}
	for _, part := range []struct {
		name   string
		params []Param
	}{{"params", h.Params}, {"optional-params", h.Optional}, {"actions", h.actions}, {"flags", h.flags}} {
		if part.params == nil {
			continue
		}
		var members message.Ordered
		for _, p := range part.params {
			members = members.With(p.Name, p)
		}
		out = out.With(part.name, members)
	}
	if h.Elements != nil {
		out = out.With("elements", h.Elements)
	}
	return out.MarshalJSON()
}

// Verb parses ?help= and ?completion.
func Verb(r *http.Request) (verb string, completion bool, err error) {
	q := r.URL.Query()
	completion = q.Has("completion")
	verb = strings.ToUpper(q.Get("help"))
	switch verb {
	case "":
		verb = resource.VerbNone
	case resource.VerbNone, resource.VerbAdd, resource.VerbSet, resource.VerbShow, resource.VerbDel:
	default:
		err = message.BadPath("help=%s: expected NONE, ADD, SET, SHOW or DEL", message.Clip(verb))
	}
	return verb, completion, err
}

// Answer sends help, or the words that complete it.
func (g *Guide) Answer(w http.ResponseWriter, r *http.Request, methods []string, verb string, completion bool, h Help) error {
	message.SetAllow(w.Header(), methods)
	if completion {
		words := h.words(verb)
		if strings.HasPrefix(r.URL.Query().Get("prefix"), "-") {
			words = append(words, h.flagWords()...) // only then, because a shell inserts a single candidate
		}
		return g.out.JSON(w, r, http.StatusOK, BegunBy(r, words))
	}
	return g.out.JSON(w, r, http.StatusOK, h)
}

// Node handles OPTIONS of a cube or a node in it. The cube need not exist, because help for adding it is requested
// before.
func (g *Guide) Node(w http.ResponseWriter, r *http.Request, t *resource.Target) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	var h Help
	switch t.Kind {
	case resource.KindLeaf, resource.KindLeafList, resource.KindValue:
		return g.Leaf(w, r, t, t.Node, t.Path)
	case resource.KindAction:
		h.Params, h.Optional = inputParams(t.Node)
	case resource.KindList:
		if q := r.URL.Query(); t.Node.Bare() && (q.Has("value") || q.Get("completion") == "value") {
			return g.Leaf(w, r, t, t.Node, t.Path) // behind "="
		}
		h = g.listHelp(r, t, verb)
	default:
		h = nodeHelp(t, verb, g.targetExists(r, t))
	}
	return g.Answer(w, r, t.Methods(), verb, completion, h)
}

// targetExists reports whether the target exists.
func (g *Guide) targetExists(r *http.Request, t *resource.Target) bool {
	if !g.names.Runs(t.Service, t.Cube) || t.Kind != resource.KindEntry {
		return g.names.Runs(t.Service, t.Cube)
	}
	_, err := g.manager.Read(r.Context(), t.Service, t.Cube, t.Path)
	return err == nil
}

// nodeHelp is the help of a node with members: a cube, a container, a list entry. For an existing node, ADD leads to
// its lists instead of adding the node.
func nodeHelp(t *resource.Target, verb string, exists bool) Help {
	children := t.Node.Children()
	if t.Kind == resource.KindCube {
		children = slices.DeleteFunc(slices.Clone(children), func(n *yang.Node) bool { return n.Name() == "name" })
	}
	var h Help
	switch verb {
	case resource.VerbAdd:
		if exists {
			h.Params = pick(children, func(n *yang.Node) bool { return inner(n) && n.Config() })
			break
		}
		all := valuesIn(children)
		h.Params = describe(all, func(n nested) bool { return n.must })
		h.Optional = describe(all, func(n nested) bool { return !n.must })
		for i := range h.Optional {
			h.Optional[i].Implied = t.Kind == resource.KindCube && h.Optional[i].Name == "service-name"
		}
	case resource.VerbSet:
		h.Params = describe(valuesIn(children), func(n nested) bool { return !n.InitOnly() })
		if t.Kind != resource.KindEntry && len(h.Params) == 0 {
			h.Params = pick(children, func(n *yang.Node) bool { return inner(n) && n.Config() })
		}
	case resource.VerbShow:
		h.Params = pick(children, func(n *yang.Node) bool { return n.Kind() != yang.Action })
		for i := range h.Params {
			if h.Params[i].Type == "key" {
				h.Params[i].Type = "leaf" // one to read, the path has its value
			}
		}
	case resource.VerbDel:
		h.Params = pick(children, func(n *yang.Node) bool {
			return inner(n) && (n.Config() || n.Deletable()) || settable(n) && !n.InitOnly() && !n.Mandatory()
		})
	default:
		h.Commands = verbsOf(t, exists)
		if !exists {
			break
		}
		h.Params = pick(children, inner)
		h.actions = pick(children, func(n *yang.Node) bool { return n.Kind() == yang.Action && !isListAction(n, children) })
	}
	return h
}

// isListAction reports whether an action is offered as a verb of a sibling list.
func isListAction(action *yang.Node, siblings []*yang.Node) bool {
	return slices.ContainsFunc(siblings, func(n *yang.Node) bool {
		return slices.Contains(slices.Collect(maps.Values(n.Verbs())), action)
	})
}

// verbsOf are the verbs that make sense for a node.
func verbsOf(t *resource.Target, exists bool) []string {
	switch {
	case t.Kind != resource.KindCube && t.Node.Deletable():
		return []string{"show", "del"}
	case t.Kind != resource.KindCube && !t.Node.Config():
		return []string{"show"}
	case !exists:
		return []string{"add"}
	}
	verbs := []string{"add", "set", "show", "del"}
	if t.Kind == resource.KindList || t.Kind == resource.KindCube {
		return verbs
	}
	// ADD needs lists, and SET needs something that can change.
	children := t.Node.Children()
	return slices.DeleteFunc(verbs, func(v string) bool {
		return v == "add" && !slices.ContainsFunc(children, func(n *yang.Node) bool { return inner(n) && n.Config() }) ||
			v == "set" && !slices.ContainsFunc(valuesIn(children), func(n nested) bool { return !n.InitOnly() })
	})
}

// listHelp is the help of a whole list: its keys, and the existing entries.
func (g *Guide) listHelp(r *http.Request, t *resource.Target, verb string) Help {
	h := Help{Params: keyParams(t.Node.Keys()), flags: flagsOf(t, verb)}
	if verb == resource.VerbNone {
		h.Commands = verbsOf(t, true)
		verbs := t.Node.Verbs()
		for _, name := range slices.Sorted(maps.Keys(verbs)) {
			p := paramOf(verbs[name])
			p.Name = name
			h.actions = append(h.actions, p)
		}
	}
	g.addKeys(r, t, verb, nil, &h)
	return h
}

// addKeys completes help for a list whose first keys are given: by the existing entries, or by what the next key of a
// new one can be.
func (g *Guide) addKeys(r *http.Request, t *resource.Target, verb string, given []string, h *Help) {
	if verb != resource.VerbAdd {
		h.Elements = g.elements(r, t, given)
		return
	}
	next := t.Node.Keys()[len(given)]
	h.Params[0].Candidates = g.names.Values(r, t, next, append(slices.Clone(t.Path), yang.Step{Name: next.Name()}))
}

// elements are the entries of a list whose first keys are given, by the other keys.
func (g *Guide) elements(r *http.Request, t *resource.Target, given []string) []message.Ordered {
	out := []message.Ordered{}
	prefix := r.URL.Query().Get("prefix")
	for _, keys := range g.names.KeysIn(r.Context(), t, t.Path, directory.MaxElements, func(keys []string) bool {
		return slices.Equal(keys[:len(given)], given) && strings.HasPrefix(keys[len(given)], prefix)
	}) {
		var e message.Ordered
		for i, k := range t.Node.Keys()[len(given):] {
			e = e.With(k.Name(), keys[len(given)+i])
		}
		out = append(out, e)
	}
	return out
}

// Partial handles OPTIONS within the keys of a list.
func (g *Guide) Partial(w http.ResponseWriter, r *http.Request, segments []string, p *yang.PartialKeysError) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	t := &resource.Target{Service: segments[0], Cube: segments[1], Segments: segments, Node: p.List, Path: p.Path, Kind: resource.KindList}
	h := Help{Params: keyParams(p.List.Keys()[len(p.Given):])}
	g.addKeys(r, t, verb, p.Given, &h)
	return g.Answer(w, r, []string{http.MethodOptions}, verb, completion, h)
}

// Service handles OPTIONS of a whole service: its cubes are the elements.
func (g *Guide) Service(w http.ResponseWriter, r *http.Request, service string) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	h := Help{Params: []Param{{Name: "name", Description: "Name of the cube", Example: service + "1", Type: "key", SimpleType: "string"}}}
	if verb == resource.VerbNone {
		h.Commands = []string{"add", "show", "del"}
	}
	if verb != resource.VerbAdd {
		h.Elements = g.CubeElements(func(ref CubeName) bool { return ref.service == service })
	}
	return g.Answer(w, r, []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodOptions}, verb, completion, h)
}

// CubeName is a cube and its service.
type CubeName struct{ name, service string }

// CubeElements are the running cubes for which keep returns true.
func (g *Guide) CubeElements(keep func(CubeName) bool) []message.Ordered {
	out := []message.Ordered{}
	for _, ref := range g.manager.Cubes() {
		if keep(CubeName{ref.Name, ref.Service}) {
			out = append(out, message.Ordered{}.With("name", ref.Name))
		}
	}
	return out
}

// settable are the nodes that key=value can set.
func settable(n *yang.Node) bool {
	return n.Config() && !n.IsKey() && (n.Kind() == yang.Leaf || n.Kind() == yang.LeafList)
}

// inner are the nodes that have members.
func inner(n *yang.Node) bool { return n.Kind() == yang.Container || n.Kind() == yang.List }

// pick describes the nodes for which keep returns true.
func pick(nodes []*yang.Node, keep func(*yang.Node) bool) []Param {
	out := []Param{}
	for _, n := range nodes {
		if keep(n) {
			out = append(out, paramOf(n))
		}
	}
	return out
}

func keyParams(keys []*yang.Node) []Param {
	out := make([]Param, len(keys))
	for i, k := range keys {
		out[i] = paramOf(k)
	}
	return out
}

// inputParams describes the input of an action.
func inputParams(action *yang.Node) (mandatory, optional []Param) {
	mandatory, optional = []Param{}, []Param{}
	if action.Input() == nil {
		return mandatory, optional
	}
	for _, c := range action.Input().Children() {
		if c.Mandatory() {
			mandatory = append(mandatory, paramOf(c))
		} else {
			optional = append(optional, paramOf(c))
		}
	}
	return mandatory, optional
}

// InputLeaf finds a member of an action's input, and the action. Such a member has no resource but is completed like
// any other leaf.
func (g *Guide) InputLeaf(segments []string) (*resource.Target, *yang.Node) {
	last := len(segments) - 1
	if last < 2 {
		return nil, nil
	}
	t, err := resource.Resolve(g.manager, segments[:last])
	if err != nil || t.Kind != resource.KindAction || t.Node.Input() == nil {
		return nil, nil
	}
	return t, t.Node.Input().Child(segments[last])
}

// Leaf handles OPTIONS of one leaf; path leads to it.
func (g *Guide) Leaf(w http.ResponseWriter, r *http.Request, t *resource.Target, n *yang.Node, path yang.Path) error {
	verb, completion, err := Verb(r)
	if err != nil {
		return err
	}
	p := valueParam(n)
	p.Candidates = g.names.ValuesOf(r, t, n, path)
	methods := []string{http.MethodOptions}
	if n == t.Node {
		methods = t.Methods()
	}
	if completion {
		message.SetAllow(w.Header(), methods)
		words := p.leafWords()
		if r.URL.Query().Get("completion") == "word" {
			words = leafVerbs(verb) // its values follow a "=", not the path
		}
		return g.out.JSON(w, r, http.StatusOK, BegunBy(r, completeLast(r, n, words)))
	}
	if len(p.Values) > 0 || p.SimpleType == "boolean" {
		p.Candidates = nil // already listed
	}
	p.Candidates = p.Candidates[:min(len(p.Candidates), maxShown)]
	h := Help{Params: []Param{p}}
	if verb == resource.VerbNone && n == t.Node {
		h.Commands = []string{"show"}
	}
	return g.Answer(w, r, methods, verb, false, h)
}

// leafVerbs are the words that can follow the path of a leaf.
func leafVerbs(verb string) []string {
	if verb == resource.VerbNone {
		return []string{"show"}
	}
	return nil
}

// maxShown is how many values the description of one leaf lists.
const maxShown = 100

// paramOf describes a node.
func paramOf(n *yang.Node) Param {
	p := Param{Name: n.Name(), Description: strings.Join(strings.Fields(n.Description()), " "), Example: resource.Example(n), Type: "leaf"}
	p.State = !n.Config()
	switch n.Kind() {
	case yang.Container:
		p.Type, p.SimpleType = "complex", ""
	case yang.List:
		p.Type, p.SimpleType = "list", ""
	case yang.Action:
		p.Type, p.SimpleType, p.State = "action", "", false
	default:
		p.describeValue(n)
	}
	return p
}

// describeValue adds the possible values of a leaf.
func (p *Param) describeValue(n *yang.Node) {
	t := n.Type()
	p.SimpleType, p.Values = t.Base, t.Enums
	for i, text := range t.EnumTexts {
		if text != "" {
			p.Meanings = p.Meanings.With(t.Enums[i], strings.Join(strings.Fields(text), " "))
		}
	}
	p.Units, p.Length, p.Patterns, p.Leafref = n.Units(), t.Length, t.Patterns, t.LeafrefPath
	p.Mandatory, p.InitOnly = n.Mandatory() && n.Config(), n.InitOnly() && n.Config()
	if t.Range != "" {
		p.Range = t.Range
	}
	if t.Name != t.Base && t.LeafrefPath == "" {
		p.Typedef = t.Name
	}
	if value, ok := n.Default(); ok {
		p.Default = &value
	}
	if n.IsKey() {
		p.Type = "key"
	}
	if n.Kind() == yang.LeafList {
		p.SimpleType += "[]"
	}
}

// flagsOf are the flags of a verb on a list.
func flagsOf(t *resource.Target, verb string) []Param {
	if verb != resource.VerbDel || !slices.Contains(t.Methods(), http.MethodDelete) {
		return nil
	}
	return []Param{{Name: resource.FlagAll, Description: "Delete every entry without asking", Type: "flag"}}
}
