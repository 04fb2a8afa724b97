// SPDX-License-Identifier: Apache-2.0

package edpi_test

// Flows that end, and what outlives a daemon.

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

var errNone = errors.New("there is none")

func TestFlowsEndAndRemainCounted(t *testing.T) {
	each(t, `{"timeout":1,"tcp-timeout":600,"ended-timeout":1}`, func(t *testing.T, r *rig) {
		r.announce()
		r.alive(true)
		r.run("a query", "veth1", udp(1, 53), "")
		r.run("its answer", "veth2", answer(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns, Category: media, Risks: 3}) // after its last packet
		tcp := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).TCP(1, 80, pkt.TCPFlags{ACK: true}).Payload(10).Bytes()
		r.run("TCP", "veth1", tcp, "")
		ended := []dpi.Ended{}
		netns.Eventually(t, bpftest.Patience, func() error {
			e, ok, err := r.tables.NextEnded()
			if err != nil || !ok {
				return fmt.Errorf("no flow has ended, found %v: %w", ok, errors.Join(err, errNone))
			}
			ended = append(ended, e)
			return nil
		})
		is := ended[0].Flow
		if is.Packets[0]+is.Packets[1] != 2 || is.Class.Protocol != dns || is.Class.Risks != 3 || is.Flags&dpi.Decided == 0 {
			t.Errorf("the flow that ended is %+v, want 2 packets of DNS with two risks", is)
		}
		sums, categories := r.classes("protocol"), r.classes("category")
		if sums["DNS"].Packets != 2 || sums["DNS"].Flows != 1 || sums["undecided"].Packets != 1 || categories["Media"].Packets != 2 {
			t.Errorf("sums are %+v and %+v, want 2 packets of DNS and 1 undecided", sums, categories)
		}
		if got := r.entries(); len(got) != 1 || got[0].L4 != "TCP" {
			t.Errorf("flows are %+v, want that of TCP", got)
		}
		rst := pkt.Eth(serverMAC, clientMAC).IPv4(server, client).TCP(80, 1, pkt.TCPFlags{RST: true}).Bytes()
		r.run("RST", "veth2", rst, "")
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := r.entries(); len(got) != 0 {
				return fmt.Errorf("after a reset: %+v", got)
			}
			return nil
		})
		if sums := r.classes("protocol"); sums["DNS"].Packets != 2 || sums["undecided"].Packets != 2 {
			t.Errorf("sums are %+v, want 2 and 2", sums)
		}
	})
}

func TestATableThatIsAlmostFullKeepsFlowsThatWereAnswered(t *testing.T) {
	each(t, `{"max-flows":16}`, func(t *testing.T, r *rig) {
		for port := range uint16(16) {
			r.run("fits", "veth1", udp(1000+port, 53), "")
		}
		r.run("answered", "veth2", answer(1000, 53), "")
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := strings.Trim(r.Read("c statistics cut-short"), `"`); got != "15" {
				return fmt.Errorf("cut-short is %s, want 15", got)
			}
			return nil
		})
		if got := r.entries(); len(got) != 1 || got[0].SourcePort != 1000 {
			t.Errorf("flows are %+v, want the one that was answered", got)
		}
		r.run("there is room", "veth1", udp(2000, 53), "")
		if got := len(r.entries()); got != 2 {
			t.Errorf("%d flows, want 2", got)
		}
		if sum := r.classes("protocol"); sum["undecided"].Packets != 18 || sum["no-room"].Packets != 0 {
			t.Errorf("sums are %+v, want all 18 packets", sum)
		}
	})
}

func TestOtherNamesBeginAnew(t *testing.T) {
	each(t, "", func(t *testing.T, r *rig) {
		r.announce()
		r.run("a query", "veth1", udp(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns})
		r.run("a query", "veth1", udp(1, 53), "")
		r.Restart(nil)
		if sum := r.classes("protocol")["DNS"]; sum.Packets != 2 {
			t.Errorf("with the same names DNS has %+v", sum)
		}
		names := [dpi.Names]dpi.Name{dns: dpi.NameOf("Other")}
		if err := r.tables.Announce("5", &names); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			sum := r.classes("protocol")
			if c, ok := sum["Other"]; !ok || c.Packets != 0 || sum["undecided"].Packets != 0 {
				return fmt.Errorf("sums are %+v", sum)
			}
			return nil
		})
		if got := r.entries(); len(got) != 0 {
			t.Errorf("flows are %+v, want none", got)
		}
	})
}

func TestMarksAndRedirects(t *testing.T) {
	each(t, `{"outputs":[{"number":1,"to":"veth1"}],"policy":[{"kind":"PROTOCOL","name":"DNS","action":"MARK","mark":7},
		{"kind":"PROTOCOL","name":"TLS","action":"REDIRECT","output":1}]}`, func(t *testing.T, r *rig) {
		r.Create("policer", "behind", `{"contract":[{"traffic-class":7,"action":"DROP"}]}`)
		r.Attach("behind", "f:p1")
		r.announce()
		for port, protocol := range map[uint16]uint16{1: dns, 2: tls, 3: video} {
			r.run("undecided", "veth2", answer(port, 53), "")
			r.run("undecided", "veth1", udp(port, 53), "")
			r.decide(udp(port, 53), dpi.Class{Protocol: protocol})
		}
		marked := 0 // the policer is behind the cube in one of the directions
		for dev, frame := range map[string][]byte{"veth1": udp(1, 53), "veth2": answer(1, 53)} {
			if r.Run(dev, frame).Fate == "behind contract-drops" {
				marked++
			}
		}
		if marked != 1 {
			t.Errorf("packets of class 7 were dropped in %d directions, want one", marked)
		}
		if got := r.Run("veth1", udp(2, 53)); got.Fate != "c redirected" {
			t.Errorf("to output 1: %+v", got)
		}
		r.run("of another protocol", "veth1", udp(3, 53), "")
	})
}

func TestAnotherDaemonFindsEverything(t *testing.T) {
	each(t, "", func(t *testing.T, r *rig) {
		r.announce()
		r.Set("POST", "c policy PROTOCOL DNS", `{"action":"DROP"}`)
		r.run("undecided", "veth1", udp(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns})
		r.run("DNS", "veth1", udp(1, 53), "policy")
		r.Restart(nil)
		r.run("with the next one", "veth1", udp(1, 53), "policy")
		if sum := r.classes("protocol")["DNS"]; sum.Packets != 3 {
			t.Errorf("DNS has %+v, want 3 packets", sum)
		}
		if got := strings.Trim(r.Read("c policy PROTOCOL DNS dropped-packets"), `"`); got != "2" {
			t.Errorf("dropped-packets is %s, want 2", got)
		}
		if !r.tables.Current() {
			t.Error("the tables are others")
		}
		top := r.Action("c flows", `{"count":1}`)
		if !strings.Contains(top, `"application":"DNS"`) {
			t.Errorf("the heaviest flow is %s", top)
		}
	})
}
