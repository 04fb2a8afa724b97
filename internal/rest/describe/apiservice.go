// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"
	"strings"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// The paths of a service: of all its cubes, of one cube, and of every node in it. Methods come from the same functions
// that route requests.

// modelWalk collects the paths of one service.
type modelWalk struct {
	schemas *openapi.Schemas
	info    topology.ServiceInfo
	paths   []pathDoc
}

// servicePaths describes a service.
func servicePaths(schemas *openapi.Schemas, info topology.ServiceInfo, schema *yang.Schema) []pathDoc {
	w := &modelWalk{schemas: schemas, info: info}
	root := schema.Root()
	w.whole(root)
	at := spot{path: "/" + info.Name + "/{name}", params: []paramDoc{{name: "name", description: "Name of the cube.",
		example: info.Name + "1", schema: openapi.Of("type", "string", "pattern", openapi.CubeName)}}}
	w.resource(at, &resource.Target{Service: info.Name, Node: root, Kind: resource.KindCube})
	at.within = at.path
	w.children(at, root)
	return w.paths
}

// spot is a position in a path under construction.
type spot struct {
	path   string
	params []paramDoc
	// within is the path of the nearest cube or entry above.
	within string
}

// below is a position one name further down.
func (p spot) below(name string) spot {
	return spot{p.path + "/" + name, p.params[:len(p.params):len(p.params)], p.within}
}

// key is a position one key further down. Its parameter has the name of the key, unless another key on the path has
// the same name.
func (p spot) key(schemas *openapi.Schemas, list, key *yang.Node, name string) spot {
	for _, q := range p.params {
		if q.name == name {
			name = list.Name() + "_" + name
			break
		}
	}
	for _, q := range p.params {
		if q.name == name {
			name = strings.ReplaceAll(list.Path(), "/", "_") + "_" + name
			break
		}
	}
	param := paramDoc{name: name, schema: schemas.Key(key), description: strings.Join(strings.Fields(key.Description()), " ")}
	param.example, _ = schemas.Example(key)
	return spot{p.path + "/{" + name + "}", append(p.params[:len(p.params):len(p.params)], param), p.within}
}

// whole describes the service as a whole.
func (w *modelWalk) whole(root *yang.Node) {
	name := w.info.Name
	cube := w.schemas.Node(name, root, openapi.New, true)
	named := openapi.Of("allOf", []openapi.Object{cube, openapi.Of("required", []string{"name"})})
	example, _ := w.schemas.BodyExample(root)
	w.paths = append(w.paths, pathDoc{path: "/" + name, operations: []operationDoc{
		{method: http.MethodGet, summary: "Read all cubes of " + name, success: http.StatusOK, says: "The cubes.", query: pageDocs(nil),
			description: "A request with a body is refused with 405.", also: []int{http.StatusBadRequest, http.StatusMethodNotAllowed},
			content: answers(openapi.Of("type", "array", "items", w.schemas.Node(name, root, openapi.Read, true)))},
		{method: http.MethodPost, summary: "Create a " + name + ", or several at once", success: http.StatusCreated, says: "All cubes were created.",
			description: "Either all cubes of an array are created, or none.", needsBody: true, createsBelow: "/" + name + "/{name}", also: []int{http.StatusConflict},
			body:    openapi.Of("anyOf", []openapi.Object{named, openapi.Of("type", "array", "items", named)}),
			example: append(openapi.Of("name", name+"1"), example...)},
		{method: http.MethodPatch, summary: "Change the " + name + " that the body names", success: http.StatusCreated, says: "The cube was changed.",
			body:    openapi.Of("allOf", []openapi.Object{w.schemas.Node(name, root, openapi.Change, true), openapi.Of("required", []string{"name"})}),
			example: openapi.Of("name", name+"1"), needsBody: true, also: []int{http.StatusNotFound, http.StatusConflict}},
		helpDoc(),
	}})
}

// children describes the members of a node.
func (w *modelWalk) children(at spot, n *yang.Node) {
	for _, c := range n.Children() {
		w.node(at.below(c.Name()), c)
	}
}

// node describes a node and everything below.
func (w *modelWalk) node(at spot, n *yang.Node) {
	t := &resource.Target{Service: w.info.Name, Node: n}
	switch n.Kind() {
	case yang.Container:
		t.Kind = resource.KindContainer
	case yang.Leaf:
		t.Kind = resource.KindLeaf
	case yang.LeafList:
		t.Kind = resource.KindLeafList
	case yang.List:
		t.Kind = resource.KindList
	case yang.Action:
		t.Kind = resource.KindAction
	}
	w.resource(at, t)
	switch n.Kind() {
	case yang.Container:
		w.children(at, n)
	case yang.LeafList:
		entry := at.key(w.schemas, n, n, "value")
		w.resource(entry, &resource.Target{Service: w.info.Name, Node: n, Kind: resource.KindValue})
	case yang.List:
		w.entries(at, n)
	case yang.Leaf, yang.Action:
	}
}

// entries describes a list's entries.
func (w *modelWalk) entries(at spot, n *yang.Node) {
	keys := n.Keys()
	if len(keys) == 0 {
		return // state without keys has no addressable entries
	}
	for i, k := range keys {
		if i > 0 { // within the keys there is only help
			w.paths = append(w.paths, pathDoc{path: at.path, params: at.params, operations: []operationDoc{helpDoc()}})
		}
		at = at.key(w.schemas, n, k, k.Name())
	}
	w.resource(at, &resource.Target{Service: w.info.Name, Node: n, Kind: resource.KindEntry})
	at.within = at.path
	w.children(at, n)
}

// resource describes a target by its methods.
func (w *modelWalk) resource(at spot, t *resource.Target) {
	p := pathDoc{path: at.path, params: at.params, within: at.within}
	for _, m := range t.Methods() {
		var o operationDoc
		switch {
		case m == http.MethodOptions:
			o = helpDoc()
		case t.Kind == resource.KindAction:
			o = w.action(t)
		case m == http.MethodGet:
			o = w.read(t)
		default:
			o = w.change(t, m)
		}
		if o.method, o.success = m, t.Success(m); !message.ReadOnly(m) {
			o.headers = append(o.headers, ifMatch())
		}
		o.also = append(o.also, faultsOf(t, m)...)
		o.creates = (t.Kind == resource.KindCube || t.Kind == resource.KindEntry) && (m == http.MethodPost || m == http.MethodPut)
		p.operations = append(p.operations, o)
	}
	w.paths = append(w.paths, p)
}

// faultsOf are the error statuses of a kind of request, in addition to those of every request.
func faultsOf(t *resource.Target, method string) []int {
	switch {
	case method == http.MethodOptions:
		return nil
	case method == http.MethodGet:
		return []int{http.StatusNotFound}
	case t.Kind == resource.KindCube:
		return []int{http.StatusConflict, http.StatusPreconditionFailed}
	}
	return []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed}
}

// what names a target in a summary.
func what(t *resource.Target) string {
	switch t.Kind {
	case resource.KindCube:
		return "a " + t.Service
	case resource.KindEntry:
		return "an entry of " + t.Node.Path()
	case resource.KindValue:
		return "a value of " + t.Node.Path()
	case resource.KindList:
		return "the list " + t.Node.Path()
	case resource.KindContainer, resource.KindLeaf, resource.KindLeafList, resource.KindAction:
	}
	return t.Node.Path()
}

func (w *modelWalk) read(t *resource.Target) operationDoc {
	entry := t.Kind == resource.KindEntry || t.Kind == resource.KindValue || t.Kind == resource.KindCube
	var query []paramDoc
	var sent []string
	var headers []paramDoc
	if t.Kind == resource.KindList {
		query = pageDocs(t.Node)
		sent = append(sent, "Link")
	}
	if t.Node.Config() {
		sent = append(sent, "ETag")
	}
	if t.Conditional() {
		headers = append(headers, ifNoneMatch())
	}
	return operationDoc{headers: headers, sent: sent, unchanged: t.Conditional(), summary: "Read " + what(t), description: note(t), says: "The current value.", query: query,
		content: answers(w.schemas.Node(w.info.Name, t.Node, openapi.Read, entry))}
}

// note is the description in the model.
func note(t *resource.Target) string { return strings.Join(strings.Fields(t.Node.Description()), " ") }

func (w *modelWalk) action(t *resource.Target) operationDoc {
	input := w.schemas.Input(w.info.Name, t.Node)
	o := operationDoc{summary: "Run " + t.Node.Path(), description: note(t), says: "The action was executed.", body: input}
	if input != nil {
		o.needsBody = len(openapi.Required(t.Node.Input())) > 0
		o.example = w.newExample(t.Node.Input())
	}
	if out := w.schemas.Output(w.info.Name, t.Node); out != nil {
		o.content = answers(out)
	}
	return o
}

// change describes POST, PUT, PATCH and DELETE.
func (w *modelWalk) change(t *resource.Target, method string) operationDoc {
	if method == http.MethodDelete {
		return deletionDoc(t)
	}
	use, verb := openapi.New, "Create "
	switch method {
	case http.MethodPut:
		verb = "Create or replace "
	case http.MethodPatch:
		use, verb = openapi.Change, "Change "
	}
	o := operationDoc{summary: verb + what(t), description: note(t)}
	if t.Kind == resource.KindValue {
		return o
	}
	o.body = w.schemas.Node(w.info.Name, t.Node, use, t.Kind == resource.KindEntry || t.Kind == resource.KindCube)
	switch t.Kind {
	case resource.KindLeaf, resource.KindLeafList, resource.KindList:
		o.needsBody = true
	default:
		if use == openapi.New {
			o.needsBody = len(openapi.Required(t.Node)) > 0
			o.example = w.newExample(t.Node)
		}
	}
	return o
}

// newExample is a body that creates a node, nil if unknown.
func (w *modelWalk) newExample(n *yang.Node) any {
	if example, ok := w.schemas.BodyExample(n); ok {
		return example
	}
	return nil
}

// deletionDoc describes DELETE.
func deletionDoc(t *resource.Target) operationDoc {
	o := operationDoc{summary: "Delete " + what(t), says: "It was deleted."}
	if t.Kind == resource.KindList {
		o.says = "Every entry that can be deleted was deleted."
		o.description = "Deletes every entry that can be deleted by its key, configured or not, in one change. " +
			"Entries derived from other configuration stay. An empty list is not an error."
		o.query = []paramDoc{{name: resource.ParamAll, flag: true, schema: textSchema(),
			description: "Required to delete a whole list; refused on any other path."}}
	}
	return o
}

// pageDocs describe the parameters; list is nil for the cubes of a service.
func pageDocs(list *yang.Node) []paramDoc {
	docs := []paramDoc{
		{name: resource.ParamLimit, description: "Maximum number of entries; the Link header has the next page (rel=next).",
			schema: openapi.Of("type", "integer", "minimum", 1, "maximum", resource.MaxLimit)},
		{name: resource.ParamFilter, description: "Only entries for which this comparison of a leaf holds (= != < <= > >=; * matches any text). May be repeated: all must hold.",
			schema: textSchema()},
	}
	switch {
	case list != nil && list.Paged():
		docs = append(docs, paramDoc{name: resource.ParamAfter, schema: textSchema(),
			description: "Start where the previous page ended, as its Link header says."})
	case list == nil || len(list.Keys()) > 0:
		docs = append(docs, paramDoc{name: resource.ParamAfter, schema: textSchema(),
			description: "Start after the entry with these keys, joined as in a path."})
	}
	return docs
}
