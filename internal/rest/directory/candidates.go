// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// Candidates for a name: the existing netdevs, ports, cubes and list entries that fit.

// Usable are the ports and netdevs that can be a peer: free ones.
func (dir *Directory) Usable(r *http.Request) []string {
	out := []string{}
	ports, _ := dir.manager.Places()
	for _, p := range ports {
		if p.Peer == "" {
			out = append(out, p.Cube+":"+p.Port)
		}
	}
	for _, d := range dir.netdevs(r) {
		if d.Peer == "" && d.forCubes() {
			out = append(out, d.Name)
		}
	}
	return out
}

// Linked are the ports that have a peer, or whatever is connected to far.
func (dir *Directory) Linked(far string) []string {
	out := []string{}
	ports, _ := dir.manager.Places()
	for _, p := range ports {
		at := p.Cube + ":" + p.Port
		switch {
		case p.Peer == "":
		case far == "" || p.Peer == far:
			out = append(out, at)
		case at == far:
			out = append(out, p.Peer)
		}
	}
	if far != "" {
		slices.Sort(out)
		out = slices.Compact(out)
	}
	return out
}

// Attachable are the ports and netdevs that a transparent cube can be attached to: all.
func (dir *Directory) Attachable(r *http.Request) []string {
	out := []string{}
	ports, _ := dir.manager.Places()
	for _, p := range ports {
		out = append(out, p.Cube+":"+p.Port)
	}
	for _, d := range dir.netdevs(r) {
		if d.forCubes() {
			out = append(out, d.Name)
		}
	}
	return append(out, topology.HostStack)
}

// TransparentCubes are the transparent cubes for which keep returns true, given where they are attached.
func (dir *Directory) TransparentCubes(keep func(parent string) bool) []string {
	out := []string{}
	_, parents := dir.manager.Places()
	for _, p := range parents {
		if keep(p.Parent) {
			out = append(out, p.Cube)
		}
	}
	return out
}

// ParentOf is where a cube is attached, "" if it is not.
func (dir *Directory) ParentOf(cube string) []string {
	_, parents := dir.manager.Places()
	i := slices.IndexFunc(parents, func(p topology.ParentRef) bool { return p.Cube == cube && p.Parent != "" })
	if i < 0 {
		return []string{}
	}
	return []string{parents[i].Parent}
}

// portsOf are the ports of a cube as CUBE:PORT.
func (dir *Directory) portsOf(cube string) []string {
	var out []string
	ports, _ := dir.manager.Places()
	for _, p := range ports {
		if p.Cube == cube {
			out = append(out, p.Cube+":"+p.Port)
		}
	}
	return out
}

// device is the part of a netdev that completion needs.
type device struct{ Name, Peer string }

// forCubes omits netdevs that are valid but useless: loopback, and the daemon's own.
func (d device) forCubes() bool {
	return d.Name != "lo" && !strings.HasPrefix(d.Name, "pcn_")
}

// netdevs lists network devices, or none if they cannot be read.
func (dir *Directory) netdevs(r *http.Request) []device {
	raw, err := dir.manager.Netdevs(r.Context())
	if err != nil {
		return nil
	}
	var all []device
	if json.Unmarshal(raw, &all) != nil {
		return nil
	}
	return all
}

// NetdevNames lists the names of network devices.
func (dir *Directory) NetdevNames(r *http.Request) []string {
	out := []string{}
	for _, d := range dir.netdevs(r) {
		out = append(out, d.Name)
	}
	return out
}

// maxWalked is how many entries of a list are searched for names, because a user is waiting.
const maxWalked = 20000

// KeysIn reads the keys of the entries of a list for which keep returns true, up to a limit, in their order; none if
// there is no such list.
func (dir *Directory) KeysIn(ctx context.Context, t *resource.Target, path yang.Path, most int, keep func(keys []string) bool) [][]string {
	var out [][]string
	walked := 0
	err := dir.manager.Entries(ctx, t.Service, t.Cube, path, nil, func(keys []string, _ json.RawMessage) bool {
		if keep(keys) {
			out = append(out, slices.Clone(keys))
		}
		walked++
		return walked < maxWalked && len(out) < most
	})
	if err != nil {
		return nil // help for a list of a cube that does not exist yet has no entries to show
	}
	return out
}

// Values are the known values of a leaf: of an enumeration, of the target of a leafref, of a peer. path leads to the
// leaf.
func (dir *Directory) Values(r *http.Request, t *resource.Target, leaf *yang.Node, path yang.Path) []string {
	typ := leaf.Type()
	switch {
	case len(typ.Enums) > 0:
		return Lower(typ.Enums)
	case typ.Base == "boolean":
		return []string{"true", "false"}
	case leaf.Path() == "ports/peer" && !dir.Transparent(t.Service):
		own := t.Cube + ":"
		return slices.DeleteFunc(dir.Usable(r), func(place string) bool { return strings.HasPrefix(place, own) })
	case leaf.Path() == "ports/tcubes" && !dir.Transparent(t.Service):
		return dir.TransparentCubes(func(parent string) bool { return parent == "" })
	}
	return dir.referents(r.Context(), t.Service, t.Cube, leaf, path)
}

// referents are the values that a leafref can have, none for another leaf. Entries above the leaf that are also above
// the target are those of the leaf itself.
func (dir *Directory) referents(ctx context.Context, service, cube string, leaf *yang.Node, path yang.Path) []string {
	var chain []*yang.Node
	referred, common := resource.ReferredBy(leaf)
	for n := referred; n != nil && n.Parent() != nil; n = n.Parent() {
		chain = append(chain, n)
	}
	slices.Reverse(chain)
	if len(chain) == 0 || !dir.Runs(service, cube) {
		return nil
	}
	var at yang.Path
	var rest []string
	for i, n := range chain {
		step := yang.Step{Name: n.Name()}
		if i < min(common, len(path)) {
			step.Keys = path[i].Keys
		}
		at = append(at, step)
		if n.Kind() == yang.List && len(step.Keys) == 0 {
			for _, below := range chain[i+1:] {
				rest = append(rest, below.Name())
			}
			break
		}
	}
	raw, err := dir.manager.Read(ctx, service, cube, at)
	if err != nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var value any
	if dec.Decode(&value) != nil {
		return nil
	}
	return gather(nil, value, rest)
}

// gather collects the scalars at the path names, through every entry of a list.
func gather(out []string, value any, names []string) []string {
	switch v := value.(type) {
	case []any:
		for _, entry := range v {
			if out = gather(out, entry, names); len(out) >= MaxElements {
				break
			}
		}
	case map[string]any:
		if len(names) > 0 {
			out = gather(out, v[names[0]], names[1:])
		}
	case string:
		out = append(out, v)
	case json.Number:
		out = append(out, v.String())
	}
	return out
}

// Runs reports whether a service has a cube of that name.
func (dir *Directory) Runs(service, cube string) bool {
	of, ok := dir.manager.ServiceOf(cube)
	return ok && of == service
}

// ValuesOf are the known values of a node that key=value sets; path leads to it.
func (dir *Directory) ValuesOf(r *http.Request, t *resource.Target, n *yang.Node, path yang.Path) []string {
	if !n.Bare() {
		return dir.Values(r, t, n, path)
	}
	key := n.Keys()[0]
	out := dir.Values(r, t, key, append(slices.Clone(path), yang.Step{Name: key.Name()}))
	for _, keys := range dir.KeysIn(r.Context(), t, path, MaxElements, func([]string) bool { return true }) {
		out = append(out, keys[0])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Revisions are the numbers of the latest n changes, newest first.
func (dir *Directory) Revisions(n int) []string {
	history, err := dir.manager.History(0, n)
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range history.Revisions {
		out = append(out, strconv.FormatUint(r.Number, 10))
	}
	return out
}

// Transparent reports whether the cubes of a service are transparent.
func (dir *Directory) Transparent(service string) bool {
	for _, i := range dir.manager.Services() {
		if i.Name == service {
			return i.Transparent
		}
	}
	return false
}

// Lower returns the values in lower case.
func Lower(values []string) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = strings.ToLower(v)
	}
	return out
}

// Names reads the member `name` of each object in an array.
func Names(raw json.RawMessage) []string {
	var all []struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil
	}
	out := make([]string, len(all))
	for i, n := range all {
		out[i] = n.Name
	}
	return out
}

// MaxElements limits what help lists, because nobody reads more.
const MaxElements = 10000
