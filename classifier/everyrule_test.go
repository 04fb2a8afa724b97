// SPDX-License-Identifier: Apache-2.0

package classifier_test

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
)

var (
	//go:embed testdata/everyrule.tc.o
	everyruleTC []byte
	//go:embed testdata/everyrule.xdp.o
	everyruleXDP []byte
)

// foundMax is FOUND_MAX, none the order that says that there are no more.
const (
	foundMax = 32
	noRule   = ^uint32(0)
)

// TestASearchGoesOnBehindAMatch finds all rules that match a packet, in their order: those that a search without it finds
// first, and those that it would never reach.
func TestASearchGoesOnBehindAMatch(t *testing.T) {
	seed, several := repeat.Seed(t), 0
	for _, shape := range rulesets.Shapes {
		for _, n := range []int{20, 300} {
			rules := rulesets.Make(shape, n, seed)
			found, packets := searchEvery(t, rules), rulesets.NewPackets(rules, 4, seed)
			for range 60 {
				p := packets.Next()
				got, want := found(p), matching(rules, p)
				if !slices.Equal(got, want) {
					t.Fatalf("%s, %d rules, packet %x from port %d: rules %v, want %v", shape, n, p.Frame, p.InPort, got, want)
				}
				if len(got) > 1 {
					several++
				}
			}
		}
	}
	if several < 100 {
		t.Errorf("only %d packets match several rules", several)
	}
}

// matching are the rules that match a packet, found by looking at each.
func matching(rules []rulesets.Rule, p rulesets.Packet) []uint32 {
	k, _ := classifier.KeyOf(p.Frame, p.InPort, 0)
	var out []uint32
	for i := range rules {
		m := rules[i].Match()
		if m.Matches(&k) && len(out) < foundMax {
			out = append(out, uint32(i))
		}
	}
	return out
}

// searchEvery returns the search for rules, by programs.
func searchEvery(t *testing.T, rules []rulesets.Rule) func(rulesets.Packet) []uint32 {
	t.Helper()
	model := strings.ReplaceAll(twosetsModel, "twosets", "everyrule")
	service := cube.Service{Model: model, Objects: map[cube.Hook][]byte{cube.TC: everyruleTC, cube.XDP: everyruleXDP},
		New: func(env cube.Env) (cube.Instance, error) {
			set := classifier.New(env, 0)
			return cube.Instance{
				Prepare: func(_ context.Context, c cube.Change) (cube.Plan, error) {
					if !c.Created() {
						return cube.Plan{}, nil
					}
					return set.Prepare(changes(rules))
				},
				Close: func() { _ = set.Close() },
			}, nil
		}}
	l := bpftest.New(t, bpftest.Options{Hosts: 4, Services: []cube.Service{service}})
	l.Create("everyrule", "e", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"},{"name":"p4","peer":"veth4"}]}`)
	orders := l.Map("e", "found")
	return func(p rulesets.Packet) []uint32 {
		t.Helper()
		l.Run(fmt.Sprintf("veth%d", p.InPort+1), p.Frame)
		var out []uint32
		for i := range uint32(foundMax) {
			var order uint32
			if err := orders.Lookup(i, &order); err != nil {
				t.Fatal(err)
			}
			if order == noRule {
				break
			}
			out = append(out, order)
		}
		return out
	}
}
