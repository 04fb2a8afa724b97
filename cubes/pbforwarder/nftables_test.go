// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// The same random rules and frames through the cube, at each hook, and through a machine where nftables forwards: each
// frame must come out of the same port, or of none.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

// ruling is a rule with its action: to is the output port, starting at 0, -1 if it drops.
type ruling struct {
	rulesets.Rule
	to int
}

// judge is a machine that decides on frames.
type judge struct {
	name  string
	wires []*netns.Raw
	// rule replaces the rules.
	rule func(rules []ruling)
	// got are the ports where a frame came out, by its mark.
	got map[uint64][]int
}

func newJudge(t *testing.T, name string, hosts []*netns.Node, rule func([]ruling)) *judge {
	j := &judge{name: name, rule: rule, got: map[uint64][]int{}}
	for _, h := range hosts {
		j.wires = append(j.wires, netns.OpenRaw(t, h, netns.Inner))
	}
	return j
}

// ourJudge is the cube.
func ourJudge(t *testing.T, typ cube.Type) *judge {
	l := bpftest.New(t, bpftest.Options{Type: typ})
	l.Create("pbforwarder", "f", threePorts)
	return newJudge(t, string(typ), l.Hosts, func(rules []ruling) {
		texts := make([]string, len(rules))
		for i, r := range rules {
			action := `,"action":"DROP"`
			if r.to >= 0 {
				action = fmt.Sprintf(`,"action":"FORWARD","out_port":"p%d"`, r.to+1)
			}
			texts[i] = text(10*i, &r.Rule, action)
		}
		l.Set("PUT", "f rules", "["+strings.Join(texts, ",")+"]")
	})
}

// nftJudge is a machine like that of the cube, where nftables forwards.
func nftJudge(t *testing.T) *judge {
	l := netns.NewLab(t)
	var hosts []*netns.Node
	for i := range labPorts {
		hosts = append(hosts, l.Host(fmt.Sprintf("veth%d", i+1), ""))
	}
	load := func(chain string) error {
		cmd := l.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader("table netdev f\ndelete table netdev f\ntable netdev f {\nchain in {\n" +
			"type filter hook ingress devices = { veth1, veth2, veth3 } priority 0; policy drop;\n" + chain + "}\n}\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	}
	if err := load("fwd to \"veth1\"\n"); err != nil {
		t.Skipf("nftables cannot forward on this machine: %v", err)
	}
	return newJudge(t, "nftables", hosts, func(rules []ruling) {
		var b strings.Builder
		b.WriteString(nftFragments)
		for _, r := range rules {
			b.WriteString(nftText(&r) + "\n")
		}
		if err := load(b.String()); err != nil {
			t.Fatal(err)
		}
	})
}

// nftFragments marks later fragments: at this hook nftables reads ports from the bytes where they would be.
const nftFragments = "ip frag-off & 0x1fff != 0 meta mark set 1\nfrag frag-off != 0 meta mark set 1\n"

// nftText returns a rule in nftables syntax: two where the DSCP of either IP version counts.
func nftText(r *ruling) string {
	verdict := " drop"
	if r.to >= 0 {
		verdict = fmt.Sprintf(` fwd to "veth%d"`, r.to+1)
	}
	return strings.Join(r.Nftables(), verdict+"\n") + verdict
}

// collect collects the frames that arrived; they must be unmodified.
func (j *judge) collect(sent map[uint64][]byte) error {
	for port, w := range j.wires {
		for {
			frame, err := w.Recv(nil, 0)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return err
			}
			mark := markOf(frame)
			if was, there := sent[mark]; !there || !bytes.Equal(frame, was) {
				return fmt.Errorf("%s: %x comes out of port %d, which nobody sent", j.name, frame, port+1)
			}
			j.got[mark] = append(j.got[mark], port)
		}
	}
	return nil
}

// markOf returns the mark of a frame: its last bytes.
func markOf(frame []byte) uint64 { return binary.BigEndian.Uint64(frame[len(frame)-8:]) }

// comparison contains the machines, and the frames sent to them.
type comparison struct {
	judges []*judge
	sent   map[uint64][]byte
	// want is the port where a frame must come out, by a linear search through the rules in Go; frames without one
	// must be dropped.
	want map[uint64]int
	// rule is the rule that decides, for debugging.
	rule map[uint64]string
}

// try sends a frame into a port of all.
func (c *comparison) try(t *testing.T, rules []ruling, p rulesets.Packet) {
	mark := uint64(len(c.sent)) | 0xb10c<<48
	binary.BigEndian.PutUint64(p.Frame[len(p.Frame)-8:], mark)
	c.sent[mark] = p.Frame
	c.rule[mark] = fmt.Sprintf("in port %d, no rule", p.InPort+1)
	k, _ := classifier.KeyOf(p.Frame, p.InPort, 0)
	for i := range rules {
		if m := rules[i].Match(); m.Matches(&k) {
			if rules[i].to >= 0 {
				c.want[mark] = rules[i].to
			}
			c.rule[mark] = fmt.Sprintf("in port %d, rule %d: %s", p.InPort+1, i, nftText(&rules[i]))
			break
		}
	}
	for _, j := range c.judges {
		if err := j.wires[p.InPort].Send(p.Frame); err != nil {
			t.Fatalf("%s: %v", j.name, err)
		}
	}
}

// differences lists the first few frames that did not come out as required.
func (c *comparison) differences() error {
	var errs []error
	for _, j := range c.judges {
		if err := j.collect(c.sent); err != nil {
			return err
		}
		for mark, frame := range c.sent {
			var want []int
			if port, sends := c.want[mark]; sends {
				want = []int{port}
			}
			if got := j.got[mark]; fmt.Sprint(got) != fmt.Sprint(want) && len(errs) < 8 {
				errs = append(errs, fmt.Errorf("%s: comes out of ports %v, want %v (from 0 on): %s\n%s", j.name, got, want, c.rule[mark], hex.Dump(frame)))
			}
		}
	}
	return errors.Join(errs...)
}

// priority4 has a tag without a VLAN.
var priority4 = pkt.Eth(one, two).PriorityVLAN(0, 5).IPv4("10.0.0.1", "10.0.1.2").UDP(1000, 53).Payload(30).Bytes()

// gates are rules before all others, and frames that come out of each port because of them: they show that earlier
// frames have been processed.
func gates() (rules []ruling, packets []rulesets.Packet) {
	for out := range labPorts {
		mac := [6]byte{2, 0xff, 0, 0, 0, byte(out)}
		rules = append(rules, ruling{rulesets.Rule{DstMAC: &mac}, out})
		for in := range uint16(labPorts) {
			packets = append(packets, rulesets.Packet{InPort: in, Frame: append(append(mac[:], 2, 0, 0, 0, 0, 1, 0x88, 0xb5), make([]byte, 46)...)})
		}
	}
	return rules, packets
}

func TestTheCubeForwardsAsNftablesDoes(t *testing.T) {
	seed := repeat.Seed(t)
	c := &comparison{sent: map[uint64][]byte{}, want: map[uint64]int{}, rule: map[uint64]string{}}
	c.judges = []*judge{nftJudge(t), ourJudge(t, cube.TypeTC), ourJudge(t, cube.TypeXDPSKB), ourJudge(t, cube.TypeXDPDRV)}
	rounds := uint64(1)
	if os.Getenv("POLYCUBE_SOAK") != "" {
		rounds = 20
	}
	for round := range rounds {
		c.compareRules(t, seed+round)
	}
	dropped := len(c.sent) - len(c.want)
	t.Logf("%d frames, %d of them dropped", len(c.sent), dropped)
	if dropped < 100 || len(c.want) < 300 {
		t.Errorf("%d frames are dropped and %d forwarded: rules and frames say too little", dropped, len(c.want))
	}
}

// compareRules tests frames with rules of each shape.
func (c *comparison) compareRules(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 5))
	for _, s := range []struct {
		shape string
		rules int
	}{
		{"mixed", 80}, {"fw", 60}, {"ipc", 40}, {"acl6", 40}, {"l2", 60}, {"wildcards", 30}, {"masks", 30}, {"singles", 60}, {"ranges", 20}, {"headers", 60}, {"negated", 60},
	} {
		rules, barrier := gates()
		plain := generated(s.shape, s.rules, seed)
		for _, r := range plain {
			if r.EtherType != nil || r.Not != nil && (r.Not.VLAN != nil || r.Not.EtherType != nil) {
				continue // nftables refuses EtherTypes of other layers, and a negated VLAN needs a tag there
			}
			rules = append(rules, ruling{r, rng.IntN(labPorts+1) - 1})
		}
		for _, j := range c.judges {
			j.rule(rules)
		}
		packets := rulesets.NewPackets(plain, labPorts, seed)
		for range 150 {
			if p := packets.Next(); !rulesets.Authenticated(p.Frame) {
				c.try(t, rules, p)
			}
		}
		for _, frame := range [][]byte{arp, other, ping4, udp4, tcp4, first4, later4, udp6, tagged4, priority4} {
			c.try(t, rules, rulesets.Packet{InPort: uint16(rng.IntN(labPorts)), Frame: slices.Clone(frame)})
		}
		for _, p := range barrier {
			c.try(t, rules, p)
		}
		netns.Eventually(t, bpftest.Patience, c.differences)
	}
}
