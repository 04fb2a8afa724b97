// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/yang"
)

// Some mistakes in a request can be recognized only from path and method together, such as a list where an entry was
// meant, or an action that does not exist. Such requests get an error that says what to write.

// advise refuses requests that cannot be intended, before anything is done. body may be nil.
func (c *Routes) advise(r *http.Request, t *resource.Target, body []byte) error {
	switch {
	case r.Method == http.MethodPost && r.Header.Get(resource.VerbHeader) == resource.VerbNone && t.Kind != resource.KindAction:
		return c.noAction(t)
	case t.Kind == resource.KindList && r.Method != http.MethodDelete && !bytes.HasPrefix(body, []byte("[")) && !setAsOne(r, t, body):
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: t.Node.Name(),
			Message: fmt.Sprintf("%s is a list: append %s to the path to address one entry, or send an array of entries", t.Words(), resource.Placeholders(t.Node, 0))}
	case t.Kind == resource.KindEntry && r.Method == http.MethodPatch && !bytes.HasPrefix(body, []byte("{")):
		return c.entryAsLeaf(t)
	}
	return nil
}

// setAsOne reports whether a command line sets a list of bare keys as a whole, by one word.
func setAsOne(r *http.Request, t *resource.Target, body []byte) bool {
	return r.Header.Get(resource.VerbHeader) != "" && r.Method == http.MethodPatch && t.Node.Bare() && len(body) > 0 && body[0] != '{'
}

// noAction is the error for words without a verb that are not an action. A mistyped word could be a verb, and must not
// create what it names.
func (c *Routes) noAction(t *resource.Target) *message.Error {
	p := &message.Error{Status: http.StatusBadRequest, Tag: message.TagUnsupported, Field: t.Segments[len(t.Segments)-1]}
	last := t.Segments[len(t.Segments)-1]
	verbs := "add, set, show or del"
	if t.Kind == resource.KindLeaf || t.Kind == resource.KindLeafList || t.Kind == resource.KindValue {
		verbs = "set or show"
	}
	p.Message = fmt.Sprintf("%s is not an action: use %s", t.Words(), verbs)
	if t.Kind == resource.KindCube && t.Node.Child(last) != nil {
		of := "<name>"
		if all := c.names.CubesOf(t.Service); len(all) == 1 {
			of = all[0]
		}
		p.Message = fmt.Sprintf("%s is part of a cube of the service %s: write %s %s", t.Words(), t.Service, of, t.Words())
	}
	if t.Kind == resource.KindEntry {
		p.Near = suggest.Near(last, resource.VerbWords)
	}
	return p
}

// entryAsLeaf is the error for a value given for a whole entry, which happens when a key was forgotten: "ports set
// peer=x" names the entry peer.
func (c *Routes) entryAsLeaf(t *resource.Target) error {
	last := t.Segments[len(t.Segments)-1]
	if t.Node.Child(last) == nil {
		return nil
	}
	return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: last,
		Message: fmt.Sprintf("specify the entry of %s: %s comes before %s", t.Node.Name(), resource.Placeholders(t.Node, 0), last)}
}

// incomplete is the error for a path that ends within the keys of a list.
func incomplete(r *http.Request, segments []string, p *yang.PartialKeysError) error {
	err := message.Allow(r, http.MethodOptions)
	if err == nil {
		return nil
	}
	t := resource.Target{Segments: segments}
	return &message.Error{Status: http.StatusMethodNotAllowed, Tag: message.TagUnsupported, Allow: []string{http.MethodOptions},
		Message: fmt.Sprintf("incomplete key in %s: an entry of %s is addressed by %s, and %s is missing", t.Words(), p.List.Name(),
			resource.Placeholders(p.List, 0), resource.Placeholders(p.List, len(p.Given)))}
}

// withValues adds the words after an action to its input.
func withValues(t *resource.Target, body []byte) ([]byte, error) {
	if len(t.Values) == 0 {
		return body, nil
	}
	var wanted []string
	for _, n := range t.Node.Input().Children() {
		if n.Mandatory() {
			wanted = append(wanted, n.Name())
		}
	}
	if len(body) == 0 {
		body = []byte("{}")
	}
	input, ok := jsonscan.ReadObject(body)
	if !ok {
		return body, nil // the model reports what is wrong
	}
	for i, value := range t.Values {
		if i >= len(wanted) {
			return nil, message.BadPath("%s: unexpected word %s", t.Words(), message.Clip(value))
		}
		if _, given := input.Get(wanted[i]); given {
			return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: wanted[i],
				Message: fmt.Sprintf("%s: %s is given twice", t.Words(), wanted[i])}
		}
		text, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		body = input.With(wanted[i], text)
		input, _ = jsonscan.ReadObject(body)
	}
	return body, nil
}
