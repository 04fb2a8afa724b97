// SPDX-License-Identifier: Apache-2.0

package commands

// What -L prints of matches and targets.

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// portRange prints a range of ports, with the name of the field.
func portRange(field string, r language.PortRange) string {
	switch {
	case r.Any() && !r.Not:
		return ""
	case r.First == r.Last:
		return fmt.Sprintf("%s:%s%d", field, not(r.Not), r.First)
	}
	return fmt.Sprintf("%ss:%s%d:%d", field, not(r.Not), r.First, r.Last)
}

// span prints a range of numbers.
func span(first, last uint32) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d:%d", first, last)
}

// listedMatch is a match as -L prints it.
func listedMatch(m language.Match, numeric bool) string {
	switch m := m.(type) {
	case language.TCP:
		return joined("tcp", portRange("spt", m.SPort), portRange("dpt", m.DPort), tcpOption(m), tcpFlags(m.Flags, numeric))
	case language.Ports:
		return joined(m.Protocol, portRange("spt", m.SPort), portRange("dpt", m.DPort))
	case language.ICMP:
		return icmp(m)
	case language.Multiport:
		return multiport(m)
	case language.Conntrack:
		return conntrack(m)
	case language.Comment:
		return "/* " + m.Text + " */"
	case language.MAC:
		return joined("MAC", not(m.Not), m.Source.String())
	case language.Mark:
		return joined("mark match", not(m.Not), masked(m.Value, m.Mask))
	case language.Length:
		return "length " + not(m.Range.Not) + span(m.Range.First, m.Range.Last)
	case language.TTL:
		return ttl(m)
	case language.PktType:
		return "PKTTYPE " + not(m.Not) + "= " + m.Type
	case language.DSCP:
		return fmt.Sprintf("DSCP match %s0x%02x", not(m.Not), m.Value)
	case language.Routing:
		return fmt.Sprintf("rt type:%s%d", not(m.Not), m.Type)
	case language.TOS:
		return fmt.Sprintf("tos match%s0x%02x/0x%02x", not(m.Not), m.Value, m.Mask)
	case language.AddrType:
		return addrType(m)
	case language.IPRange:
		return joined(addressRange("source", m.Source), addressRange("destination", m.Destination))
	}
	return listedLimit(m)
}

// listedLimit is listedMatch for matches that count, or look into a packet.
func listedLimit(m language.Match) string {
	switch m := m.(type) {
	case language.Limit:
		return fmt.Sprintf("limit: avg %s burst %d", m.Rate, m.Burst)
	case language.HashLimit:
		return hashLimit(m)
	case language.ConnLimit:
		side, op := "src", "<="
		if m.Destination {
			side = "dst"
		}
		if m.Above {
			op = ">"
		}
		return fmt.Sprintf("#conn %s/%d %s %d", side, m.MaskBits, op, m.Count)
	case language.Statistic:
		if m.Every != 0 {
			return fmt.Sprintf("statistic mode nth %severy %d%s", spaced(m.Not), m.Every, when(m.Packet != 0, fmt.Sprintf(" packet %d", m.Packet)))
		}
		return fmt.Sprintf("statistic mode random %sprobability %.11f", spaced(m.Not), m.Probability)
	case language.String:
		return stringMatch(m)
	case language.Set:
		return fmt.Sprintf("%smatch-set %s %s", spaced(m.Not), m.Set, strings.Join(m.Dirs, ","))
	}
	return m.Name() + " " + m.String()
}

func when(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

// spaced is the mark of a negation before an option.
func spaced(negated bool) string { return when(negated, "! ") }

// masked prints a value and its mask, unless that has all bits.
func masked(value, mask uint32) string {
	return fmt.Sprintf("0x%x", value) + when(mask != 0xffffffff, fmt.Sprintf("/0x%x", mask))
}

func tcpOption(m language.TCP) string {
	return when(m.Option != 0, fmt.Sprintf("option=%s%d", not(m.OptionNot), m.Option))
}

func tcpFlags(f language.TCPFlags, numeric bool) string {
	switch {
	case f.Mask == 0 && f.Set == 0:
		return ""
	case numeric:
		return fmt.Sprintf("flags:%s0x%02X/0x%02X", not(f.Not), f.Mask, f.Set)
	}
	return fmt.Sprintf("flags:%s%s/%s", not(f.Not), flagNames(f.Mask), flagNames(f.Set))
}

// flagNames are the names of TCP flags.
func flagNames(bits uint8) string {
	var out []string
	for i, name := range []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG"} {
		if bits&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	if out == nil {
		return "NONE"
	}
	return strings.Join(out, ",")
}

func icmp(m language.ICMP) string {
	name := "icmptype"
	if m.Family == language.IPv6 {
		name = "ipv6-icmptype"
	}
	switch {
	case m.Any:
		return "icmptype 255"
	case m.FirstCode == 0 && m.LastCode == 255:
		return fmt.Sprintf("%s%s %d", not(m.Not), name, m.Type)
	case m.FirstCode == m.LastCode:
		return fmt.Sprintf("%s%s %d code %d", not(m.Not), name, m.Type, m.FirstCode)
	}
	return fmt.Sprintf("%s%s %d codes %d-%d", not(m.Not), name, m.Type, m.FirstCode, m.LastCode)
}

func multiport(m language.Multiport) string {
	var ports []string
	for _, r := range m.Ports {
		ports = append(ports, span(uint32(r.First), uint32(r.Last)))
	}
	return "multiport " + m.Of + " " + when(m.Not, " !") + strings.Join(ports, ",")
}

func conntrack(m language.Conntrack) string {
	rest := m
	rest.State, rest.StateNot = nil, false
	states := when(len(m.State) > 0, spaced(m.StateNot)+when(!m.Short, "ct")+"state "+strings.Join(m.State, ","))
	return joined(states, strings.ReplaceAll(rest.String(), "--", ""))
}

func ttl(m language.TTL) string {
	name := "TTL"
	if m.Family == language.IPv6 {
		name = "HL"
	}
	op := map[string]string{"eq": "==", "lt": "<", "gt": ">"}[m.Op]
	if m.Not {
		op = "!="
	}
	return fmt.Sprintf("%s match %s %s %d", name, name, op, m.Value)
}

func addrType(m language.AddrType) string {
	out := "ADDRTYPE match"
	if len(m.Source) > 0 {
		out += " src-type " + not(m.SourceNot) + strings.Join(m.Source, ",")
	}
	if len(m.Destination) > 0 {
		out += " dst-type " + not(m.DestinationNot) + strings.Join(m.Destination, ",")
	}
	return out + when(m.LimitIn, " limit-in") + when(m.LimitOut, " limit-out")
}

func addressRange(side string, r language.AddressRange) string {
	if r == (language.AddressRange{}) {
		return ""
	}
	return joined(side+" IP range", not(r.Not), r.First.String()+"-"+r.Last.String())
}

// defaultExpire are the milliseconds after which groups are forgotten by default, by the unit of the rate.
var defaultExpire = map[string]uint32{"sec": 1000, "min": 60_000, "hour": 3_600_000, "day": 86_400_000}

func hashLimit(m language.HashLimit) string {
	out := "limit: up to "
	if m.Above {
		out = "limit: above "
	}
	out += m.Rate.String()
	if m.Burst != 0 {
		out += fmt.Sprintf(" burst %d", m.Burst)
	}
	if len(m.By) > 0 {
		out += " mode " + strings.Join(m.By, "-")
	}
	most := uint8(32)
	out += when(m.Size != 0, fmt.Sprintf(" htable-size %d", m.Size)) + when(m.Max != 0, fmt.Sprintf(" htable-max %d", m.Max)) +
		when(m.GC != 0, fmt.Sprintf(" htable-gcinterval %d", m.GC)) + when(m.Expire != 0 && m.Expire != defaultExpire[m.Rate.Per], fmt.Sprintf(" htable-expire %d", m.Expire))
	return out + when(m.SrcMask != 0 && m.SrcMask != most, fmt.Sprintf(" srcmask %d", m.SrcMask)) +
		when(m.DstMask != 0 && m.DstMask != most, fmt.Sprintf(" dstmask %d", m.DstMask))
}

func stringMatch(m language.String) string {
	pattern := `"` + m.Pattern + `"`
	for i := range len(m.Pattern) {
		if c := m.Pattern[i]; c < ' ' || c > '~' {
			pattern = fmt.Sprintf(`"|%x|"`, m.Pattern)
			break
		}
	}
	return fmt.Sprintf("STRING match %s %s ALGO name %s", not(m.Not), pattern, m.Algo) + when(m.From != 0, fmt.Sprintf(" FROM %d", m.From)) +
		when(m.To != 65535 && m.To != 0, fmt.Sprintf(" TO %d", m.To)) + when(m.IgnoreCase, " ICASE")
}

// levels are the names of log levels.
var levels = [...]string{"emerg", "alert", "crit", "err", "warn", "notice", "info", "debug"}

// listedTarget is a target as -L prints it.
func listedTarget(t language.Target, numeric bool) string {
	switch t := t.(type) {
	case language.Reject:
		return "reject-with " + t.With
	case language.Log:
		return logTarget(t, numeric)
	case language.SetMark:
		switch {
		case t.Value == 0:
			return fmt.Sprintf("MARK and 0x%x", ^t.Mask)
		case t.Value == t.Mask:
			return fmt.Sprintf("MARK or 0x%x", t.Value)
		case t.Mask == 0:
			return fmt.Sprintf("MARK xor 0x%x", t.Value)
		case t.Mask == 0xffffffff:
			return fmt.Sprintf("MARK set 0x%x", t.Value)
		}
		return fmt.Sprintf("MARK xset 0x%x/0x%x", t.Value, t.Mask)
	case language.NoTrack:
		return when(t.CT, "CT notrack")
	case language.NAT:
		return listedNAT(t)
	case nil:
		return ""
	}
	return strings.ReplaceAll(t.String(), "--", "")
}

func logTarget(t language.Log, numeric bool) string {
	flags := []struct {
		is   bool
		name string
		bit  int
	}{{t.TCPSequence, "tcp-sequence", 1}, {t.TCPOptions, "tcp-options", 2}, {t.IPOptions, "ip-options", 4}, {t.UID, "uid", 8}, {t.MACDecode, "macdecode", 32}}
	bits, names := 0, ""
	for _, f := range flags {
		if f.is {
			bits |= f.bit
			names = joined(names, f.name)
		}
	}
	prefix := when(t.Prefix != "", `prefix "`+t.Prefix+`"`)
	if numeric {
		return joined(fmt.Sprintf("LOG flags %d level %d", bits, t.Level), prefix)
	}
	return joined("LOG level "+levels[t.Level&7], names, prefix)
}

// listedNAT is listedTarget for targets of the table nat.
func listedNAT(t language.NAT) string {
	options := strings.NewReplacer("--to-source ", "to:", "--to-destination ", "to:", "--to-ports ", "masq ports: ")
	if t.Kind == "REDIRECT" {
		options = strings.NewReplacer("--to-ports ", "redir ports ")
	}
	return strings.ReplaceAll(options.Replace(t.String()), "--", "")
}
