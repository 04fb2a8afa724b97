// SPDX-License-Identifier: Apache-2.0

package offload

// Checks for anything else on the host that may act on packets; each may forbid verdicts.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/iptables/language"
)

// Hooked is a chain of nftables at a hook of the kernel, other than those of iptables.
type Hooked struct {
	// Where names the chain.
	Where string
	// Hook is the hook in nft's words, Kind filter, nat or route.
	Hook, Kind string
	Priority   int
	// Effective is whether it has rules, or drops what they do not accept.
	Effective bool
	// Tracks is whether its rules may ask for connections, Alters whether they may give them helpers, zones or the like.
	Tracks, Alters bool
	// Table has its rules, if they can be compiled: those of a filter for the host, or for what it forwards.
	Table *Table
}

// evaluated reports whether the chain is compiled for a hook.
func (o *Hooked) evaluated(hook string) bool {
	return o.Effective && o.Table != nil && o.Hook == strings.ToLower(hook)
}

// Host is the state of the host, for one address family.
type Host struct {
	Family language.Family
	// Netdev is where the program runs; Elsewhere says why that is not a netdev whose packets go to the stack.
	Netdev, Elsewhere string
	Netdevs           map[string]uint16
	// AtXDP is whether the program runs at XDP, where it forwards only to outputs of the cube. Outputs is whether there are any, and
	// Skipped lists what redirected packets would bypass there.
	AtXDP, Outputs bool
	Skipped        []string
	// Legacy and Compat are the tables of iptables-legacy and iptables-nft.
	Legacy, Compat []Table
	Others         []Hooked
	// Unread says why rules could not be read; empty if they were.
	Unread string
	// Forwards is whether the host forwards packets of the netdev.
	Forwards bool
	// ReversePath is rp_filter of the netdev.
	ReversePath int
	// Policies is the number of xfrm policies.
	Policies int
	// Filters are programs and filters of others where the netdev receives.
	Filters []string
	// Connections is the number of connections that the kernel tracks, Lookup whether the program can look them up, and Accounting
	// whether they count their packets.
	Connections        int
	Lookup, Accounting bool
	// UDPTimeout is how long the kernel keeps an established UDP connection, 0 if unknown.
	UDPTimeout time.Duration
}

// KeepsEntries reports whether the program can refresh the entry of an established connection as the kernel would.
func (h *Host) KeepsEntries() bool { return h.Lookup && !h.Accounting && h.UDPTimeout > 0 }

// Check is the result of a check on the host.
type Check struct {
	Name   string
	OK     bool
	Detail string
}

// verdictOf collects reasons.
type verdictOf struct {
	h                *Host
	checks           []Check
	noDrop, noAccept map[string]string
}

// Judge returns the base chains by hook, in the order in which packets traverse them, what the program may do for their rules,
// whether connections are tracked, and the checks.
func (h *Host) Judge() (bases map[string][]Base, s *Setting, tracked bool, checks []Check) {
	v := &verdictOf{h: h, noDrop: map[string]string{}, noAccept: map[string]string{}}
	v.check("attached", h.Elsewhere == "", "to "+h.Netdev, h.Elsewhere, true, Hooks[:]...)
	v.check("rules-read", h.Unread == "", "all tables were read", h.Unread, true, Hooks[:]...)
	filter, tables := v.firewall()
	bases = v.bases(filter)
	v.chains(tables, bases)
	v.check("filters", len(h.Filters) == 0, "no other program or filter sees the packets first", "other programs or filters see received packets first: "+strings.Join(h.Filters, ", "), true, Hooks[:]...)
	tracked, why := h.tracks(tables)
	if h.KeepsEntries() {
		v.check("conntrack", !tracked, "connections are not tracked", why+": accepted packets are left to the stack unless they belong to established UDP connections", false)
	} else {
		v.check("conntrack", !tracked, "connections are not tracked", why+": packets of tracked connections and accepted packets are left to the stack", false, Forward)
	}
	v.check("conntrack-accounting", !tracked || !h.Accounting, "off, or not needed", "connection accounting is on (net.netfilter.nf_conntrack_acct=1), so all packets of connections are left to the stack", false, Forward)
	v.check("conntrack-lookup", !tracked || h.Lookup, "available, or not needed", "connections are tracked, and eBPF programs cannot look them up in this kernel", true, Hooks[:]...)
	v.check("forwarding", h.Forwards, "enabled", "the host does not forward packets that the netdev receives", false, Forward)
	v.check("rp-filter", h.ReversePath == 0, "off", "the stack checks the reverse path to the source (rp_filter)", false, Forward)
	v.check("xfrm", h.Policies == 0, "no policies", fmt.Sprintf("%d xfrm policies may apply to forwarded packets", h.Policies), false, Forward)
	v.check("outputs", !h.AtXDP || h.Outputs, "configured, or not needed", "at XDP, packets are forwarded to outputs only, and the cube has none: add outputs", false, Forward)
	v.check("skipped", len(h.Skipped) == 0, "forwarding at XDP bypasses nothing", "packets forwarded at XDP would bypass "+strings.Join(h.Skipped, ", "), false, Forward)
	v.noAccept[Input] = "accepted packets go to the host's stack anyway: offloading saves nothing"
	for _, hook := range Hooks {
		if why := v.noDrop[hook]; why != "" {
			v.noAccept[hook] = why
		}
	}
	return bases, &Setting{In: h.Netdev, Netdevs: h.Netdevs, NoDrop: v.noDrop, NoAccept: v.noAccept, OnlyEstablished: tracked && h.KeepsEntries()}, tracked, v.checks
}

// check adds a check. A failed check forbids accepting packets at the hooks and, if drops is set, dropping them.
func (v *verdictOf) check(name string, ok bool, detail, otherwise string, drops bool, hooks ...string) {
	if ok {
		v.checks = append(v.checks, Check{name, true, detail})
		return
	}
	v.checks = append(v.checks, Check{name, false, otherwise})
	for _, hook := range hooks {
		if v.noAccept[hook] == "" {
			v.noAccept[hook] = otherwise
		}
		if drops && v.noDrop[hook] == "" {
			v.noDrop[hook] = otherwise
		}
	}
}

// effective reports whether a chain may do anything to packets.
func (c *Chain) effective() bool { return c != nil && (len(c.Rules) > 0 || c.Policy == "DROP") }

// find returns a chain of a table, or nil.
func find(tables []Table, table, chain string) *Chain {
	for i := range tables {
		if tables[i].Name == table {
			return tables[i].chain(chain)
		}
	}
	return nil
}

// firewalls are the kinds of iptables.
func (h *Host) firewalls() [2]struct {
	name   string
	tables []Table
} {
	return [...]struct {
		name   string
		tables []Table
	}{{"iptables-legacy", h.Legacy}, {"iptables-nft", h.Compat}}
}

// used reports whether tables have rules that packets meet.
func used(tables []Table) bool {
	return slices.ContainsFunc(Hooks[:], func(hook string) bool { return find(tables, "filter", hook).effective() })
}

// Firewall is the kind of iptables whose filter table is offloaded: the one with rules, if any. Empty: neither has the table.
func (h *Host) Firewall() (name string) {
	_, name = h.filter()
	return name
}

func (h *Host) filter() (filter *Table, name string) {
	for _, of := range h.firewalls() {
		for i := range of.tables {
			if of.tables[i].Name == "filter" && (used(of.tables) || filter == nil) {
				filter, name = &of.tables[i], of.name
			}
		}
	}
	return filter, name
}

// firewall chooses between iptables-legacy and iptables-nft, and returns the tables of both.
func (v *verdictOf) firewall() (filter *Table, all []Table) {
	var by []string
	for _, of := range v.h.firewalls() {
		if used(of.tables) {
			by = append(by, of.name)
		}
		all = append(all, of.tables...)
	}
	detail := "no iptables rules"
	if len(by) == 1 {
		detail = by[0]
	}
	v.check("one-firewall", len(by) < 2, detail, "both iptables-legacy and iptables-nft have rules", true, Hooks[:]...)
	filter, _ = v.h.filter()
	return filter, all
}

// bases returns the chains to compile, by hook, in the order in which packets traverse them: that of iptables has priority 0. Two
// with the same priority are traversed in reverse order of creation, which cannot be read.
func (v *verdictOf) bases(filter *Table) map[string][]Base {
	out := map[string][]Base{}
	for _, hook := range Hooks {
		all := BasesOf(filter, hook)
		for i := range v.h.Others {
			if o := &v.h.Others[i]; o.evaluated(hook) {
				all = append(all, Base{o.Table, o.Where, o.Priority})
			}
		}
		slices.SortStableFunc(all, func(a, b Base) int { return cmp.Compare(a.Priority, b.Priority) })
		var same []string
		for i := range all {
			if i > 0 && all[i].Priority == all[i-1].Priority {
				same = append(same, fmt.Sprintf("%s and %s have priority %d", all[i-1].Chain, all[i].Chain, all[i].Priority))
			}
		}
		v.check("order-"+strings.ToLower(hook), len(same) == 0, "known", "the order of two chains is not known: "+strings.Join(same, ", "), true, hook)
		out[hook] = all
	}
	return out
}

// prioritySecurity is that of the table security.
const prioritySecurity = 50

// chains checks the other chains on the way of packets.
func (v *verdictOf) chains(tables []Table, bases map[string][]Base) {
	last := map[string]int{}
	for hook, all := range bases {
		if len(all) > 0 {
			last[hook] = max(0, all[len(all)-1].Priority)
		}
	}
	before, behind := map[string][]string{}, []string(nil)
	for i := range tables {
		t := &tables[i]
		for _, hook := range Hooks {
			for _, name := range []string{"PREROUTING", hook} {
				behind := t.Name == "security" && name == hook && last[hook] < prioritySecurity
				if t.Name != "filter" && !behind && t.chain(name).effective() {
					before[hook] = append(before[hook], t.Name+" "+name)
				}
			}
		}
		for _, name := range []string{"FORWARD", "POSTROUTING"} {
			if t.Name != "filter" && t.chain(name).effective() {
				behind = append(behind, t.Name+" "+name)
			}
		}
	}
	for i := range v.h.Others {
		o := &v.h.Others[i]
		if !o.Effective {
			continue
		}
		first := o.Hook == "prerouting" || o.Hook == "ingress"
		for _, hook := range Hooks {
			// Helpers and zones that a chain assigns to connections also affect other packets, wherever the chain is.
			if first || o.Alters || o.Table == nil && o.Hook == strings.ToLower(hook) && o.Priority <= last[hook] {
				before[hook] = append(before[hook], o.Where)
			}
		}
		if first || o.Table == nil && o.Hook == "forward" || o.Hook == "postrouting" || o.Hook == "egress" {
			behind = append(behind, o.Where)
		}
	}
	for _, hook := range Hooks {
		v.check("chains-before-"+strings.ToLower(hook), len(before[hook]) == 0, "none has rules", "packets traverse other chains first: "+strings.Join(before[hook], ", "), true, hook)
	}
	slices.Sort(behind)
	behind = slices.Compact(behind)
	v.check("chains-behind-forward", len(behind) == 0, "none has rules", "accepted packets also traverse other chains: "+strings.Join(behind, ", "), false, Forward)
}

// tracks reports whether the kernel may track connections, and why.
func (h *Host) tracks(tables []Table) (bool, string) {
	if h.Connections > 0 {
		return true, fmt.Sprintf("the kernel tracks %d connections", h.Connections)
	}
	for _, t := range tables {
		if t.Name == "nat" {
			return true, "table nat exists, so connections are tracked"
		}
		for _, c := range t.Chains {
			for i, r := range c.Rules {
				if r.tracks() {
					return true, fmt.Sprintf("rule %d of chain %s in table %s may track connections", i+1, c.Name, t.Name)
				}
			}
		}
	}
	for _, o := range h.Others {
		if o.Kind == "nat" || o.Tracks {
			return true, fmt.Sprintf("chain %s may track connections", o.Where)
		}
	}
	return false, ""
}

// tracks reports whether a rule may make the kernel track connections: one that cannot be read may.
func (r *Rule) tracks() bool {
	if r.Why != "" {
		return true
	}
	return slices.ContainsFunc(r.Is, tracks)
}

func tracks(r language.Rule) bool {
	switch r.Target.(type) {
	case nil, language.Verdict, language.Jump, language.Reject, language.Log, language.NFLog, language.SetMark:
	default:
		return true
	}
	return slices.ContainsFunc(r.Matches, func(m language.Match) bool {
		switch m.(type) {
		case language.Comment, language.TCP, language.Ports, language.ICMP, language.Multiport, language.MAC, language.Mark,
			language.DSCP, language.Limit, language.Length, language.TTL, language.IPRange, language.Statistic, language.HashLimit,
			language.PktType, language.AddrType, language.String, language.Set:
			return false
		}
		return true
	})
}
