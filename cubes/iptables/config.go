// SPDX-License-Identifier: Apache-2.0

package iptables

// The configuration in Go, except for the rules, which come one by one.

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/report"
)

// Config is the decoded configuration.
type Config struct {
	zone.Settings
	zone.Records
	// These have no effect.
	Interactive bool   `json:"interactive"`
	Conntrack   string `json:"conntrack"`
	Horus       string `json:"horus"`

	Forward     string  `json:"forward"`
	LogLimit    uint32  `json:"log-limit"`
	RejectLimit uint32  `json:"reject-limit"`
	Chain       []Chain `json:"chain"`
	Chain6      []Chain `json:"chain6"`
	Table       []Table `json:"table"`
}

// Table is an entry of the list `table`, in the format of iptables-save.
type Table struct {
	Family string `json:"family"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// familyNames are the names of the families in the model, as in families.
var familyNames = [len(families)]string{"ipv4", "ipv6"}

// tableText returns the text of a table.
func (c *Config) tableText(family language.Family, name string) string {
	for _, t := range c.Table {
		if t.Family == familyNames[setOf(family)] && t.Name == name {
			return t.Text
		}
	}
	return ""
}

// parseTable returns the chains of a table other than filter.
func (c *Config) parseTable(set int, name string) (*commands.View, error) {
	v, err := commands.Parse(families[set], name, c.tableText(families[set], name), name == raw)
	if err != nil {
		return nil, fmt.Errorf("table %s %s: %w: %w", familyNames[set], name, err, cube.ErrInvalid)
	}
	return v, nil
}

// check refuses tables that cannot be read, or have rules whose effect there is not, and what a type of cubes does not have.
func (c *Config) check(typ cube.Type) error {
	if c.Forward == "fib" && typ.Hook() == cube.XDP {
		return fmt.Errorf("forward fib: a packet that XDP redirects does not meet the chain FORWARD, which is where it leaves: use a firewall of type TC: %w", cube.ErrUnsupported)
	}
	for _, t := range c.Table {
		if _, err := c.parseTable(slices.Index(familyNames[:], t.Family), t.Name); err != nil {
			return err
		}
	}
	return nil
}

// Chain is an entry of the lists `chain` and `chain6`, without its rules.
type Chain struct {
	Name    string `json:"name"`
	Default string `json:"default"`
}

// constants returns the values of the program's constants.
func (c *Config) constants(answerMark uint32, hasRaw, asksForNAT bool) (map[string]any, error) {
	all, err := report.Limits(c.LogLimit, c.RejectLimit)
	if err != nil {
		return nil, err
	}
	if err := c.AddConstants(all); err != nil {
		return nil, err
	}
	all["tcp_options"] = c.Options()
	all["answer_mark"] = answerMark
	all["has_raw"] = hasRaw
	all["asks_for_nat"] = asksForNAT
	all["forward_fib"] = c.Forward == "fib"
	return all, nil
}

// families are the lists of chains, and the sets of rules of the program.
var families = [...]language.Family{language.IPv4, language.IPv6}

// listNames are the names of the lists of chains.
var listNames = [len(families)]string{"chain", "chain6"}

// setOf returns the position of a family in families.
func setOf(f language.Family) int {
	if f == language.IPv6 {
		return 1
	}
	return 0
}

// chainsOf returns the configured chains of a family.
func (c *Config) chainsOf(set int) []Chain { return [...][]Chain{c.Chain, c.Chain6}[set] }

// filter and raw are the tables with whose rules packets are compared.
const (
	filter = "filter"
	raw    = commands.Raw
)

// builtIn are the chains that always exist, in the order of the program.
var builtIn = [...]chainName{{filter, "INPUT"}, {filter, "FORWARD"}, {filter, "OUTPUT"}, {raw, "PREROUTING"}, {raw, "OUTPUT"}}

// Rule is an entry of the list `rule`. Its ID is the order that the framework gives to it.
type Rule struct {
	ID uint32 `json:"id"`
	RuleFields
}

// RuleFields are the grouping `rule-fields`.
type RuleFields struct {
	Spec      *string        `json:"spec,omitempty"`
	InIface   string         `json:"in-iface,omitempty"`
	OutIface  string         `json:"out-iface,omitempty"`
	Src       *inet.Prefix   `json:"src,omitempty"`
	Dst       *inet.Prefix   `json:"dst,omitempty"`
	L4Proto   *inet.Protocol `json:"l4proto,omitempty"`
	SPort     inet.PortList  `json:"sport,omitempty"`
	DPort     inet.PortList  `json:"dport,omitempty"`
	TCPFlags  *inet.TCPFlags `json:"tcpflags,omitempty"`
	Conntrack string         `json:"conntrack,omitempty"`
	Action    string         `json:"action,omitempty"`
}

// read returns the rule in the language of iptables, for a chain.
func (r *RuleFields) read(k key) (language.Rule, error) {
	family := families[k.set]
	args, err := r.arguments()
	if err != nil {
		return language.Rule{}, err
	}
	c, err := language.ReadCommand(family, append([]string{"-t", k.table, "-A", k.name}, args...))
	switch {
	case err != nil:
		return language.Rule{}, fmt.Errorf("%w: %w", err, cube.ErrInvalid)
	case c.Op != 'A' || c.Chain != k.name || c.Table != k.table || len(c.Rules) != 1 || c.Family != family:
		return language.Rule{}, fmt.Errorf("spec: expected one rule of the table %s, without its chain: %w", k.table, cube.ErrInvalid)
	}
	return c.Rules[0].Counted(0, 0), nil
}

// arguments returns the rule as options of iptables.
func (r *RuleFields) arguments() ([]string, error) {
	out, err := r.words()
	if err != nil || r.Spec == nil {
		return out, err
	}
	words, err := language.SplitLine(*r.Spec)
	if err != nil {
		return nil, fmt.Errorf("spec: %w: %w", err, cube.ErrInvalid)
	}
	return append(out, words...), nil
}

// words returns the members other than spec as options of iptables.
func (r *RuleFields) words() (out []string, err error) {
	add := func(option, value string) {
		if value != "" {
			out = append(out, option, value)
		}
	}
	add("-i", r.InIface)
	add("-o", r.OutIface)
	for option, p := range map[string]*inet.Prefix{"-s": r.Src, "-d": r.Dst} {
		if p != nil {
			add(option, p.Prefix.String())
		}
	}
	protocol := r.L4Proto
	if protocol == nil && r.TCPFlags != nil {
		tcp := inet.TCP
		protocol = &tcp
	}
	if protocol != nil {
		add("-p", strconv.Itoa(int(*protocol)))
	}
	if len(r.SPort)+len(r.DPort) > 0 && (protocol == nil || *protocol != inet.TCP && *protocol != inet.UDP) {
		return nil, fmt.Errorf("sport and dport need l4proto TCP or UDP: %w", cube.ErrInvalid)
	}
	out = append(append(out, portWords("sport", r.SPort)...), portWords("dport", r.DPort)...)
	if r.TCPFlags != nil {
		words, err := flagWords(*r.TCPFlags)
		if err != nil {
			return nil, err
		}
		out = append(append(out, "--tcp-flags"), words...)
	}
	if r.Conntrack != "" {
		out = append(out, "-m", "conntrack", "--ctstate", r.Conntrack)
	}
	if action := r.Action; action != "" || r.Spec == nil {
		out = append(out, "-j", cmp.Or(action, "DROP"))
	}
	return out, nil
}

// portWords returns the option for ports: a list needs a match of its own.
func portWords(option string, ports inet.PortList) []string {
	text := strings.ReplaceAll(ports.String(), "-", ":")
	switch len(ports) {
	case 0:
		return nil
	case 1:
		return []string{"--" + option, text}
	}
	return []string{"-m", "multiport", "--" + option + "s", text}
}

// flagWords returns the flags that are compared, and those that must be set.
func flagWords(f inet.TCPFlags) ([]string, error) {
	known := [...]string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"}
	if f.Mask>>len(known) != 0 {
		return nil, fmt.Errorf("tcpflags: iptables does not know ECE and CWR: %w", cube.ErrInvalid)
	}
	names := func(bits uint8) string {
		var all []string
		for i, name := range known {
			if bits&(1<<i) != 0 {
				all = append(all, name)
			}
		}
		return cmp.Or(strings.Join(all, ","), "NONE")
	}
	return []string{names(f.Mask), names(f.Value)}, nil
}
