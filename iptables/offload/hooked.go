// SPDX-License-Identifier: Apache-2.0

package offload

// The chains of nftables at hooks of the kernel, from what `nft -j list ruleset` prints.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/iptables/language"
)

// nftObject is one object of the JSON.
type nftObject struct {
	Chain *struct {
		Family, Table, Name, Type, Hook, Policy string
		Prio                                    int
	}
	Rule *struct {
		Family, Table, Chain string
		Expr                 json.RawMessage
	}
	Flowtable *struct{ Family, Table, Name string }
}

// ReadHooked reads the chains that packets of a family may meet. Tables for which skip is true are left out. No text at all is
// a host without nft, and so without chains that it could list.
func ReadHooked(family language.Family, text []byte, skip func(family, table string) bool) (out []Hooked, err error) {
	if len(text) == 0 {
		return nil, nil
	}
	var all struct{ Nftables []nftObject }
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, fmt.Errorf("what nft prints: %w", err)
	}
	families := []string{"inet", "netdev", "bridge", "ip"}
	if family == language.IPv6 {
		families[3] = "ip6"
	}
	type place struct{ family, table string }
	tracks, rules := map[place]bool{}, map[[3]string]bool{}
	for _, o := range all.Nftables {
		if r := o.Rule; r != nil {
			rules[[3]string{r.Family, r.Table, r.Chain}] = true
			at := place{r.Family, r.Table}
			tracks[at] = tracks[at] || mayTrack(r.Expr)
		}
	}
	for _, o := range all.Nftables {
		if f := o.Flowtable; f != nil && slices.Contains(families, f.Family) {
			out = append(out, Hooked{Where: "flowtable " + f.Table + " " + f.Name, Hook: "ingress", Kind: "filter", Effective: true, Tracks: true})
		}
		c := o.Chain
		if c == nil || c.Hook == "" || !slices.Contains(families, c.Family) || skip(c.Family, c.Table) {
			continue
		}
		out = append(out, Hooked{
			Where: fmt.Sprintf("%s %s %s", c.Family, c.Table, c.Name), Hook: c.Hook, Kind: c.Type, Priority: c.Prio,
			Effective: c.Policy == "drop" || rules[[3]string{c.Family, c.Table, c.Name}],
			Tracks:    tracks[place{c.Family, c.Table}],
		})
	}
	return out, nil
}

// mayTrack reports whether an expression may make the kernel track connections: it has ct, a translation, a module of iptables
// that is not known here, or synproxy.
func mayTrack(expr json.RawMessage) bool {
	for _, word := range []string{`"ct`, `nat"`, `"masquerade"`, `"redirect"`, `"xt"`, `"synproxy"`, `"flow"`} {
		if bytes.Contains(expr, []byte(word)) {
			return true
		}
	}
	return false
}
