// SPDX-License-Identifier: Apache-2.0

package offload

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/test/repeat"
)

// TestWhatTheRulesOfInputAcceptIsKnown: the stack gets it, but cubes in front of the stack may rely on it.
func TestWhatTheRulesOfInputAcceptIsKnown(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	setting := &Setting{In: "eth0", Netdevs: netdevs, NoAccept: map[string]string{Input: "the stack gets it"}}
	total, accepted, dropped, caught := 0, 0, 0, false
	for range 2000 {
		text := strings.NewReplacer("INPUT", "FORWARD", "FORWARD", "INPUT").Replace(randomTable(r))
		tables, err := Read(language.IPv4, strings.NewReader(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		bases := BasesOf(&tables[0], Input)
		program, mutant := Compile(setting, Input, bases), Compile(setting, Input, bases)
		for i := range mutant.Entries {
			if e := &mutant.Entries[i]; e.Verb == Miss {
				e.Verb = Stack
			}
		}
		for range 20 {
			p := randomPacket(r)
			p.out = ""
			drop, counted := walk(&tables[0], Input, p)
			v, mine := simulate(program, p, 0)
			total++
			switch v {
			case Stack:
				accepted++
			case Drop:
				dropped++
			}
			if v == Accept || v == Stack && drop || v == Drop && (!drop || !slices.Equal(mine, counted)) {
				t.Fatalf("%+v\n%s\nthe program says %d by %v, the chains drop=%v by %v", *p, text, v, mine, drop, counted)
			}
			if v, _ := simulate(mutant, p, 0); v == Stack && drop {
				caught = true
			}
		}
	}
	t.Logf("%d packets: %d accepted, %d dropped", total, accepted, dropped)
	if accepted < total/6 || dropped < total/20 {
		t.Errorf("of %d packets, %d are known to be accepted, %d to be dropped", total, accepted, dropped)
	}
	if !caught {
		t.Error("a mutant survives: what is left to the stack is accepted")
	}
	if p := Compile(setting, Input, nil); p.Policy != Stack {
		t.Errorf("without rules the policy is %d", p.Policy)
	}
	setting.NoDrop = map[string]string{Input: "it is not known"}
	if p := Compile(setting, Input, nil); p.Policy != Miss {
		t.Errorf("if the rules are not known, the policy is %d", p.Policy)
	}
}
