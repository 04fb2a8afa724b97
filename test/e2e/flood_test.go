// SPDX-License-Identifier: Apache-2.0

// A SYN flood on all processors against a host with stateful rules.

package e2e

import (
	"encoding/binary"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// floods sends SYNs from a host, as many of each processor, all from other addresses.
func floods(t *testing.T, from *netns.Node, to string, each int) {
	t.Helper()
	var all sync.WaitGroup
	for cpu := range runtime.NumCPU() {
		raw := netns.OpenRaw(t, from, netns.Inner)
		frame := pkt.Eth(from.MAC.String(), from.OuterMAC.String()).IPv4("50.255.255.255", to).TCP(0, 7000, pkt.TCPFlags{SYN: true}).Bytes()
		all.Go(func() {
			err := netns.OnCPU(cpu, func() error {
				for n := range each {
					// What the address loses, the sequence number gains, so the checksum of TCP stays.
					number := uint32(cpu)<<22 + uint32(n)
					binary.BigEndian.PutUint32(frame[26:], 0x32ffffff-number)
					binary.BigEndian.PutUint16(frame[24:], 0)
					binary.BigEndian.PutUint16(frame[24:], ^pkt.Sum(frame[14:34]))
					binary.BigEndian.PutUint32(frame[38:], number)
					if err := raw.Send(frame); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// TestAFloodOnAllProcessorsCutsNoConnection: those that are open go on while half-open ones come and go, and others can be
// opened, with the few sessions that each cube may have.
func TestAFloodOnAllProcessorsCutsNoConnection(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string][]string{
		"firewall": {"firewall add fw max-sessions=1024", "fw chain INGRESS append l4proto=TCP dport=7000 action=ACCEPT",
			"fw chain INGRESS set default=DROP", "attach fw host"},
		"iptables": {"iptables add ipt max-sessions=1024", "ipt chain INPUT append conntrack=ESTABLISHED action=ACCEPT",
			"ipt chain INPUT append l4proto=TCP dport=7000 conntrack=NEW action=ACCEPT", "ipt chain INPUT set default=DROP", "attach ipt host"},
	} {
		_, cube, _ := strings.Cut(commands[0], " add ")
		cube, _, _ = strings.Cut(cube, " ")
		t.Run(name, func(t *testing.T) {
			d := start(t)
			lan, _ := d.betweenNetworks()
			d.lab.AnswerLines("10.0.0.1:7000", sender)
			for _, c := range commands {
				d.Do(c)
			}
			var open []*asked
			for range 100 {
				c := connectTo(t, lan, "10.0.0.1:7000")
				c.seenAs()
				open = append(open, c)
			}
			flooded := make(chan struct{})
			go func() {
				defer close(flooded)
				floods(t, lan, "10.0.0.1", 100_000)
			}()
			answers := 0
			for going := true; going; answers++ {
				open[answers%len(open)].seenAs()
				select {
				case <-flooded:
					going = false
				default:
				}
			}
			for _, c := range open {
				c.seenAs()
			}
			connectTo(t, lan, "10.0.0.1:7000").seenAs()
			var is struct {
				Active   int
				HalfOpen int `json:"half-open"`
			}
			d.Get("/"+name+"/"+cube+"/sessions", &is)
			t.Logf("%d answers during the flood, afterwards %+v", answers, is)
			if is.Active != len(open)+1 || is.HalfOpen < 10_000 {
				t.Errorf("sessions: %+v, want %d, and those of the flood that are half open", is, len(open)+1)
			}
		})
	}
}
