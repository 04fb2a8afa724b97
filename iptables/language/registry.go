// SPDX-License-Identifier: Apache-2.0

package language

// The names of matches and targets.

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// matchers are the matches by the name after -m.
var matchers = map[string]func(Family) *builder{
	"tcp": newTCP, "udp": newPorts(protoUDP), "sctp": newPorts(protoSCTP), "dccp": newPorts(protoDCCP), "icmp": only(IPv4, newICMP), "icmp6": only(IPv6, newICMP),
	"icmpv6": only(IPv6, newICMP), "ipv6-icmp": only(IPv6, newICMP),
	"conntrack": newConntrack, "state": newState, "multiport": newMultiport, "iprange": newIPRange, "set": newSet,
	"mac": newMAC, "mark": newMark, "limit": newLimit, "hashlimit": newHashLimit, "connlimit": newConnLimit,
	"comment": newComment, "addrtype": newAddrType, "pkttype": newPktType, "length": newLength, "dscp": newDSCP,
	"tos": newTOS, "ttl": only(IPv4, newTTL), "hl": only(IPv6, newTTL), "rt": only(IPv6, newRouting), "owner": newOwner,
	"statistic": newStatistic, "string": newString,
}

// targets are the targets by the name after -j, but verdicts and chains.
var targets = map[string]func(Family) *builder{
	"REJECT": newReject, "LOG": newLog, "NFLOG": newNFLog, "MARK": newSetMark, "SET": newModifySet,
	"NOTRACK": newNoTrack, "CT": newCT, "SNAT": newNAT("SNAT"), "DNAT": newNAT("DNAT"),
	"MASQUERADE": newNAT("MASQUERADE"), "REDIRECT": newNAT("REDIRECT"),
}

// instead says what to use instead of a match or target that is not supported.
var instead = map[string]string{
	"recent": "-m set with -j SET --add-set", "u32": "-m string", "bpf": "-m string", "helper": "-m conntrack",
	"connmark": "-m mark", "physdev": "-i and -o", "devgroup": "-i and -o", "rpfilter": "-m addrtype",
	"quota": "-m limit", "quota2": "-m limit", "geoip": "-m set", "ULOG": "-j LOG", "NETMAP": "-j DNAT or -j SNAT",
	"CONNMARK": "-j MARK",
}

// foreign are targets of iptables that are not supported, which would else pass for chains.
var foreign = []string{"AUDIT", "CHECKSUM", "CLASSIFY", "CLUSTERIP", "CONNMARK", "CONNSECMARK", "DNPT", "DSCP", "ECN",
	"HL", "HMARK", "IDLETIMER", "LED", "NETMAP", "NFQUEUE", "QUEUE", "RATEEST", "SECMARK", "SNPT", "SYNPROXY", "TCPMSS",
	"TCPOPTSTRIP", "TEE", "TOS", "TPROXY", "TRACE", "TTL", "ULOG"}

// only restricts a match to a family.
func only(family Family, of func(Family) *builder) func(Family) *builder {
	return func(f Family) *builder {
		if f != family {
			return nil
		}
		return of(f)
	}
}

// newMatch returns the builder of a match.
func newMatch(name string, family Family) (*builder, error) {
	of, ok := matchers[name]
	if !ok {
		return nil, unsupported("match", name)
	}
	b := of(family)
	if b == nil {
		return nil, fmt.Errorf("the match %q is not available in %s", name, family.program())
	}
	return b, nil
}

// newTarget returns the builder of -j.
func newTarget(name string, family Family) (*builder, error) {
	if isVerdict(name) {
		return newVerdict(name), nil
	}
	if of, ok := targets[name]; ok {
		return of(family), nil
	}
	if slices.Contains(foreign, name) {
		return nil, unsupported("target", name)
	}
	return newJump(name, false)
}

func newJump(name string, isGoto bool) (*builder, error) {
	if err := chainName(name); err != nil {
		return nil, err
	}
	return &builder{
		name: name,
		finish: func(c *context) error {
			_, isTarget := targets[name]
			if isGoto && (isTarget || isVerdict(name)) {
				return errors.New("goto needs a user-defined chain")
			}
			if slices.Contains(chains[c.table], name) {
				return errors.New("a rule cannot jump to a built-in chain")
			}
			return nil
		},
		target: func() Target { return Jump{Chain: name, Goto: isGoto} },
	}, nil
}

func unsupported(kind, name string) error {
	if other, ok := instead[name]; ok {
		return fmt.Errorf("the %s %q is not supported: consider %s", kind, name, other)
	}
	return fmt.Errorf("the %s %q is not supported", kind, name)
}

// chains are the built-in chains of each table.
var chains = map[string][]string{
	"filter": {"INPUT", "FORWARD", "OUTPUT"},
	"nat":    {"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"},
	"mangle": {"PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"},
	"raw":    {"PREROUTING", "OUTPUT"},
}

// BuiltIn returns the chains that a table always has.
func BuiltIn(table string) []string { return chains[table] }

// tableName checks the name of a table.
func tableName(name string) error {
	if _, ok := chains[name]; !ok {
		return fmt.Errorf("the table %q is not supported: the tables are filter, nat, mangle and raw", name)
	}
	return nil
}

// chainName checks the name of a chain.
func chainName(name string) error {
	switch {
	case name == "":
		return errors.New("the name of a chain is empty")
	case len(name) > 28:
		return fmt.Errorf("chain name %q too long: it must be under 29 characters", name)
	case name[0] == '-' || name[0] == '!':
		return fmt.Errorf("chain name %q not allowed to start with %q", name, name[:1])
	case strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' }) >= 0:
		return fmt.Errorf("invalid chain name %q", name)
	}
	return nil
}

// IsTarget reports whether iptables has a target of this name, which so cannot be the name of a chain.
func IsTarget(name string) bool {
	_, ok := targets[name]
	return ok || isVerdict(name) || slices.Contains(foreign, name)
}

// newChainName checks the name of a chain that is to be created.
func newChainName(name, table string) error {
	if err := chainName(name); err != nil {
		return err
	}
	if IsTarget(name) {
		return fmt.Errorf("chain name %q may not clash with the name of a target", name)
	}
	if slices.Contains(chains[table], name) {
		return fmt.Errorf("chain %q already exists", name)
	}
	return nil
}
