// SPDX-License-Identifier: Apache-2.0

package hybrid

// The chain of the cubes that users have: each packet is seen and counted once by each of them, whichever of its paths it takes.

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// eachOrder runs a test in the orders in which the cubes can be chained on a netdev: elb is the last one, as its slow path is the stack, and
// efw tells it which packets are decided.
func eachOrder(t *testing.T, test func(t *testing.T, f *functions)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, order := range [][]string{{"edpi1", "efw1", "elb1"}, {"efw1", "edpi1", "elb1"}} {
			t.Run(strings.ToLower(string(typ))+"/"+strings.Join(order, "-"), func(t *testing.T) {
				t.Parallel()
				test(t, newFunctions(t, typ, order...))
			})
		}
	}
}

// sums compares sums with those that are wanted.
func sums(list map[string][2]uint64) error {
	for what, is := range list {
		if is[0] != is[1] {
			return fmt.Errorf("%s: %d, want %d", what, is[0], is[1])
		}
	}
	return nil
}

// TestEachCubeSeesEachPacketOnce in all combinations of hits and misses: edpi has a decision on the flow or not, efw knows what the rules
// say about a packet or not, and elb has a service or not. It opens no session for what efw leaves to the rules.
func TestEachCubeSeesEachPacketOnce(t *testing.T) {
	eachOrder(t, func(t *testing.T, f *functions) {
		const each = 20 // fewer than edpi inspects
		var all []*conversation
		again := uint64(0) // packets that were sent again
		for i, to := range []uint16{knownService, known, unknownService, unknown} {
			all = append(all, &conversation{from: uint16(6000 + 2*i), to: to}, &conversation{from: uint16(6001 + 2*i), to: to})
		}
		for i, c := range all {
			if c.to == knownService {
				again += f.opens(c)
			} else {
				f.send(c, pkt.TCPFlags{SYN: true})
				f.arrive(c.packets, atProgram, atServer)
			}
			if i%2 == 1 {
				f.decide(c)
			}
			if taken := f.taken(c); taken && c.to != knownService {
				t.Fatalf("port %d: taken by elb", c.to)
			}
			if f.taken(c) {
				f.reply(c, pkt.TCPFlags{SYN: true, ACK: true})
				f.arrive(c.replies, atClient)
			}
		}
		for range each - 1 {
			for _, c := range all {
				f.send(c, pkt.TCPFlags{ACK: true})
			}
		}
		for _, c := range all {
			f.arrive(c.packets, atProgram, atServer)
			f.check(c)
		}
		drops := &conversation{from: 6100, to: refused}
		for range each {
			f.send(drops, pkt.TCPFlags{ACK: true})
		}
		// elb takes the client's packets to a service that efw knows to be accepted, and their replies. Everything else is for the stack.
		netns.Eventually(t, bpftest.Patience, func() error {
			opened, packets, replies := f.balanced(knownService)
			undecided, more, _ := f.balanced(unknownService)
			return sums(map[string][2]uint64{
				"sessions of elb":                                             {opened, 2},
				"packets of clients in elb":                                   {packets, 2 * each},
				"replies in elb":                                              {replies, 2},
				"sessions and packets that are for the rules":                 {undecided + more, 0},
				"SYNs that elb has left to the stack for efw":                 {f.number("elb1 sessions undecided"), 2 + again},
				"packets that are dropped":                                    {f.counted(2), each},
				"replies in the stack":                                        {f.counted(3), 0},
				"packets that efw knows to be accepted, in the stack":         {f.counted(4), 2*each + again},
				"packets that efw has left to the rules":                      {f.counted(5), 4 * each},
				"packets that the firewall has counted, and accepted for elb": {f.counted(1) + packets, 9*each + again},
				"packets that the program has got, and elb":                   {uint64(len(f.seen[atProgram])) + packets, 8*each + again},
			})
		})
		if n := f.Fates("efw1")["rule"]; n == 0 || n > each {
			t.Errorf("efw has dropped %d of %d packets", n, each)
		}
	})
}

// opens opens a session of elb for a conversation, whose port is changed if it has none: while efw is starved of CPU, it leaves all packets
// to the rules. Returns how many SYNs were left to them.
func (f *functions) opens(c *conversation) (left uint64) {
	f.t.Helper()
	for f.send(c, pkt.TCPFlags{SYN: true}); ; f.send(c, pkt.TCPFlags{SYN: true}) {
		f.arrive(c.packets, atProgram, atServer)
		if f.taken(c) {
			return left
		}
		if left++; left == 100 {
			f.t.Fatalf("port %d: not taken by elb", c.to)
		}
		f.ready()
		c.from, c.packets = c.from+100, nil
	}
}

// number reads a leaf.
func (f *functions) number(words string) (n uint64) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(strings.Trim(f.Read(words), `"`)), &n); err != nil {
		f.t.Fatalf("%s: %v", words, err)
	}
	return n
}

// TestRulesOfRealCubesMayComeAndGo while packets are on their way.
func TestRulesOfRealCubesMayComeAndGo(t *testing.T) {
	eachOrder(t, func(t *testing.T, f *functions) {
		var names [dpi.Names]dpi.Name
		names[decided] = dpi.NameOf("TLS")
		if err := f.dpi.Announce("4.2 of a test", &names); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := f.Read("edpi1 protocol"); !strings.Contains(is, "TLS") {
				return fmt.Errorf("protocols are %s", is)
			}
			return nil
		})
		stop := f.change()
		defer stop()
		var all []*conversation
		var judged uint64
		ways := map[string]int{}
		limit := time.Now().Add(4 * bpftest.Patience)
		for round := uint16(0); round < 30 || len(ways) < 4; round++ {
			if round >= 30 && time.Now().After(limit) {
				t.Fatalf("packets to a port have always taken the same way: %v", ways)
			}
			var now []*conversation
			for i, to := range []uint16{knownService, known, unknownService, unknown} {
				now = append(now, &conversation{from: 20000 + 8*round + uint16(i), to: to})
			}
			f.round(now, round)
			f.send(&conversation{from: 20007 + 8*round, to: refused}, pkt.TCPFlags{ACK: true})
			judged++
			for _, c := range now {
				if c.to == knownService || c.to == unknownService {
					ways[fmt.Sprint(c.to, " by elb: ", f.taken(c))]++
				}
				if !f.taken(c) {
					judged += uint64(len(c.packets))
				}
			}
			all = append(all, now...)
			select {
			case f.rounds <- struct{}{}:
			default:
			}
		}
		stop()
		f.look()
		for _, c := range all {
			f.check(c)
		}
		t.Logf("connections by their port and way: %v", ways)
		netns.Eventually(t, bpftest.Patience, func() error {
			return sums(map[string][2]uint64{"packets that the firewall has counted": {f.counted(1), judged}})
		})
	})
}

// round has conversations of four packets.
func (f *functions) round(now []*conversation, round uint16) {
	f.t.Helper()
	for _, c := range now {
		f.send(c, pkt.TCPFlags{SYN: true})
	}
	for i, c := range now {
		f.arrive(c.packets, atProgram, atServer)
		if (round+uint16(i))%2 == 1 {
			f.decide(c)
		}
	}
	for range 3 {
		for _, c := range now {
			f.send(c, pkt.TCPFlags{ACK: true})
		}
	}
	for _, c := range now {
		f.arrive(c.packets, atProgram, atServer)
	}
}

// changes are those of the rules, each with the one that undoes it: no packet is ever refused by them.
var changes = [][]string{
	{"INPUT", "2", "-p", "tcp", "--dport", "80", "-m", "limit", "--limit", "10000/second", "--limit-burst", "10000", "-j", "ACCEPT"},
	{"INPUT", "2", "-p", "tcp", "--dport", "90:91", "-j", "ACCEPT"},
	{"INPUT", "2", "-p", "tcp", "--dport", "99", "-m", "limit", "--limit", "10000/second", "--limit-burst", "10000", "-j", "DROP"},
}

// change changes the rules of all three cubes until stop.
func (f *functions) change() (stop func()) {
	f.t.Helper()
	done := make(chan struct{})
	var busy sync.WaitGroup
	forever := func(change func(i int) error) {
		busy.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := change(i); err != nil {
					f.t.Error(err)
					return
				}
			}
		})
	}
	forever(func(i int) error {
		rule := changes[i/3%len(changes)]
		if err := f.Command("iptables-legacy", append([]string{"-I"}, rule...)...).Run(); err != nil {
			return fmt.Errorf("insert %v: %w", rule, err)
		}
		if i%3 > 0 {
			f.settles(done)
		}
		if err := f.Command("iptables-legacy", append([]string{"-D", rule[0]}, rule[2:]...)...).Run(); err != nil {
			return fmt.Errorf("delete %v: %w", rule, err)
		}
		if i%3 > 1 {
			f.settles(done)
		}
		return nil
	})
	forever(func(i int) error {
		at := fmt.Sprintf("elb1 service %s %d", machine, known)
		return errors.Join(f.Try("POST", at, service(known)), f.Try("PATCH", fmt.Sprintf("elb1 service %s %d backend %s 8080 weight", machine, unknownService, server), fmt.Sprint(1+i%5)),
			f.Try("DELETE", at, ""))
	})
	forever(func(i int) error {
		const at = "edpi1 policy PROTOCOL TLS"
		action := []string{`{"action":"MARK","mark":8}`, `{"action":"PASS"}`, `{"action":"LIMIT","rate":4000000}`}[i%3]
		return errors.Join(f.Try("POST", at, action), f.Try("DELETE", at, ""))
	})
	return sync.OnceFunc(func() { close(done); busy.Wait() })
}

// settles waits until efw has taken the rules over, and for two rounds of packets since.
func (f *functions) settles(done <-chan struct{}) {
	for open := 0; open < 2; {
		select {
		case <-done:
			return
		case <-f.rounds:
		}
		if is, err := f.TryRead("efw1 status gate"); open > 0 || err == nil && is == `"OPEN"` {
			open++
		}
	}
}
