// SPDX-License-Identifier: Apache-2.0

package offload

// Random chains and packets: what the program decides must be what the chains say, with every rule that counts the packet.
// Mutants of the rule that makes a prefix safe must be caught by the same comparison.

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// packet is a packet, and what only the kernel knows of it.
type packet struct {
	source, destination string
	protocol            uint8
	sport, dport        uint16
	syn                 bool
	out                 string // netdev
	state               string // of its connection
	known               bool   // the program knows it
	luck                uint64 // what else decides on rules
}

func (p *packet) frame() []byte {
	f := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4(p.source, p.destination)
	switch p.protocol {
	case 6:
		f.TCP(p.sport, p.dport, pkt.TCPFlags{SYN: p.syn, ACK: !p.syn})
	case 17:
		f.UDP(p.sport, p.dport)
	default:
		f.Echo(1, 1)
	}
	return f.Bytes()
}

// chance says whether a condition that only the kernel can evaluate holds for a packet.
func (p *packet) chance(text string) bool {
	h := fnv.New64a()
	fmt.Fprint(h, p.luck, text)
	return h.Sum64()>>20&1 == 0
}

// fits reports whether a packet fulfils the conditions of a rule, as the kernel would evaluate them.
func (p *packet) fits(r *Rule) bool {
	if r.Why != "" && (!p.chance(r.Text) || r.Is == nil) {
		return p.chance(r.Text)
	}
	is := &r.Is[0]
	address := func(a language.Address, of string) bool {
		if a.Any() {
			return true
		}
		prefix, _ := a.Prefix()
		return prefix.Contains(netip.MustParseAddr(of)) != a.Not
	}
	netdev := func(i language.Interface, of string) bool {
		return i == language.Interface{} || (of == i.Name || i.Prefix && strings.HasPrefix(of, i.Name)) != i.Not
	}
	if !address(is.Source, p.source) || !address(is.Destination, p.destination) || !netdev(is.In, "eth0") || !netdev(is.Out, p.out) {
		return false
	}
	if is.Protocol.Number != 0 && (is.Protocol.Number == p.protocol) == is.Protocol.Not {
		return false
	}
	for _, m := range is.Matches {
		if !p.fitsMatch(m, r.Text) {
			return false
		}
	}
	return true
}

func (p *packet) fitsMatch(m language.Match, text string) bool {
	in := func(r language.PortRange, port uint16) bool { return (r.First <= port && port <= r.Last) != r.Not }
	switch m := m.(type) {
	case language.TCP:
		syn := m.Flags.Mask == 0 || (p.syn == (m.Flags.Set&2 != 0)) != m.Flags.Not
		return p.protocol == 6 && in(m.SPort, p.sport) && in(m.DPort, p.dport) && syn
	case language.Ports:
		return p.protocol == 17 && in(m.SPort, p.sport) && in(m.DPort, p.dport)
	case language.Multiport:
		port := map[string]uint16{"sports": p.sport, "dports": p.dport}[m.Of]
		return slices.ContainsFunc(m.Ports, func(r language.PortRange) bool { return in(r, port) }) != m.Not
	case language.Conntrack:
		return slices.Contains(m.State, p.state) != m.StateNot
	}
	return p.chance(text)
}

// walk returns the verdict of the chains, and the rules that count the packet.
func walk(t *Table, hook string, p *packet) (drop bool, counted []ID) {
	var chain func(name string) (verdict string)
	chain = func(name string) string {
		nth := map[string]int{}
		for i := range t.chain(name).Rules {
			r := &t.chain(name).Rules[i]
			id := ID{name, r.Text, nth[r.Text]}
			nth[r.Text]++
			if !p.fits(r) {
				continue
			}
			counted = append(counted, id)
			words := strings.Fields(r.Text)
			at := slices.IndexFunc(words, func(w string) bool { return w == "-j" || w == "-g" })
			if at < 0 {
				continue
			}
			switch target := words[at+1]; {
			case target == "LOG":
			case target == "ACCEPT", target == "DROP":
				return target
			case target == "REJECT":
				return "DROP"
			case target == "RETURN":
				return ""
			case words[at] == "-g":
				return chain(target)
			default:
				if v := chain(target); v != "" {
					return v
				}
			}
		}
		return ""
	}
	verdict := chain(hook)
	if verdict == "" {
		verdict = t.chain(hook).Policy
		counted = append(counted, ID{hook, PolicyText, 0})
	}
	return verdict == "DROP", counted
}

// simulate does what the program does.
func simulate(pr *Program, p *packet, index uint16) (v Verb, counted []ID) {
	key, ok := classifier.KeyOf(p.frame(), index, 0)
	if !ok {
		return Miss, nil
	}
	if p.known {
		key[3] |= uint64(map[string]uint8{"NEW": StateNew, "ESTABLISHED": StateEstablished}[p.state]) << 8
	}
	chain, from := pr.First, pr.First<<chainShift
	var back []uint32
	for range 100 {
		at := slices.IndexFunc(pr.Entries, func(e Entry) bool { return e.Order >= from && e.Order>>chainShift == chain && e.Matches(&key) })
		verb := Return
		if at >= 0 {
			e := &pr.Entries[at]
			if verb = e.Verb; !verb.Counts() {
				return verb, nil
			}
			counted = append(counted, e.Rule)
			from = e.Order + 1
			switch verb {
			case Drop, Accept:
				return verb, counted
			case Jump:
				back = append(back, e.Order)
				fallthrough
			case Goto:
				chain, from = e.To, e.To<<chainShift
			}
		}
		if verb != Return {
			continue
		}
		if len(back) == 0 {
			if pr.Policy.Counts() {
				counted = append(counted, pr.PolicyRule)
			}
			return pr.Policy, counted
		}
		last := back[len(back)-1]
		back = back[:len(back)-1]
		chain, from = last>>chainShift, last+1
	}
	return Miss, nil
}

var netdevs = map[string]uint16{"eth0": 2, "eth1": 3, "eth2": 4}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// randomRule is a rule of a chain whose jumps lead to later chains of the user.
func randomRule(r *rand.Rand, chains []string) string {
	var out []string
	add := func(text ...string) { out = append(out, pick(r, text...)) }
	if r.IntN(3) == 0 {
		add("-s 10.0.0.0/30", "! -s 10.0.0.1/32", "-s 10.0.0.2/32")
	}
	if r.IntN(3) == 0 {
		add("-d 10.0.1.0/30", "! -d 10.0.1.1/32")
	}
	if r.IntN(6) == 0 {
		add("-i eth0", "-i eth1", "! -i eth0", "-i eth+")
	}
	if r.IntN(6) == 0 {
		add("-o eth1", "! -o eth1", "-o eth+", "-o none")
	}
	switch r.IntN(5) {
	case 0:
		add("-p tcp", "-p tcp -m tcp --dport 80", "-p tcp -m tcp ! --dport 80:81", "-p tcp -m multiport --dports 80,82", "-p tcp -m tcp --tcp-flags SYN,ACK SYN")
	case 1:
		add("-p udp", "-p udp -m udp --sport 82", "! -p udp", "-p udp -m multiport ! --dports 80,82")
	}
	if r.IntN(4) == 0 {
		add("-m limit --limit 1/sec", "-m recent --name x --rcheck", "-m conntrack --ctstate NEW", "-m conntrack --ctstate RELATED,ESTABLISHED", "-m conntrack ! --ctstate INVALID")
	}
	switch r.IntN(8) {
	case 0, 1:
		add("-j DROP")
	case 2, 3:
		add("-j ACCEPT")
	case 4:
		add("-j RETURN", "-j LOG", "-j REJECT --reject-with icmp-port-unreachable")
	case 5, 6:
		if len(chains) > 0 {
			add("-j "+pick(r, chains...), "-g "+pick(r, chains...))
		}
	}
	return strings.Join(out, " ")
}

func randomTable(r *rand.Rand) string {
	users := []string{"a", "b", "c"}
	text := fmt.Sprintf("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD %s [0:0]\n:a - [0:0]\n:b - [0:0]\n:c - [0:0]\n", pick(r, "ACCEPT", "DROP"))
	for range r.IntN(6) + 1 {
		text += "[1:2] -A FORWARD " + randomRule(r, users) + "\n"
	}
	for i, name := range users {
		for range r.IntN(4) {
			text += "-A " + name + " " + randomRule(r, users[i+1:]) + "\n"
		}
	}
	return text + "COMMIT\n"
}

func randomPacket(r *rand.Rand) *packet {
	p := &packet{
		source: fmt.Sprint("10.0.0.", r.IntN(6)), destination: fmt.Sprint("10.0.1.", r.IntN(6)), protocol: pick[uint8](r, 1, 6, 6, 17, 17),
		sport: uint16(80 + r.IntN(5)), dport: uint16(80 + r.IntN(5)), syn: r.IntN(2) == 0, out: pick(r, "eth1", "eth2"),
		state: pick(r, "NEW", "ESTABLISHED", "RELATED", "INVALID"), luck: r.Uint64(),
	}
	p.known = (p.state == "NEW" || p.state == "ESTABLISHED") && r.IntN(4) > 0
	return p
}

// mutants are weaker than the rule that makes a prefix safe.
var mutants = map[string]func(*Program){
	"barriers are skipped": func(p *Program) {
		p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool { return e.Verb == Miss })
	},
	"a barrier is only the first rule of its kind": func(p *Program) {
		first := true
		p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool {
			is := e.Verb == Miss && !first
			first = first && e.Verb != Miss
			return is
		})
	},
	"the policy applies behind a barrier for everything": func(p *Program) {
		if p.Policy == Miss {
			p.Policy, p.PolicyRule = Drop, ID{Forward, PolicyText, 0}
		}
	},
	"rules without a verdict are not counted": func(p *Program) {
		p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool { return e.Verb == Count })
	},
	"packets of any state are new": func(p *Program) {
		for i := range p.Entries {
			p.Entries[i].State(0, 0)
			if e := &p.Entries[i]; e.Verb == Miss {
				e.State(StateNew, StateNew)
			}
		}
	},
	"what asks for new packets takes those of connections": func(p *Program) { instead(p, StateNew) },
	"what asks for connections takes new packets":          func(p *Program) { instead(p, StateEstablished) },
	"a jump forgets where it came from": func(p *Program) {
		for i := range p.Entries {
			if p.Entries[i].Verb == Jump {
				p.Entries[i].Verb = Goto
			}
		}
	},
}

// instead has entries for packets of a known state match others.
func instead(p *Program, state uint8) {
	for i := range p.Entries {
		e := &p.Entries[i]
		of := e.Match
		if of.State(state, state); of == e.Match {
			e.State(0, state)
		}
	}
}

// comparison compares a program, and mutants that it has to tell from it, with the chains.
type comparison struct {
	mutants        map[string]func(*Program)
	caught         map[string]bool
	decided, total int
}

// compare compares the program of base chains on random packets; judge is what the chains do.
func (c *comparison) compare(t *testing.T, r *rand.Rand, bases []Base, text string, judge func(*packet) (drop bool, counted []ID)) {
	t.Helper()
	s := &Setting{In: "eth0", Netdevs: netdevs}
	program := Compile(s, Forward, bases)
	mutated := map[string]*Program{}
	for name, mutate := range c.mutants {
		mutated[name] = Compile(s, Forward, bases)
		mutate(mutated[name])
	}
	for range 20 {
		p := randomPacket(r)
		drop, counted := judge(p)
		differs := func(pr *Program) string {
			v, all := simulate(pr, p, netdevs[p.out])
			mine := slices.DeleteFunc(all, func(id ID) bool { return id == innerRule })
			if pr == program {
				c.total++
				if v != Miss {
					c.decided++
				}
			}
			if v == Miss || (v == Drop) == drop && slices.Equal(mine, counted) {
				return ""
			}
			return fmt.Sprintf("the program says %d by %v, the chains drop=%v by %v", v, mine, drop, counted)
		}
		if why := differs(program); why != "" {
			t.Fatalf("%+v\n%s\n%s", *p, text, why)
		}
		for name, m := range mutated {
			c.caught[name] = c.caught[name] || differs(m) != ""
		}
	}
}

// end requires that the program has decided one of so many packets, and that all mutants were caught.
func (c *comparison) end(t *testing.T, oneOf int) {
	t.Helper()
	t.Logf("%d of %d packets were decided", c.decided, c.total)
	if c.decided < c.total/oneOf {
		t.Errorf("%d of %d packets were decided: the fast path does little", c.decided, c.total)
	}
	for name := range c.mutants {
		if !c.caught[name] {
			t.Errorf("the mutant survives: %s", name)
		}
	}
}

func TestDecisionsAreThoseOfTheChains(t *testing.T) {
	seed := repeat.Seed(t)
	r := rand.New(rand.NewPCG(seed, 1))
	c := comparison{mutants: mutants, caught: map[string]bool{}}
	for range 3000 {
		text := randomTable(r)
		tables, err := Read(language.IPv4, strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		c.compare(t, r, BasesOf(&tables[0], Forward), text, func(p *packet) (bool, []ID) { return walk(&tables[0], Forward, p) })
	}
	c.end(t, 4)
}

// walkAll returns the verdict of several base chains, one after the other.
func walkAll(bases []Base, p *packet) (drop bool, counted []ID) {
	for _, b := range bases {
		dropped, by := walk(b.Table, b.Chain, p)
		if counted = append(counted, by...); dropped {
			return true, counted
		}
	}
	return false, counted
}

// renamed gives the chains of a table other names.
func renamed(t *Table, suffix string) {
	for i := range t.Chains {
		c := &t.Chains[i]
		c.Name += suffix
		for n := range c.Rules {
			r := &c.Rules[n]
			for _, name := range []string{"a", "b", "c"} { // walk follows the text
				for _, option := range []string{"-j ", "-g "} {
					if strings.HasSuffix(r.Text, option+name) {
						r.Text += suffix
					}
				}
			}
			for k := range r.Is {
				if j, ok := r.Is[k].Target.(language.Jump); ok {
					j.Chain += suffix
					r.Is[k].Target = j
				}
			}
		}
	}
}

// mutantsOfSeveral are wrong about base chains that follow each other.
var mutantsOfSeveral = map[string]func(*Program){
	"to accept ends all chains": func(p *Program) {
		for i := range p.Entries {
			if e := &p.Entries[i]; e.Verb == Goto && e.Rule != innerRule {
				e.Verb = Accept
			}
		}
	},
	"chains without return end where another one was left": func(p *Program) {
		for i := range p.Entries {
			if e := &p.Entries[i]; e.Rule == innerRule && e.Verb == Jump {
				e.Verb = Goto
			}
		}
	},
	"policies are not those of the chains": func(p *Program) {
		p.Entries = slices.DeleteFunc(p.Entries, func(e Entry) bool { return e.Rule.Text == PolicyText })
	},
}

// TestSeveralBaseChainsDecideOneAfterTheOther: packets that one accepts meet the next one, wherever a chain of the user was left.
func TestSeveralBaseChainsDecideOneAfterTheOther(t *testing.T) {
	seed := repeat.Seed(t)
	r := rand.New(rand.NewPCG(seed, 2))
	c := comparison{mutants: mutantsOfSeveral, caught: map[string]bool{}}
	for range 1500 {
		var bases []Base
		text := ""
		for i := range 2 + r.IntN(2) {
			one := randomTable(r)
			tables, err := Read(language.IPv4, strings.NewReader(one))
			if err != nil {
				t.Fatalf("%v\n%s", err, one)
			}
			renamed(&tables[0], fmt.Sprint(i))
			bases = append(bases, Base{Table: &tables[0], Chain: fmt.Sprint(Forward, i), Priority: i})
			text += one
		}
		c.compare(t, r, bases, text, func(p *packet) (bool, []ID) { return walkAll(bases, p) })
	}
	c.end(t, 10)
}
