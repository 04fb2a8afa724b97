// SPDX-License-Identifier: Apache-2.0

package language

// Random rules that iptables accepts.

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
)

// generator makes rules from templates: (A|B) is one of the texts, <name> a random value.
type generator struct {
	*rand.Rand
	family Family
	// names is the number of names made so far.
	names int
}

// anyMatch are templates of matches that do not depend on the protocol.
var anyMatch = []string{
	"-m conntrack (! |)--ctstate <states>(| --ctdir (ORIGINAL|REPLY))(| (! |)--ctstatus <statuses>)",
	"-m conntrack (! |)--ctorigsrc <addr>(|/<len>)(| --ctrepldst <addr>)(| (! |)--ctexpire <32>(|:4294967295))",
	"-m conntrack --ctproto (tcp|17|sctp)(| (! |)--ctorigsrcport <port>)(| (! |)--ctrepldstport <ports>)",
	"-m conntrack (! |)--ctorigdst <addr> (! |)--ctreplsrc <addr> --ctorigdstport <port> --ctreplsrcport <ports>",
	"-m state (! |)--state (NEW|RELATED,ESTABLISHED|new,INVALID,UNTRACKED)",
	"-m iprange (! |)--src-range <range>(| (! |)--dst-range <range>)",
	"-m mark (! |)--mark <32>(|/<32>)", "-m comment --comment <text>",
	"-m limit --limit <rate>(| --limit-burst <burst>)",
	"-m hashlimit --hashlimit-(upto|above) <rate> --hashlimit-name <name>(| --hashlimit-burst <burst>)" +
		"(| --hashlimit-mode (srcip|dstip,srcport|dstport,dstip,srcip))",
	"-m hashlimit --hashlimit-upto <rate> --hashlimit-mode srcip --hashlimit-srcmask <len> --hashlimit-name <name>" +
		"(| --hashlimit-htable-expire <16>1)(| --hashlimit-htable-size 1<8>)(| --hashlimit-htable-max 2000)" +
		"(| --hashlimit-htable-gcinterval 5<8>)",
	"-m hashlimit --hashlimit-upto <8>1/s --hashlimit-name <name> --hashlimit-rate-match" +
		"(| --hashlimit-rate-interval (1|7))",
	"-m hashlimit --hashlimit-above (16|999|<bytes>)(b|kb)/s --hashlimit-mode srcip --hashlimit-name <name>" +
		"(| --hashlimit-burst <bytes>mb)",
	"-m connlimit --connlimit-(above|upto) <32>(| --connlimit-mask <len>)(| --connlimit-(saddr|daddr))",
	"-m addrtype (! |)--src-type (LOCAL|UNICAST,local|UNSPEC,UNREACHABLE)",
	"-m addrtype (! |)--dst-type (MULTICAST|ANYCAST)(| --limit-iface-in| --limit-iface-out)",
	"-m pkttype (! |)--pkt-type (unicast|broadcast|multicast|host|bcast|otherhost)",
	"-m length (! |)--length (<16>|<16>:|:<16>|0x10:0x1000)", "-m dscp (! |)--dscp(-class (AF11|CS5|EF|be)| <6>)",
	"-m tos (! |)--tos (<8>|<8>/<8>|Minimize-Delay)", "-m owner (! |)--uid-owner (<16>|3-9<16>|root)",
	"-m owner --gid-owner <16>(| --suppl-groups)(| (! |)--socket-exists)",
	"-m statistic --mode random (! |)--probability 0.<16>",
	"-m statistic --mode nth (! |)--every 9<8> --packet (0|1|7|89)",
	"-m string (! |)--string <text> --algo (bm|kmp)(| --from <6>)(| --to 3<8>1)(| --icase)",
	"-m string (! |)--hex-string (\"|00 ff|ab|41|\"|\"|6162|\"|\"x\\\\|y\") --algo bm",
	"-m set (! |)--match-set one (src|dst)", "-m set (! |)--match-set two (src,dst|dst,dst)(| --return-nomatch)" +
		"(| ! --update-counters| --update-counters)",
	"-m mac (! |)--mac-source 0:1A:<hex>:<hex>:ff:9", "-i (lo|eth+|a.b-c)", "! -o (veth0|veth+)", "-o x+", "",
	"(! |)-s <addr>", "(! |)-d <addr>/<masklen>", "-s <addr>/<mask>", "-c <16> <16>",
}

// familyMatch are templates of matches that only one family has.
var familyMatch = map[Family][]string{
	IPv4: {"-m addrtype --src-type (BROADCAST|NAT,THROW,UNICAST,XRESOLVE,BLACKHOLE|PROHIBIT)",
		"-m ttl (! |)--ttl(|-eq) <8>", "-m ttl --ttl-(lt|gt) <8>", "(! |)-f"},
	IPv6: {"-m hl (! |)--hl(|-eq) <8>", "-m hl --hl-(lt|gt) <8>", "-m rt (! |)--rt-type <8>"},
}

// protocolMatch are templates of protocols with matches that depend on them.
var protocolMatch = []string{
	"", "", "(! |)-p (tcp|udp|esp|ah|gre|sctp|47|200|icmp|ipv6-icmp|udplite|ospf|igmp|vrrp|135)",
	"-p tcp(| -m tcp)(| (! |)--sport <ports>)(| (! |)--destination-port <ports>)(| (! |)--tcp-option 1<6>)",
	"-p tcp (! |)--syn", "-p tcp (! |)--tcp-flags (ALL|SYN,ACK|URG) (NONE|SYN|FIN,PSH|ALL)",
	"-p sctp (! |)--(sport|dport) <ports>", "-p dccp -m dccp (! |)--(sport|dport) <ports>", "-p udp --sport <ports>", "-p 17 (! |)--dport (<ports>|domain)",
	"-p (tcp|udp|sctp|dccp|udplite) -m multiport (! |)--(sports|dports|ports) (<port>|<port>,<ports>,<port>|1:2,3:4)",
}

var familyProtocol = map[Family][]string{
	IPv4: {"-p icmp (! |)--icmp-type (any|8|ping|3/4|host-unreachable|<8>/<8>|255|ttl-zero-during-transit)"},
	IPv6: {"-p icmpv6 (! |)--icmpv6-type (128|echo-reply|1/4|bad-header|<8>/<8>|255|redirect)"},
}

// anyTarget are templates of targets of all tables.
var anyTarget = []string{
	"", "-j ACCEPT", "-j RETURN", "-j other", "-g other",
	"-j LOG(| --log-prefix <text>)(| --log-level (debug|4|1|crit))(| --log-uid)(| --log-tcp-options)" +
		"(| --log-ip-options)(| --log-tcp-sequence)(| --log-macdecode)",
	"-j NFLOG(| --nflog-group <16>)(| --nflog-prefix <text>)(| --nflog-size <16>)(| --nflog-threshold <8>)",
	"-j MARK --set-(x|)mark <32>(|/<32>)", "-j MARK --(or|and|xor)-mark <32>",
	"-j SET --add-set one (src|dst)(| --exist)(| --timeout <16>)(| --del-set two src,dst)", "-j SET --del-set one src",
}

// tableTarget are templates of targets that only one table has.
var tableTarget = map[string][]string{
	"filter": {"-j DROP", "-j REJECT(| --reject-with (<reject>))", "-p tcp -j REJECT --reject-with tcp-reset"},
	"mangle": {"-j DROP"}, "raw": {"-j NOTRACK", "-j CT --notrack"},
	"nat": {
		"-j SNAT --to-source (<addr>|<range>)(| --random)(| --random-fully)(| --persistent)",
		"-p tcp -j SNAT --to-source <natport>(| --random)", "-p udp -j DNAT --to-destination <natport>(| --persistent)",
		"-j DNAT --to-destination (<addr>|<range>)(| --random)(| --persistent)",
		"-j MASQUERADE(| --random)(| --random-fully)", "-p udp -j MASQUERADE --to-ports <natports>",
		"-p tcp -j REDIRECT --to-ports <natports>(| --random)", "-j REDIRECT(| --random)",
	},
}

// rule returns the options of a rule.
func (g *generator) rule(table string) string {
	target := anyTarget
	if g.IntN(2) == 0 {
		target = tableTarget[table]
	}
	end := g.expand(g.pick(target))
	start := ""
	if !strings.Contains(end, "-p ") {
		start = g.expand(g.pick(append(familyProtocol[g.family], protocolMatch...)))
	}
	parts := []string{start}
	used := map[string]bool{}
	for range g.IntN(4) {
		m := g.pick(append(familyMatch[g.family], anyMatch...))
		// An option may be used once in a rule.
		option := strings.TrimPrefix(strings.TrimPrefix(m, "(! |)"), "! ")
		kind := option[:min(2, len(option))]
		if kind != "-m" && used[kind] {
			continue
		}
		used[kind] = true
		parts = append(parts, g.expand(m))
	}
	return strings.Join(strings.Fields(strings.Join(append(parts, end), " ")), " ")
}

func (g *generator) pick(from []string) string { return from[g.IntN(len(from))] }

var choice, placeholder = regexp.MustCompile(`\(([^()]*)\)`), regexp.MustCompile(`<([a-z0-9]+)>`)

// expand replaces the innermost choices until there are none, then the placeholders.
func (g *generator) expand(template string) string {
	// The choice (! |) is innermost; texts with bars in quotes are no choices of their own.
	const bar = "\x01"
	template = regexp.MustCompile(`"[^"]*"`).ReplaceAllStringFunc(template, func(quoted string) string {
		return strings.ReplaceAll(quoted, "|", bar)
	})
	for choice.MatchString(template) {
		template = choice.ReplaceAllStringFunc(template, func(c string) string {
			return g.pick(strings.Split(c[1:len(c)-1], "|"))
		})
	}
	template = strings.ReplaceAll(template, bar, "|")
	return placeholder.ReplaceAllStringFunc(template, func(p string) string { return g.value(p[1 : len(p)-1]) })
}

// value returns a value for a placeholder.
func (g *generator) value(name string) string {
	switch name {
	case "6", "8", "16", "32":
		bits, _ := strconv.Atoi(name)
		return strconv.FormatUint(g.Uint64()>>(64-g.IntN(bits)-1), 10)
	case "hex":
		return fmt.Sprintf("%x", g.IntN(256))
	case "port":
		return strconv.Itoa(g.IntN(65536))
	case "ports":
		first := g.IntN(65000)
		return g.pick([]string{strconv.Itoa(first), fmt.Sprintf("%d:%d", first, first+1+g.IntN(500))})
	case "natports", "natport":
		first := 1 + g.IntN(65000)
		ports := g.pick([]string{strconv.Itoa(first), fmt.Sprintf("%d-%d", first, first+g.IntN(500))})
		if name == "natports" {
			return ports
		}
		address := g.pick([]string{g.addr(), g.value("range"), ""})
		if g.family == IPv6 && address != "" {
			address = "[" + address + "]"
		}
		return address + ":" + ports
	case "addr":
		return g.addr()
	case "range":
		a := maskedRange(g)
		return a
	case "len":
		return strconv.Itoa(1 + g.IntN(g.family.bits()))
	case "masklen":
		return strconv.Itoa(1 + g.IntN(g.family.bits()))
	case "mask":
		return g.addr()
	case "burst":
		return strconv.Itoa(1 + g.IntN(200)) // the kernel refuses the product of a large burst and a small rate
	case "bytes":
		return strconv.Itoa(20 + g.IntN(1000))
	case "rate":
		return strconv.Itoa(100+g.IntN(9900)) + g.pick([]string{"", "/s", "/sec", "/second", "/min", "/minute", "/hour"})
	case "name":
		g.names++
		return fmt.Sprintf("n%d%x", g.names, g.Uint32()&0xffff)
	case "states":
		return g.some(stateNames)
	case "statuses":
		return g.some(statusNames[:4])
	case "text":
		return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(g.text()) + `"`
	case "reject":
		for _, full := range rejectNames[g.family] {
			if full != "tcp-reset" && g.IntN(3) == 0 {
				return full
			}
		}
		return "port-unreach"
	}
	panic("no placeholder " + name)
}

// some returns some of the names, at least one, with commas.
func (g *generator) some(names []string) string {
	out := []string{g.pick(names)}
	for _, n := range names {
		if g.IntN(3) == 0 {
			out = append(out, n)
		}
	}
	return strings.Join(out, ",")
}

// text returns printable text of 1 to 25 characters.
func (g *generator) text() string {
	const letters = "abcXYZ019-_ .:,;/\\\"'$#!|()[]{}<>=+*&%~^?@"
	out := make([]byte, 1+g.IntN(25))
	for i := range out {
		out[i] = letters[g.IntN(len(letters))]
	}
	return strings.Join(strings.Fields("x"+string(out)), " ")
}

func (g *generator) addr() string {
	if g.family == IPv4 {
		return fmt.Sprintf("%d.%d.%d.%d", 1+g.IntN(220), g.IntN(256), g.IntN(256), g.IntN(256))
	}
	return g.pick([]string{"::1", "2001:db8::", fmt.Sprintf("fe80:%x::%x", g.IntN(65536), g.IntN(65536)),
		fmt.Sprintf("::%x:%x", g.IntN(65536), g.IntN(65536)), fmt.Sprintf("2001:0:0:%x::", g.IntN(9)),
		fmt.Sprintf("::ffff:1.2.3.%d", g.IntN(256)), fmt.Sprintf("1:2:3:4:5:6:7:%x", g.IntN(65536))})
}

func maskedRange(g *generator) string {
	if g.family == IPv4 {
		return fmt.Sprintf("10.%d.0.1-10.%d.3.4", g.IntN(100), 100+g.IntN(100))
	}
	return fmt.Sprintf("2001:db8::%x-2001:db8::1:%x", g.IntN(65536), g.IntN(65536))
}
