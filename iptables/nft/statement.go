// SPDX-License-Identifier: Apache-2.0

package nft

// Statements: verdicts, and what else a rule does.

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/source"
)

// translate returns the rules of iptables that a rule is in a family.
func (d *draft) translate() ([]language.Rule, error) {
	d.used = map[string]bool{}
	for _, s := range d.rule.Expr {
		kind, value, _ := only(s)
		if err := d.statement(kind, value); err != nil {
			return nil, err
		}
	}
	if !d.ended && !d.logged && !d.marked {
		if err := d.end(""); err != nil {
			return nil, err
		}
	}
	if packets, bytes := d.rule.counts(); len(d.emitted) == 1 {
		d.emitted[0] = d.emitted[0].Counted(packets, bytes)
	}
	return d.emitted, nil
}

// statement reads one statement.
func (d *draft) statement(kind string, value any) error {
	if d.ended {
		return fmt.Errorf("%s follows the verdict", kind)
	}
	object, _ := value.(map[string]any)
	switch kind {
	case "match":
		op, _ := object["op"].(string)
		if d.exact && d.counted {
			return errors.New("a match follows the counter")
		}
		if d.limited || d.logged || d.marked {
			return errors.New("a match follows limit, log or mark, where iptables compares first: write it before them")
		}
		return d.match(object["left"], op, object["right"])
	case "vmap":
		if d.exact && d.counted {
			return errors.New("a map follows the counter")
		}
		return d.verdictMap(object)
	case "counter":
		if d.exact && (d.counted || object == nil) {
			return errors.New("the rule has several counters, or one of a name")
		}
		d.counted = true
		return nil
	case "limit":
		return d.limit(object)
	case "log":
		return d.log(object)
	case "mangle":
		return d.setMark(object)
	case "accept", "drop", "return", "continue", "jump", "goto", "reject":
		return d.verdict(kind, object)
	case "xt":
		return errors.New("iptables-nft has written it: import what iptables-save prints instead")
	case "masquerade", "snat", "dnat", "redirect":
		return errors.New("addresses are translated by the cube nat")
	}
	return fmt.Errorf("the statement %s cannot be imported", kind)
}

// verdict ends the rule.
func (d *draft) verdict(kind string, object map[string]any) error {
	switch kind {
	case "accept", "drop", "return":
		return d.end("-j", strings.ToUpper(kind))
	case "continue":
		return d.end("")
	case "reject":
		with, err := d.rejectWith(object)
		if err != nil {
			return err
		}
		return d.end("-j", "REJECT", "--reject-with", with)
	}
	if d.several {
		return errors.New("the chain may change the mark, which the rule compares with several values: write one rule for each")
	}
	name, _ := scalar(object["target"])
	to, err := d.target(name)
	if err != nil {
		return err
	}
	return d.end(map[string]string{"jump": "-j", "goto": "-g"}[kind], to)
}

// end emits the rules with their verdict.
func (d *draft) end(target ...string) error {
	d.ended = true
	switch {
	case d.logged && d.limited:
		return errors.New("log and a verdict are two rules in iptables, each with a rate of its own: make them two rules")
	case d.marked && d.marks:
		return errors.New("a rule that compares and sets the mark, and has a verdict, is two rules in iptables: make them two rules")
	case target[0] == "":
		target = nil
		if d.logged || d.marked {
			return nil
		}
	}
	return d.emit(target...)
}

// rejections are the answers by the type and the expression of a reject.
var rejections = map[string]string{
	"icmp net-unreachable": "icmp-net-unreachable", "icmp host-unreachable": "icmp-host-unreachable", "icmp prot-unreachable": "icmp-proto-unreachable",
	"icmp port-unreachable": "icmp-port-unreachable", "icmp net-prohibited": "icmp-net-prohibited", "icmp host-prohibited": "icmp-host-prohibited",
	"icmp admin-prohibited": "icmp-admin-prohibited",
	"icmpv6 no-route":       "icmp6-no-route", "icmpv6 admin-prohibited": "icmp6-adm-prohibited", "icmpv6 addr-unreachable": "icmp6-addr-unreachable",
	"icmpv6 port-unreachable": "icmp6-port-unreachable", "icmpv6 policy-fail": "icmp6-policy-fail", "icmpv6 reject-route": "icmp6-reject-route",
}

// both are the expressions of the type icmpx by family.
var both = map[language.Family]map[string]string{
	language.IPv4: {
		"port-unreachable": "icmp-port-unreachable", "admin-prohibited": "icmp-admin-prohibited", "no-route": "icmp-net-unreachable",
		"host-unreachable": "icmp-host-unreachable",
	},
	language.IPv6: {
		"port-unreachable": "icmp6-port-unreachable", "admin-prohibited": "icmp6-adm-prohibited", "no-route": "icmp6-no-route",
		"host-unreachable": "icmp6-addr-unreachable",
	},
}

// rejectWith returns the name of the answer.
func (d *draft) rejectWith(object map[string]any) (string, error) {
	kind, _ := object["type"].(string)
	with, _ := object["expr"].(string)
	switch kind {
	case "":
		return both[d.of]["port-unreachable"], nil
	case "tcp reset":
		return "tcp-reset", d.only([]uint8{unix.IPPROTO_TCP})
	case "icmp", "icmpv6":
		if versions[kind] != d.of {
			return "", errNever
		}
		with = rejections[kind+" "+with]
	case "icmpx":
		with = both[d.of][with]
	default:
		with = ""
	}
	if with == "" {
		return "", fmt.Errorf("reject with %s %s cannot be imported", kind, text(object["expr"]))
	}
	return with, nil
}

// verdictMap emits the rules of each element, which differ in what is compared: a packet matches one of them.
func (d *draft) verdictMap(object map[string]any) error {
	if key, err := selectorOf(object["key"]); err != nil || key.key == "meta mark" {
		return errors.Join(errors.New("this map cannot be imported"), err)
	}
	var elements []any
	data := object["data"]
	if name, ok := data.(string); ok && strings.HasPrefix(name, "@") {
		var err error
		if elements, err = d.elements(d.rules.maps, name[1:]); err != nil {
			return err
		}
	} else if kind, value, ok := only(data); ok && kind == "set" {
		elements, _ = value.([]any)
	}
	if len(elements) == 0 || len(elements) > d.most() {
		return fmt.Errorf("a map of %d elements: from 1 to %d are imported", len(elements), d.most())
	}
	if d.limited && len(elements) > 1 {
		return errors.New("it would become several rules, each with a rate of its own")
	}
	for _, e := range elements {
		pair, ok := e.([]any)
		if !ok || len(pair) != 2 {
			return fmt.Errorf("%s is no element of a map", text(e))
		}
		kind, verdict, ok := only(pair[1])
		if !ok || !slices.Contains([]string{"accept", "drop", "return", "continue", "jump", "goto"}, kind) {
			return fmt.Errorf("%s is no verdict", text(pair[1]))
		}
		one := d.clone()
		to, _ := verdict.(map[string]any)
		err := one.match(object["key"], "==", pair[0])
		if err == nil {
			err = one.verdict(kind, to)
		}
		if errors.Is(err, errNever) {
			continue
		} else if err != nil {
			return err
		}
		if d.emitted = append(d.emitted, one.emitted...); len(d.emitted) > d.most() {
			return fmt.Errorf("it would become more than %d rules", d.most())
		}
	}
	d.ended = true
	return nil
}

// limit adds a rate: by -m limit, which takes up to 10000 per second, or else by -m hashlimit without groups.
func (d *draft) limit(object map[string]any) error {
	rate, _ := scalar(object["rate"])
	n, ok := number(rate, 1<<32)
	per, _ := object["per"].(string)
	seconds := map[string]uint64{"second": 1, "minute": 60, "hour": 3600, "day": 86400}[per]
	unit, _ := object["rate_unit"].(string)
	if !ok || n == 0 || seconds == 0 || unit != "" && unit != "packets" {
		return errors.New("iptables has rates of packets per second, minute, hour or day, which are in the rule")
	}
	burst := uint64(5)
	if t, has := scalar(object["burst"]); has {
		if burst, ok = number(t, 1<<32); !ok {
			return fmt.Errorf("the burst %q is no number", t)
		}
	}
	burst = max(burst, 1)
	if d.exact {
		return errors.New("only the stack keeps rates")
	}
	over, _ := object["inv"].(bool)
	d.limited = true
	average := rate + "/" + per
	if !over && n/seconds < 10000 && burst <= 10000 {
		return d.add([]string{"-m", "limit", "--limit", average, "--limit-burst", strconv.FormatUint(burst, 10)})
	}
	option := map[bool]string{true: "--hashlimit-above", false: "--hashlimit-upto"}[over]
	return d.add([]string{
		"-m", "hashlimit", option, average, "--hashlimit-burst", strconv.FormatUint(burst, 10), "--hashlimit-name", "n" + strconv.FormatUint(d.rule.Handle, 36),
	})
}

// logFlags are the options of -j LOG.
var logFlags = map[string][]string{
	"tcp sequence": {"--log-tcp-sequence"}, "tcp options": {"--log-tcp-options"}, "ip options": {"--log-ip-options"}, "skuid": {"--log-uid"},
	"ether": {"--log-macdecode"},
	"all":   {"--log-tcp-sequence", "--log-tcp-options", "--log-ip-options", "--log-uid", "--log-macdecode"},
}

// log emits the rules that log.
func (d *draft) log(object map[string]any) error {
	words := []string{"-j", "LOG"}
	for name, v := range object {
		t, _ := scalar(v)
		switch name {
		case "prefix":
			words = append(words, "--log-prefix", t)
		case "level":
			level := map[string]string{"err": "error", "warn": "warning"}[t]
			if level == "" {
				level = t
			}
			words = append(words, "--log-level", level)
		case "flags":
			list, isList := v.([]any)
			if !isList {
				list = []any{v}
			}
			for _, f := range list {
				t, _ := scalar(f)
				if logFlags[t] == nil {
					return fmt.Errorf("log flags %s cannot be imported", text(f))
				}
				words = append(words, logFlags[t]...)
			}
		default:
			return fmt.Errorf("log %s cannot be imported: only the kernel can send packets to a netlink group", name)
		}
	}
	d.logged = true
	return d.emit(words...)
}

// setMark emits the rules that set the mark to a number.
func (d *draft) setMark(object map[string]any) error {
	s, err := selectorOf(object["key"])
	value, ok := scalar(object["value"])
	_, isNumber := number(value, 1<<32-1)
	if err != nil || s.key != "meta mark" || !ok || !isNumber {
		return errors.New("of what packets carry, iptables sets the mark alone, to a number")
	}
	if d.limited || d.marked {
		return errors.New("a mark that is set behind a limit, or twice, cannot be imported")
	}
	d.marked = true
	return d.emit("-j", "MARK", "--set-mark", value)
}

// counts returns the counters of the rule.
func (r *rule) counts() (packets, bytes uint64) {
	for _, s := range r.Expr {
		if c, ok := s["counter"].(map[string]any); ok {
			p, _ := scalar(c["packets"])
			b, _ := scalar(c["bytes"])
			packets, _ = number(p, 1<<64-1)
			bytes, _ = number(b, 1<<64-1)
		}
	}
	return packets, bytes
}

// effect is that of leaving the rule out.
func (r *rule) effect() (e source.Effect) {
	for _, s := range r.Expr {
		kind, _, _ := only(s)
		switch kind {
		case "accept":
			return source.MayDrop
		case "drop", "reject":
			return source.MayPass
		case "jump", "goto", "return", "vmap", "queue", "synproxy":
			return source.MayDiffer
		case "xt": // it may hide a target
			e = source.MayDiffer
		case "match", "counter", "log", "limit", "continue", "quota", "ct count", "meter":
		default:
			e = max(e, source.NotChanged)
		}
	}
	return e
}
