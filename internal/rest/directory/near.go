// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// A client that mistypes a name gets the nearest valid ones: in the message, and in the member did-you-mean for
// programs. Only names that a GET or OPTIONS would show to the same client are offered; a client without the right to
// read never gets here.

// Near are suggestions for the word that an error is about.
func (dir *Directory) Near(r *http.Request, err error) []string {
	var p *message.Error
	var y *yang.Error
	var absent *topology.AbsentError
	switch {
	case errors.As(err, &p) && p.Cause != nil:
		return dir.Near(r, p.Cause)
	case errors.As(err, &p):
		return p.Near
	case errors.As(err, &absent):
		return dir.nearAbsent(r, absent)
	case errors.As(err, &y) && y.Given != "":
		return dir.nearValue(r, y)
	case message.IsMissing(err) && r.URL.Query().Has("cube"):
		return suggest.Near(r.URL.Query().Get("cube"), dir.CubeNames())
	case message.IsMissing(err):
		return dir.nearEntry(r)
	}
	return nil
}

// nearAbsent searches resources of the same kind as the missing one.
func (dir *Directory) nearAbsent(r *http.Request, a *topology.AbsentError) []string {
	switch a.Kind {
	case "netdev":
		if ports := dir.portsOf(a.Name); len(ports) > 0 {
			// The name of a cube is given where one of its ports is required.
			return ports[:min(len(ports), 3)]
		}
		return suggest.Near(a.Name, dir.NetdevNames(r))
	case "port":
		var near []string
		for _, place := range suggest.Near(a.Cube+":"+a.Name, dir.portsOf(a.Cube)) {
			near = append(near, place[len(a.Cube)+1:])
		}
		return near
	}
	return suggest.Near(a.Name, dir.CubeNames())
}

// nearValue searches the values that the model knows, or that a leafref can refer to.
func (dir *Directory) nearValue(r *http.Request, y *yang.Error) []string {
	if len(y.Near) > 0 {
		return y.Near
	}
	t := dir.targetOf(r)
	if t == nil {
		return nil
	}
	if y.Tag == yang.BadElement {
		return nil
	}
	words, err := message.SplitPath(message.JoinPath() + y.Path)
	if err != nil {
		return nil
	}
	schema, err := dir.manager.Schema(t.Service)
	if err != nil {
		return nil
	}
	leaf, path, err := schema.Resolve(words)
	if err != nil || r.Method == http.MethodDelete && !leaf.IsKey() {
		return nil // the value is valid: its target would be deleted
	}
	return suggest.Near(y.Given, dir.referents(r.Context(), t.Service, t.Cube, leaf, path))
}

// nearEntry finds the first key on the request's path that no entry has, and similar keys.
func (dir *Directory) nearEntry(r *http.Request) []string {
	t := dir.targetOf(r)
	if t == nil {
		return nil
	}
	for i, step := range t.Path {
		node := t.Node
		for range len(t.Path) - 1 - i {
			node = node.Parent()
		}
		if node.Kind() != yang.List || len(step.Keys) == 0 {
			continue
		}
		list := slices.Clone(t.Path[:i+1])
		list[i].Keys = nil
		entries := dir.KeysIn(r.Context(), t, list, maxCompared, func([]string) bool { return true })
		if len(entries) == maxCompared && i < len(t.Path)-1 {
			return nil // it is unknown whether this entry is the missing one
		}
		if !slices.ContainsFunc(entries, func(keys []string) bool { return slices.Equal(keys, step.Keys) }) {
			return nearKeys(step.Keys, entries)
		}
	}
	return nil
}

// maxCompared is how many entries are compared with an unknown key, so that a refused request does not cost more than
// an accepted one.
const maxCompared = 1000

// nearKeys compares the first unknown key with those of the entries, as keys are typed.
func nearKeys(given []string, entries [][]string) []string {
	for i, key := range given {
		var same [][]string
		var there []string
		for _, keys := range entries {
			if keys[i] == key {
				same = append(same, keys)
			}
			there = append(there, keys[i])
		}
		if same == nil {
			return suggest.Near(key, there)
		}
		entries = same
	}
	return nil
}

// targetOf is the node that a request is about, nil if its path names none.
func (dir *Directory) targetOf(r *http.Request) *resource.Target {
	segments, err := message.SplitPath(r.URL.EscapedPath())
	if err != nil || len(segments) < 2 {
		return nil
	}
	t, err := resource.Resolve(dir.manager, segments)
	if err != nil {
		return nil
	}
	return t
}

// OrVerbs adds the verbs to the suggestions for a word from a command line.
func OrVerbs(r *http.Request, word string, near []string) []string {
	if r.Header.Get(resource.VerbHeader) != resource.VerbNone {
		return near
	}
	return append(suggest.Near(word, resource.VerbWords), near...)
}

// CubeNames lists the running cubes.
func (dir *Directory) CubeNames() []string {
	var out []string
	for _, ref := range dir.manager.Cubes() {
		out = append(out, ref.Name)
	}
	return out
}

// ServiceNames lists the loaded services.
func (dir *Directory) ServiceNames() []string {
	var out []string
	for _, info := range dir.manager.Services() {
		out = append(out, info.Name)
	}
	return out
}

// CubesOf lists the running cubes of a service.
func (dir *Directory) CubesOf(service string) []string {
	var out []string
	for _, ref := range dir.manager.Cubes() {
		if ref.Service == service {
			out = append(out, ref.Name)
		}
	}
	return out
}

// NoResource is the error for a word of the path that is not valid there.
func (dir *Directory) NoResource(r *http.Request, word string, known ...string) *message.Error {
	p := message.NotFound("no resource %s: did you mean %s", message.Clip(strings.TrimPrefix(r.URL.Path, message.BasePath+"/")), strings.Join(known, ", "))
	p.Near = suggest.Near(word, known)
	return p
}

// NoService is the error if no service of that name is loaded.
func (dir *Directory) NoService(status int, name string) *message.Error {
	return &message.Error{Status: status, Tag: message.TagDataMissing, Message: fmt.Sprintf("no service is named %s", message.Clip(name)),
		Near: suggest.Near(name, dir.ServiceNames())}
}

// NoCube is the error if no cube of that kind is running: there may be one in the store.
func (dir *Directory) NoCube(name, kind string, known []string) *message.Error {
	if why := dir.manager.Degraded(name); why != "" {
		return message.NotFound("cube %s %s", message.Clip(name), why)
	}
	p := message.NotFound("no %s is named %s", kind, message.Clip(name))
	p.Near = suggest.Near(name, known)
	return p
}
