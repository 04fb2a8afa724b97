// SPDX-License-Identifier: Apache-2.0

package topology

// A document is a configuration as a file has it: cubes as their bodies are, and the order of transparent cubes at
// netdevs. Whatever is wrong with one is told with the place in it, all at once.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// fileConfig is the content of a file, or of several that were put together.
type fileConfig struct {
	cubes   []*fileCube
	netdevs []*fileNetdev
	byName  map[string]*fileCube
}

// fileCube is a cube in a document.
type fileCube struct {
	where         string
	name, service string
	// parent is where a transparent cube is attached, "" when nothing is said.
	parent string
	// body is the rest, for the model.
	body []byte
}

// fileNetdev is a netdev in a document, with its transparent cubes, first to last towards the stack on ingress.
type fileNetdev struct {
	where, name string
	tcubes      []string
}

// DocumentError is what is wrong with one part of a document.
type DocumentError struct {
	// Where is the part, like "cubes[2] br1"; "" when it is the whole.
	Where string
	// Cube is the name of the cube concerned, if it has one.
	Cube string
	Err  error
}

// Error returns the sentence with its place.
func (f *DocumentError) Error() string {
	if f.Where == "" {
		return f.Err.Error()
	}
	return f.Where + ": " + f.Err.Error()
}

// Unwrap returns what is wrong.
func (f *DocumentError) Unwrap() error { return f.Err }

// DocumentErrors is all that is wrong with a document, in its order.
type DocumentErrors []*DocumentError

// Error returns all sentences, one a line.
func (f DocumentErrors) Error() string {
	lines := make([]string, len(f))
	for i, one := range f {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults.
func (f DocumentErrors) Unwrap() []error {
	errs := make([]error, len(f))
	for i, one := range f {
		errs[i] = one
	}
	return errs
}

// maxFaults bounds what is told of one document.
const maxFaults = 32

// add notes a fault; of one with several errors, each.
func (f *DocumentErrors) add(where, name string, err error) {
	if err == nil || len(*f) >= maxFaults {
		return
	}
	if y, ok := err.(*yang.Error); ok && len(y.Errs) > 1 { //nolint:errorlint // what wraps it may say more
		for _, one := range y.Errs {
			f.add(where, name, one)
		}
		return
	}
	*f = append(*f, &DocumentError{Where: where, Cube: name, Err: err})
}

// err is nil when there is no fault.
func (f DocumentErrors) err() error {
	if len(f) == 0 {
		return nil
	}
	return f
}

// parseDocument reads an array of cubes, or an object with the members cubes and netdevs.
func parseDocument(raw []byte) (*fileConfig, error) {
	var faults DocumentErrors
	var cubes, netdevs []json.RawMessage
	if json.Unmarshal(raw, &cubes) != nil {
		var top members
		if err := json.Unmarshal(raw, &top); err != nil || top == nil {
			return nil, &yang.Error{Tag: yang.InvalidValue, Message: "a list of cubes is wanted, or an object with the members cubes and netdevs"}
		}
		for _, name := range slices.Sorted(maps.Keys(top)) {
			into := map[string]*[]json.RawMessage{"cubes": &cubes, "netdevs": &netdevs}[name]
			if into == nil {
				faults.add("", "", &yang.Error{Tag: yang.InvalidValue, Path: name, Given: name,
					Near: suggest.Near(name, []string{"cubes", "netdevs"}), Message: fmt.Sprintf("unknown member %.80q, known are cubes and netdevs", name)})
			} else if json.Unmarshal(top[name], into) != nil {
				faults.add("", "", &yang.Error{Tag: yang.InvalidValue, Path: name, Message: name + ": a list is wanted"})
			}
		}
	}
	doc := &fileConfig{byName: make(map[string]*fileCube, len(cubes))}
	first := map[string]string{}
	for i, raw := range cubes {
		c, err := parseCube(raw)
		c.where = strings.TrimSpace(fmt.Sprintf("cubes[%d] %.80s", i, c.name))
		if other, twice := first[c.name]; twice && err == nil {
			err = fmt.Errorf("the name is given twice, %s has it too: %w", other, cube.ErrInvalid)
		}
		faults.add(c.where, c.name, err)
		first[c.name] = c.where
		doc.add(c)
	}
	clear(first)
	for i, raw := range netdevs {
		n, err := parseNetdev(raw)
		n.where = strings.TrimSpace(fmt.Sprintf("netdevs[%d] %.80s", i, n.name))
		if other, twice := first[n.name]; twice && err == nil {
			err = fmt.Errorf("the name is given twice, %s has it too: %w", other, cube.ErrInvalid)
		}
		faults.add(n.where, "", err)
		first[n.name] = n.where
		doc.netdevs = append(doc.netdevs, n)
	}
	return doc, faults.err()
}

func parseCube(raw []byte) (*fileCube, error) {
	c := &fileCube{}
	var object members
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return c, &yang.Error{Tag: yang.InvalidValue, Message: "an object is wanted"}
	}
	var faults DocumentErrors
	for _, m := range []struct {
		name     string
		into     *string
		required bool
	}{{"name", &c.name, true}, {"service-name", &c.service, true}, {"parent", &c.parent, false}} {
		value, given := object[m.name]
		switch {
		case !given && m.required:
			faults.add("", "", &yang.Error{Tag: yang.MissingAttribute, Path: m.name, Message: m.name + " is missing"})
		case given && json.Unmarshal(value, m.into) != nil:
			faults.add("", "", &yang.Error{Tag: yang.InvalidValue, Path: m.name, Message: m.name + ": a string is wanted"})
		}
		delete(object, m.name)
	}
	if err := faults.err(); err != nil {
		return c, err
	}
	var err error
	c.body, err = json.Marshal(object)
	return c, err
}

func parseNetdev(raw []byte) (*fileNetdev, error) {
	n := &fileNetdev{}
	var object members
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return n, &yang.Error{Tag: yang.InvalidValue, Message: "an object is wanted"}
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		var err error
		switch name {
		case "name":
			err = json.Unmarshal(object[name], &n.name)
		case "tcubes":
			err = json.Unmarshal(object[name], &n.tcubes)
		default:
			return n, &yang.Error{Tag: yang.InvalidValue, Path: name, Given: name,
				Near: suggest.Near(name, []string{"name", "tcubes"}), Message: fmt.Sprintf("unknown member %.80q, known are name and tcubes", name)}
		}
		if err != nil {
			return n, &yang.Error{Tag: yang.InvalidValue, Path: name, Message: name + ": a name is wanted, and a list of names in tcubes"}
		}
	}
	if at, err := world.ParsePlace(n.name); err != nil || at.Netdev == "" {
		return n, &yang.Error{Tag: yang.MissingAttribute, Path: "name", Message: "name: the name of a netdev is wanted"}
	}
	return n, nil
}

// add appends a cube.
func (d *fileConfig) add(c *fileCube) {
	d.cubes = append(d.cubes, c)
	d.byName[c.name] = c
}

// has tells whether the document says something of a cube.
func (d *fileConfig) has(name string) bool { return d.byName[name] != nil }
