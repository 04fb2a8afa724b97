// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// Step is one node on a path.
type Step struct {
	// Name is the node's name in the model.
	Name string
	// Keys are the keys of a list entry in model order, or the value of a leaf-list entry. It is nil for a whole list
	// and for anything else.
	Keys []string
}

// Path leads from a cube to a node in it. The empty path is the cube.
type Path []Step

// Segments returns the words of the path, keys after their list.
func (p Path) Segments() []string {
	var words []string
	for _, s := range p {
		words = append(append(words, s.Name), s.Keys...)
	}
	return words
}

// String returns the path as a URL path, each word escaped.
func (p Path) String() string {
	words := p.Segments()
	for i, w := range words {
		words[i] = url.PathEscape(w)
	}
	return strings.Join(words, "/")
}

// ToEntry reports whether the path ends with the keys of an entry.
func (p Path) ToEntry() bool { return len(p) > 0 && len(p[len(p)-1].Keys) > 0 }

// Words returns the path as a person types it: a key that is empty or contains spaces is quoted.
func (p Path) Words() string {
	words := p.Segments()
	for i, w := range words {
		if words[i] = Shorten(w); w == "" || strings.ContainsAny(w, " \t\r\n") {
			words[i] = strconv.Quote(words[i])
		}
	}
	return strings.Join(words, " ")
}

// With returns the path extended by one step; it never shares memory with p.
func (p Path) With(name string, keys ...string) Path {
	out := make(Path, len(p), len(p)+1)
	copy(out, p)
	return append(out, Step{Name: name, Keys: keys})
}

// ID is a unique string for each path, whatever bytes the keys contain.
func (p Path) ID() string {
	var b strings.Builder
	for _, s := range p {
		fmt.Fprintf(&b, "/%s%q", s.Name, s.Keys)
	}
	return b.String()
}
