// SPDX-License-Identifier: Apache-2.0

// Package document reads, compares and prints configurations in the form of files and requests: it parses documents,
// finds the difference between two configurations and writes results of reads. It changes nothing; documents are
// applied by a transaction.
package document

// A document is a configuration in the form of a file: cubes as in their request bodies, and the order of transparent
// cubes at netdevs. All errors in a document are reported at once, each with its place.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Document is the content of one file, or of several that were merged.
type Document struct {
	Cubes   []*Cube
	Netdevs []*Netdev
	ByName  map[string]*Cube
}

// Cube is a cube in a document.
type Cube struct {
	Where         string
	Name, Service string
	// Parent is where a transparent cube is attached, "" if the document does not say.
	Parent string
	// Body is the rest, for the model.
	Body []byte
}

// Netdev is a netdev in a document, with its transparent cubes, first to last towards the stack on ingress.
type Netdev struct {
	Where, Name string
	Tcubes      []string
}

// Error is an error in one part of a document.
type Error struct {
	// Where is the part, like "cubes[2] br1"; "" for the whole document.
	Where string
	// Cube is the name of the cube concerned, if it has one.
	Cube string
	Err  error
}

// Error returns the message with its place.
func (f *Error) Error() string {
	if f.Where == "" {
		return f.Err.Error()
	}
	return f.Where + ": " + f.Err.Error()
}

// Unwrap returns the error without its place.
func (f *Error) Unwrap() error { return f.Err }

// Errors are all errors of a document, in its order.
type Errors []*Error

// Error returns all messages, one per line.
func (f Errors) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors.
func (f Errors) Unwrap() []error {
	errs := make([]error, len(f))
	for i, one := range f {
		errs[i] = one
	}
	return errs
}

// maxFaults limits how many errors of one document are reported.
const maxFaults = 32

// Add adds an error; if err joins several, each of them.
func (f *Errors) Add(where, name string, err error) {
	if err == nil || len(*f) >= maxFaults {
		return
	}
	if y, ok := err.(*yang.Error); ok && len(y.Errs) > 1 { //nolint:errorlint // an error that wraps it may say more
		for _, one := range y.Errs {
			f.Add(where, name, one)
		}
		return
	}
	*f = append(*f, &Error{Where: where, Cube: name, Err: err})
}

// Err is nil if there is no error.
func (f Errors) Err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// Parse reads an array of cubes, or an object with the members cubes and netdevs.
func Parse(raw []byte) (*Document, error) {
	var faults Errors
	var netdevs [][]byte
	cubes, isList := jsonscan.ReadArray(raw)
	if !isList && string(bytes.TrimSpace(raw)) != "null" {
		top, ok := jsonscan.ReadObject(raw)
		if !ok {
			return nil, &yang.Error{Tag: yang.InvalidValue, Message: "expected a list of cubes, or an object with the members cubes and netdevs"}
		}
		for _, name := range top.Names() {
			into := map[string]*[][]byte{"cubes": &cubes, "netdevs": &netdevs}[name]
			text, _ := top.Get(name)
			if into == nil {
				faults.Add("", "", &yang.Error{Tag: yang.InvalidValue, Path: name, Given: name,
					Near: suggest.Near(name, []string{"cubes", "netdevs"}), Message: fmt.Sprintf("unknown member %.80q, valid members are cubes and netdevs", name)})
			} else if *into, ok = jsonscan.ReadArray(text); !ok && string(text) != "null" {
				faults.Add("", "", &yang.Error{Tag: yang.InvalidValue, Path: name, Message: name + ": must be a list"})
			}
		}
	}
	doc := &Document{ByName: make(map[string]*Cube, len(cubes))}
	first := map[string]string{}
	for i, raw := range cubes {
		c, err := parseCube(raw)
		c.Where = strings.TrimSpace(fmt.Sprintf("cubes[%d] %.80s", i, c.Name))
		if other, twice := first[c.Name]; twice && err == nil {
			err = fmt.Errorf("the name is given twice, also by %s: %w", other, cube.ErrInvalid)
		}
		faults.Add(c.Where, c.Name, err)
		first[c.Name] = c.Where
		doc.Add(c)
	}
	clear(first)
	for i, raw := range netdevs {
		n, err := parseNetdev(raw)
		n.Where = strings.TrimSpace(fmt.Sprintf("netdevs[%d] %.80s", i, n.Name))
		if other, twice := first[n.Name]; twice && err == nil {
			err = fmt.Errorf("the name is given twice, also by %s: %w", other, cube.ErrInvalid)
		}
		faults.Add(n.Where, "", err)
		first[n.Name] = n.Where
		doc.Netdevs = append(doc.Netdevs, n)
	}
	return doc, faults.Err()
}

// netdevs returns the netdevs of a document, none for one that could not be read.
func (d *Document) netdevs() []*Netdev {
	if d == nil {
		return nil
	}
	return d.Netdevs
}

// ManyCubes reads the cubes of a body that creates several: an array of cubes or a document. Their members are not
// decoded.
func ManyCubes(body []byte) ([]jsonscan.Object, []*Netdev, error) {
	texts, isList := jsonscan.ReadArray(body)
	top, isDocument := jsonscan.ReadObject(body)
	if isDocument {
		cubes, given := top.Get("cubes")
		texts, isList = jsonscan.ReadArray(cubes)
		if !given && slices.ContainsFunc(top.Names(), func(name string) bool { return strings.EqualFold(name, "cubes") }) {
			_, err := Parse(body) // the error asks whether cubes was meant
			return nil, nil, err
		}
	}
	list := make([]jsonscan.Object, len(texts))
	for i, text := range texts {
		var ok bool
		if list[i], ok = jsonscan.ReadObject(text); !ok && string(text) != "null" {
			isList = false
		}
	}
	switch {
	case isList && isDocument:
		doc, err := Parse(body)
		return list, doc.netdevs(), err
	case isList:
		return list, nil, nil
	}
	var wanted []map[string]json.RawMessage
	if err := json.Unmarshal(body, &wanted); err != nil { // it says what is there instead
		return nil, nil, &yang.Error{Tag: yang.InvalidValue, Message: "expected an array of cubes: " + err.Error()}
	}
	return nil, nil, &yang.Error{Tag: yang.InvalidValue, Message: "expected an array of cubes, not null"}
}

func parseCube(raw []byte) (*Cube, error) {
	c := &Cube{}
	object, ok := jsonscan.ReadObject(raw)
	if !ok {
		return c, &yang.Error{Tag: yang.InvalidValue, Message: "must be an object"}
	}
	var faults Errors
	for _, m := range []struct {
		name     string
		into     *string
		required bool
	}{{"name", &c.Name, true}, {"service-name", &c.Service, true}, {"parent", &c.Parent, false}} {
		value, given := object.Get(m.name)
		switch {
		case !given && m.required:
			faults.Add("", "", &yang.Error{Tag: yang.MissingAttribute, Path: m.name, Message: m.name + " is missing"})
		case given && json.Unmarshal(value, m.into) != nil:
			faults.Add("", "", &yang.Error{Tag: yang.InvalidValue, Path: m.name, Message: m.name + ": must be a string"})
		}
	}
	if err := faults.Err(); err != nil {
		return c, err
	}
	c.Body = object.Without("name", "service-name", "parent")
	return c, nil
}

func parseNetdev(raw []byte) (*Netdev, error) {
	n := &Netdev{}
	object, ok := jsonscan.ReadObject(raw)
	if !ok {
		return n, &yang.Error{Tag: yang.InvalidValue, Message: "must be an object"}
	}
	for _, name := range object.Names() {
		var err error
		text, _ := object.Get(name)
		switch name {
		case "name":
			err = json.Unmarshal(text, &n.Name)
		case "tcubes":
			err = json.Unmarshal(text, &n.Tcubes)
		default:
			return n, &yang.Error{Tag: yang.InvalidValue, Path: name, Given: name,
				Near: suggest.Near(name, []string{"name", "tcubes"}), Message: fmt.Sprintf("unknown member %.80q, valid members are name and tcubes", name)}
		}
		if err != nil {
			return n, &yang.Error{Tag: yang.InvalidValue, Path: name, Message: name + ": expected a name, and a list of names in tcubes"}
		}
	}
	if at, err := world.ParsePlace(n.Name); err != nil || at.Netdev == "" {
		return n, &yang.Error{Tag: yang.MissingAttribute, Path: "name", Message: "name: must be the name of a netdev"}
	}
	return n, nil
}

// Add appends a cube.
func (d *Document) Add(c *Cube) {
	d.Cubes = append(d.Cubes, c)
	d.ByName[c.Name] = c
}

// Has reports whether the document mentions a cube.
func (d *Document) Has(name string) bool { return d.ByName[name] != nil }
