// SPDX-License-Identifier: Apache-2.0

package offload

// The chains of nftables at hooks of the kernel, from what `nft -j list ruleset` prints.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/nft"
)

// ReadHooked reads the chains that packets of a family may meet. Tables for which skip is true are left out. No rule set at all is
// a host without nft, and so without chains that it could list.
func ReadHooked(family language.Family, of *nft.Host, skip func(family, table string) bool) (out []Hooked, err error) {
	if of == nil {
		return nil, nil
	}
	tables, err := of.Tables(family, skip)
	if err != nil {
		return nil, fmt.Errorf("parse the output of nft: %w", err)
	}
	for i := range tables {
		t := &tables[i]
		for _, name := range t.Flowtables {
			out = append(out, Hooked{Where: "flowtable " + t.Name + " " + name, Hook: "ingress", Kind: "filter", Effective: true, Tracks: true, Alters: true})
		}
		rules := native(t)
		for _, c := range t.Chains {
			if c.Hook == "" {
				continue
			}
			h := Hooked{
				Where: chainName(t, c.Name), Hook: c.Hook, Kind: c.Type, Priority: c.Priority,
				Effective: c.Policy == "drop" || !c.Empty, Tracks: t.Tracks, Alters: t.Alters,
			}
			if c.Filters() && t.Family != "bridge" && t.Family != "netdev" {
				h.Table = rules
			}
			out = append(out, h)
		}
	}
	return out, nil
}

// chainName names a chain as nft does.
func chainName(t *nft.HostTable, chain string) string {
	return t.Family + " " + t.Name + " " + chain
}

// native returns a table in the form that is compiled. Its chains are named as nft does.
func native(t *nft.HostTable) *Table {
	out := &Table{Name: t.Family + " " + t.Name, Both: t.Family == "inet"}
	for _, c := range t.Chains {
		one := Chain{Name: chainName(t, c.Name), Policy: "-", Uncounted: true}
		if c.Hook != "" {
			one.Policy = strings.ToUpper(c.Policy)
		}
		for _, r := range c.Rules {
			for i := range r.Is {
				if j, ok := r.Is[i].Target.(language.Jump); ok {
					j.Chain = chainName(t, j.Chain)
					r.Is[i].Target = j
				}
			}
			one.Rules = append(one.Rules, Rule{
				Text: fmt.Sprintf("%s # handle %d", r.Text, r.Handle), Is: r.Is, Why: r.Why,
				Uncounted: !r.Counted, Packets: r.Packets, Bytes: r.Bytes,
			})
		}
		out.Chains = append(out.Chains, one)
	}
	return out
}
