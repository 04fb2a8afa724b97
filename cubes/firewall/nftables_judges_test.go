// SPDX-License-Identifier: Apache-2.0

package firewall_test

// The two that judge the same packets: a Linux router with nftables, and the cube.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netfilter"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/traffic"
)

// ruleset are the rules of both chains. INGRESS is for packets of side 0, EGRESS for those of side 1.
type ruleset struct {
	chains   [2][]ruling
	accept   [2]bool // the default
	sets     map[string][]string
	options  conntrack.Options
	pass     bool // established connections before the rules
	observed bool // the cube counts the states with rules of its own
}

var chainNames = [2]string{"INGRESS", "EGRESS"}

// counterOf is the name of the kernel's counter of a rule, or of the default.
func counterOf(side uint8, rule int) string { return fmt.Sprintf("r%d_%d", side, rule) }

// classes are the counters of states, which every packet has one of.
var classes = map[string]conntrack.Class{
	"s_new": conntrack.New, "s_established": conntrack.Established, "s_related": conntrack.Related, "s_invalid": conntrack.Invalid,
	"s_untracked": conntrack.Untracked,
}

// linux is the router.
type linux struct {
	*netfilter.Router
	counters map[string]uint64
}

// newLinux creates the router.
func newLinux(t *testing.T) *linux {
	l := &linux{Router: netfilter.NewRouter(t, conntrack.Options{}, conntrack.DefaultTimeouts)}
	l.Needs(t, `counter name "some"`)
	return l
}

// load replaces the rules.
func (l *linux) load(rules *ruleset) error {
	l.Track(rules.options)
	var chains, counters strings.Builder
	for name := range classes {
		fmt.Fprintf(&counters, "counter %s {}\n", name)
	}
	for name, prefixes := range rules.sets {
		for version, kind := range map[string]string{"4": "ipv4_addr", "6": "ipv6_addr"} {
			of := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return strings.Contains(p, ":") != (version == "6") })
			fmt.Fprintf(&counters, "set %s_%s { type %s; flags interval; auto-merge; elements = { %s }; }\n", name, version, kind, strings.Join(of, ", "))
		}
	}
	for side, chain := range rules.chains {
		fmt.Fprintf(&chains, "chain side%d {\n", side)
		for i := range chain {
			fmt.Fprintf(&counters, "counter %s {}\n", counterOf(uint8(side), i))
			chains.WriteString(chain[i].nft(counterOf(uint8(side), i)))
		}
		name := counterOf(uint8(side), len(chain))
		fmt.Fprintf(&counters, "counter %s {}\n", name)
		verdict := map[bool]string{true: "accept", false: `counter name "dropped" drop`}[rules.accept[side]]
		fmt.Fprintf(&chains, "counter name %q %s\n}\n", name, verdict)
	}
	fmt.Fprintf(&chains, "chain forward { type filter hook forward priority 0; policy accept; counter name \"seen\";\n")
	for name := range classes {
		fmt.Fprintf(&chains, "ct state %s counter name %q\n", strings.TrimPrefix(name, "s_"), name)
	}
	if rules.pass {
		chains.WriteString("ct state established,related accept\n")
	}
	fmt.Fprintf(&chains, "iifname %q jump side0\niifname %q jump side1\n}\n", netfilter.Devices[0], netfilter.Devices[1])
	chains.WriteString("chain passed { type filter hook forward priority 10; policy accept; counter name \"passed\"; }\n")
	l.counters = map[string]uint64{}
	return l.Load("table inet f {}\ndelete table inet f\ntable inet f {\ncounter seen {}\ncounter passed {}\ncounter dropped {}\n" +
		counters.String() + chains.String() + "}\n")
}

// frame is a packet with the Ethernet header that the router needs.
func (l *linux) frame(p *traffic.Packet) []byte {
	h := l.Hosts[p.From]
	return pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(p.IP).Bytes()
}

// judge sends a packet, and waits until the router has dealt with it.
func (l *linux) judge(p traffic.Packet) (traffic.Judged, error) {
	j := traffic.Judged{Packet: p, Frame: l.frame(&p)}
	if err := l.Send(p.From, j.Frame); err != nil {
		return j, err
	}
	var now map[string]uint64
	for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); ; {
		var err error
		if now, err = l.Counters("f"); err != nil {
			return j, err
		}
		if ended := now["passed"] + now["dropped"]; ended > l.counters["passed"]+l.counters["dropped"] {
			break
		}
		if time.Now().After(deadline) {
			return j, fmt.Errorf("the router does not forward %s %x", p.What, j.Frame)
		}
	}
	for name, n := range now {
		if n == l.counters[name] {
			continue
		}
		j.Counts = append(j.Counts, name)
		if class, is := classes[name]; is {
			j.Class = class
		}
	}
	j.Passed = now["passed"] > l.counters["passed"]
	l.counters = now
	if !j.Passed {
		return j, nil
	}
	got, err := l.Receive(1-p.From, func(b []byte) bool {
		return len(b) > 34 && bytes.Equal(b[12:14], j.Frame[12:14]) && traffic.Number(b[14:]) == traffic.Number(p.IP)
	})
	if want := pkt.Hop(j.Frame); err == nil && !bytes.Equal(got[14:], want[14:]) {
		return j, fmt.Errorf("the router forwards %x as %x", want, got)
	}
	return j, err
}

// ours is a machine with the cube.
type ours struct {
	*guarded
	name  string
	frees int // LOG rules before the others
}

func newOurs(t *testing.T, typ cube.Type) *ours {
	o := &ours{guarded: guard(t, bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2}), `{"families":["ipv4","ipv6"],"log-limit":1,"reject-limit":1}`), name: string(typ)}
	for i := range setCount {
		o.Create("ipset", fmt.Sprintf("set%d", i), "")
	}
	return o
}

// states are those that the cube counts, in the order of its rules.
var states = slices.Sorted(maps.Values(classes))

// load replaces the rules. Connections stay.
func (o *ours) load(rules *ruleset) {
	o.frees = 0
	if rules.observed {
		o.frees = len(states)
	}
	o.Set("PATCH", "fw", fmt.Sprintf(`{"accept-established":%q,"be-liberal":%t,"pick-up":%t}`,
		map[bool]string{true: "ON", false: "OFF"}[rules.pass], rules.options.Liberal, rules.options.PickUp))
	for name, prefixes := range rules.sets {
		var list []string
		for _, p := range prefixes {
			list = append(list, fmt.Sprintf(`{"prefix":%q}`, p))
		}
		o.Set("PUT", name+" prefixes", "["+strings.Join(list, ",")+"]")
	}
	for side, chain := range rules.chains {
		var list []string
		if rules.observed {
			for _, s := range states {
				list = append(list, fmt.Sprintf(`{"conntrack":%q,"action":"LOG"}`, s))
			}
		}
		for i := range chain {
			list = append(list, chain[i].api())
		}
		for i, r := range list {
			list[i] = fmt.Sprintf(`{"id":%d,%s`, i, r[1:])
		}
		words := "fw chain " + chainNames[side]
		o.Set("PUT", words+" rule", "["+strings.Join(list, ",")+"]")
		o.Set("PATCH", words, fmt.Sprintf(`{"default":%q}`, map[bool]string{true: "ACCEPT", false: "DROP"}[rules.accept[side]]))
	}
	o.reset()
}

// reset resets the counters.
func (o *ours) reset() {
	for _, name := range chainNames {
		o.Action("fw chain "+name+" reset-counters", "")
	}
}

// forget ends all connections, and resets the counters.
func (o *ours) forget() {
	o.Set("DELETE", "fw session-table", "")
	o.reset()
}

// counts are the packets of each rule of a chain, and of its default.
func (g *guarded) counts(side uint8) (out []uint64) {
	var entries []struct{ Pkts json.Number }
	if err := json.Unmarshal([]byte(g.Read("fw chain "+chainNames[side]+" stats")), &entries); err != nil {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		n, err := e.Pkts.Int64()
		if err != nil {
			g.t.Fatal(err)
		}
		out = append(out, uint64(n))
	}
	return out
}

// run judges packets in their order, and returns which of them pass.
func (o *ours) run(all []traffic.Judged) (passed []bool) {
	for begin := 0; begin < len(all); {
		end := begin
		var frames [][]byte
		for ; end < len(all) && all[end].From == all[begin].From; end++ {
			frames = append(frames, all[end].Frame)
		}
		for i, got := range o.RunAll(fmt.Sprintf("veth%d", 1+all[begin].From), frames) {
			if got != nil && !bytes.Equal(got, frames[i]) {
				o.t.Errorf("%s: %x comes out as %x", o.name, frames[i], got)
			}
			passed = append(passed, got != nil)
		}
		begin = end
	}
	return passed
}

// ruleOf is the index of a rule from the name of its counter.
func ruleOf(name string) (side uint8, rule int, ok bool) {
	n, err := fmt.Sscanf(name, "r%d_%d", &side, &rule)
	return side, rule, n == 2 && err == nil
}
