// SPDX-License-Identifier: Apache-2.0

package sets

// Changes of several sets at once: as a change of the configuration that is only made if nobody else has changed it since
// it was read.

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/ipset"
)

// setFile is a set as a file of the configuration has it.
type setFile struct {
	members map[string]any // of the cube
	config  ipset.Config
	// elements are the entries of the lists prefixes and element by their keys.
	elements map[string]ipset.Entry
	changed  bool
}

// setMembers are those members of a cube that are about the set: all others are about the cube itself.
var setMembers = []string{"set-type", "family", "timeout", "counters", "comments", "exceptions", "maxelem", "first-port", "last-port", "elements-of",
	"prefixes", "element"}

// newSetFile returns a new set.
func newSetFile(name string, config ipset.Config) *setFile {
	set := &setFile{members: map[string]any{"name": name, "service-name": "ipset"}, config: config, elements: map[string]ipset.Entry{}, changed: true}
	set.write()
	return set
}

// write takes the configuration and the elements over into the members.
func (f *setFile) write() {
	for _, m := range setMembers {
		delete(f.members, m)
	}
	raw, _ := json.Marshal(f.config) // a plain struct
	_ = json.Unmarshal(raw, &f.members)
	keys := slices.Sorted(maps.Keys(f.elements))
	if f.config.Plain() {
		list := make([]map[string]string, 0, len(keys))
		for _, k := range keys {
			list = append(list, map[string]string{"prefix": k})
		}
		f.members["prefixes"] = list
		return
	}
	list := make([]ipset.Entry, 0, len(keys))
	for _, k := range keys {
		list = append(list, f.elements[k])
	}
	f.members["element"] = list
}

// setFiles are all sets of the configuration.
type setFiles struct {
	whole    map[string]json.RawMessage // the document
	others   []json.RawMessage          // cubes
	sets     map[string]*setFile
	revision string
	gone     bool // a set was deleted
	identity func(name string) (string, error)
}

// readSets reads the configuration.
func (s *Program) readSets() (*setFiles, error) {
	a, err := s.Ask(Request{Method: http.MethodGet, Path: []string{"config"}})
	if err != nil {
		return nil, err
	}
	d := &setFiles{whole: map[string]json.RawMessage{}, sets: map[string]*setFile{}, revision: a.Tag, identity: s.identity}
	var cubes []json.RawMessage
	if err := json.Unmarshal(a.Body, &d.whole); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if raw := d.whole["cubes"]; raw != nil {
		if err := json.Unmarshal(raw, &cubes); err != nil {
			return nil, fmt.Errorf("read the cubes: %w", err)
		}
	}
	for _, raw := range cubes {
		if err := d.read(raw); err != nil {
			return nil, fmt.Errorf("read a cube: %w", err)
		}
	}
	return d, nil
}

// read reads a cube.
func (d *setFiles) read(raw json.RawMessage) error {
	var is struct {
		Name     string
		Service  string                    `json:"service-name"`
		Prefixes []struct{ Prefix string } `json:"prefixes"`
		Element  []ipset.Entry             `json:"element"`
	}
	if err := json.Unmarshal(raw, &is); err != nil {
		return err
	}
	if is.Service != "ipset" {
		d.others = append(d.others, raw)
		return nil
	}
	set := &setFile{elements: map[string]ipset.Entry{}, config: ipset.Config{SetType: "hash:net"}}
	if err := json.Unmarshal(raw, &set.members); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, &set.config); err != nil {
		return err
	}
	for _, p := range is.Prefixes {
		key := strings.TrimSuffix(strings.TrimSuffix(p.Prefix, "/32"), "/128")
		if strings.Contains(p.Prefix, ":") && strings.HasSuffix(p.Prefix, "/32") {
			key = p.Prefix
		}
		set.elements[key] = ipset.Entry{Entry: key}
	}
	for _, e := range is.Element {
		set.elements[e.Entry] = e
	}
	d.sets[is.Name] = set
	return nil
}

// identity returns the UUID of a set.
func (s *Program) identity(name string) (uuid string, err error) {
	a, err := s.Ask(Request{Method: http.MethodGet, Path: []string{"ipset", name, "uuid"}})
	if err == nil {
		err = json.Unmarshal(a.Body, &uuid)
	}
	return uuid, err
}

// attempts limits the retries of a change when somebody else has changed the configuration in between.
const attempts = 10

// changeSets carries out commands. numbered says that they are the lines of a file.
func (s *Program) changeSets(commands []ipset.Command, numbered bool) error {
	for try := 1; ; try++ {
		d, err := s.readSets()
		if err != nil {
			return err
		}
		if err := s.checkUse(d, commands); err != nil {
			return err
		}
		for i, c := range commands {
			if err := d.carryOut(c); err != nil && numbered {
				return failed("Error in command %d, %s %s: %v", i+1, c.Op, c.Set, err)
			} else if err != nil {
				return failed("%v", err)
			}
		}
		r, err := d.request()
		if err != nil || r.Body == nil {
			return err
		}
		a, err := s.Ask(r)
		if a.Status != http.StatusPreconditionFailed || try == attempts {
			return err
		}
	}
}

// Rules that are deleted use their sets until no packet sees them any more: that is waited for.
const (
	patience = time.Second
	pause    = 50 * time.Millisecond
)

// checkUse refuses to delete or rename sets that rules use.
func (s *Program) checkUse(d *setFiles, commands []ipset.Command) error {
	deadline := time.Now().Add(patience)
	for _, c := range commands {
		if d.sets[c.Set] == nil || c.Op != "destroy" && c.Op != "rename" {
			continue
		}
		_, err := s.runSet(c.Set, []string{"destroy", c.Set})
		for err != nil && time.Now().Before(deadline) {
			time.Sleep(pause)
			_, err = s.runSet(c.Set, []string{"destroy", c.Set})
		}
		if err != nil && c.Op == "rename" {
			return failed("Set cannot be renamed: it is in use by another system")
		} else if err != nil {
			return err
		}
	}
	return nil
}

// request returns the request that makes the change; it has no body if there is none.
func (d *setFiles) request() (r Request, err error) {
	r = Request{Method: http.MethodPatch, Path: []string{"config"}, IfMatch: d.revision}
	cubes := []any{}
	changed := d.gone
	if d.gone {
		r.Method = http.MethodPut
		for _, raw := range d.others {
			cubes = append(cubes, raw)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.sets)) {
		if set := d.sets[name]; set.changed || d.gone {
			if set.changed {
				set.write()
				changed = true
			}
			cubes = append(cubes, set.members)
		}
	}
	if !changed {
		return r, nil
	}
	document := map[string]any{"cubes": cubes}
	if d.gone {
		for k, v := range d.whole {
			if k != "cubes" {
				document[k] = v
			}
		}
	}
	r.Body, err = json.Marshal(document)
	return r, err
}

// carryOut carries out a command.
func (d *setFiles) carryOut(c ipset.Command) error {
	if c.Op == "create" {
		return d.create(c)
	}
	set := d.sets[c.Set]
	if c.Set == "" && c.Op == "flush" {
		for _, set := range d.sets {
			set.elements, set.changed = map[string]ipset.Entry{}, true
		}
		return nil
	}
	if set == nil {
		return errors.New(noSet)
	}
	switch c.Op {
	case "destroy":
		delete(d.sets, c.Set)
		d.gone = true
	case "flush":
		set.elements, set.changed = map[string]ipset.Entry{}, true
	case "swap":
		return d.swap(c)
	case "rename":
		if d.sets[c.To] != nil {
			return errors.New("Set cannot be renamed: a set with the new name already exists")
		}
		return d.rename(c, set)
	case "add", "del":
		if c.Op == "add" && set.config.SetType == "list:set" {
			member := d.sets[c.Entry]
			switch {
			case member == nil || member == set:
				return errors.New("Set to be added/deleted/tested as element does not exist")
			case member.config.SetType == "list:set":
				return errors.New("Sets with list:set type cannot be added to the set")
			}
		}
		return set.edit(c)
	}
	return nil
}

func (d *setFiles) create(c ipset.Command) error {
	config := c.Header.Config()
	if was := d.sets[c.Set]; was != nil {
		is := was.config
		is.ElementsOf, is.Exceptions = "", false
		a, b := is.Header(), config.Header()
		if !c.Exist || a.String() != b.String() {
			return errors.New("Set cannot be created: set with the same name already exists")
		}
		return nil
	}
	d.sets[c.Set] = newSetFile(c.Set, config)
	return nil
}

// origin returns the set that the elements of a set were added to.
func (d *setFiles) origin(name string) (string, error) {
	set := d.sets[name]
	if set.config.ElementsOf != "" {
		return set.config.ElementsOf, nil
	}
	return d.identity(name)
}

func (d *setFiles) swap(c ipset.Command) error {
	a, b := d.sets[c.Set], d.sets[c.To]
	if b == nil {
		return errors.New("Sets cannot be swapped: the second set does not exist")
	}
	if a.config.SetType != b.config.SetType || a.config.Header().Family != b.config.Header().Family {
		return errors.New("The sets cannot be swapped: their type does not match")
	}
	for _, name := range []string{c.Set, c.To} {
		if set := d.sets[name]; !set.config.Plain() {
			from, err := d.origin(name)
			if err != nil {
				return err
			}
			set.config.ElementsOf = from
		}
	}
	a.config, b.config, a.elements, b.elements = b.config, a.config, b.elements, a.elements
	a.changed, b.changed = true, true
	return nil
}

func (d *setFiles) rename(c ipset.Command, set *setFile) error {
	next := newSetFile(c.To, set.config)
	if !set.config.Plain() {
		from, err := d.origin(c.Set)
		if err != nil {
			return err
		}
		next.config.ElementsOf = from
	}
	next.elements = set.elements
	delete(d.sets, c.Set)
	d.sets[c.To], d.gone = next, true
	return nil
}

// edit adds or deletes elements.
func (f *setFile) edit(c ipset.Command) error {
	h := f.config.Header()
	e, err := h.Element(c.Entry)
	if err != nil {
		return err
	}
	all, err := h.Expand(e)
	if err != nil {
		return err
	}
	f.changed = true
	for _, e := range all {
		is, err := h.Entry(e, c.Options)
		if err != nil {
			return err
		}
		key := is.Entry
		_, there := f.elements[key]
		switch {
		case c.Op == "del" && !there && !c.Exist:
			return errors.New("Element cannot be deleted from the set: it's not added")
		case c.Op == "del":
			delete(f.elements, key)
			continue
		case there && !c.Exist:
			return errors.New("Element cannot be added to the set: it's already added")
		}
		f.config.Exceptions = f.config.Exceptions || is.NoMatch && f.config.Plain()
		if h.Type == "list:set" {
			if err := f.place(c.Options, &is); err != nil {
				return err
			}
		}
		f.elements[key] = is
	}
	most := max(h.MaxElem, h.Size)
	if most > 0 && len(f.elements) > int(most) {
		return errors.New("Hash is full, cannot add more elements")
	}
	return nil
}

// place gives a member of a set of sets, and all others, their positions.
func (f *setFile) place(o ipset.Options, member *ipset.Entry) error {
	list := make([]*ipset.Entry, 0, len(f.elements))
	for _, e := range f.elements {
		list = append(list, &e)
	}
	slices.SortFunc(list, ipset.ByPosition)
	names, err := o.Place(list, member.Entry)
	if err != nil {
		return err
	}
	for _, e := range list {
		e.Position = uint32(slices.Index(names, e.Entry) + 1)
		f.elements[e.Entry] = *e
	}
	member.Position = uint32(slices.Index(names, member.Entry) + 1)
	return nil
}
