// SPDX-License-Identifier: Apache-2.0

package ddosmitigator_test

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestAClientGetsAnswersDuringAFlood: real hosts on a bridge. An attacker sends as fast as it can and is listed; a client with
// another address has answers, before and after.
func TestAClientGetsAnswersDuringAFlood(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 3})
			l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
				"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
			l.Create("ddosmitigator", "d", `{"auto-src-packets":500,"auto-lifetime":1000}`)
			l.Attach("d", "f:p1")
			client, victim := l.Hosts[0], l.Hosts[1]
			client.Run("ip", "addr", "add", "10.0.0.1/24", "dev", netns.Inner)
			victim.Run("ip", "addr", "add", "10.0.0.2/24", "dev", netns.Inner)
			client.Reaches(t, bpftest.Patience, "10.0.0.2")
			wires := l.Wires()
			attack := frame("10.0.0.66", "10.0.0.2")
			netns.Eventually(t, bpftest.Patience, func() error {
				for range 2000 {
					if err := wires[0].Send(attack); err != nil {
						return err
					}
				}
				if all := state[[]listing](t, l, "d detected"); len(all) != 1 || all[0].IP != "10.0.0.66" || all[0].Packets < 100 {
					return fmt.Errorf("listed: %+v", all)
				}
				return nil
			})
			client.Reaches(t, bpftest.Patience, "10.0.0.2")
			if n := l.Fates("d")["detected-src"]; n < 100 {
				t.Errorf("%d packets of the attacker were dropped", n)
			}
			netns.Eventually(t, bpftest.Patience, func() error {
				for range 100 {
					if err := wires[0].Send(attack); err != nil {
						return err
					}
				}
				if got := state[struct{ PPS uint64 }](t, l, "d stats").PPS; got == 0 {
					return fmt.Errorf("no rate of dropped packets")
				}
				return nil
			})
			l.Set("POST", "d blacklist-src 10.0.0.1", "{}")
			if err := client.Ping("10.0.0.2", netns.Brief); err == nil {
				t.Error("a listed client has answers")
			}
		})
	}
}
