// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestASessionIsTranslatedAtBothEnds(t *testing.T) {
	conf := fmt.Sprintf(`{"service":[%s,%s]}`, v4.service("", v4.server), v6.service("", v6.server))
	each(t, conf, func(t *testing.T, r *rig) {
		for _, e := range []ends{v4, v6} {
			got := r.open(e, 5000)
			port := source(got)
			if port < 10240 || port > 32767 {
				t.Errorf("source port %d, want one of source-ports", port)
			}
			to := func(flags pkt.TCPFlags) []byte {
				return pkt.Hop(frame(r.mac, serverMAC, e.vip, e.server).TCP(port, 8080, flags).Payload(6).Bytes())
			}
			from := func(flags pkt.TCPFlags) []byte {
				return pkt.Hop(frame(r.mac, clientMAC, e.vip, e.client).TCP(80, 5000, flags).Payload(8).Bytes())
			}
			for i, step := range []struct {
				is, want []byte
			}{
				{r.segment(e, 5000, syn), to(syn)},
				{r.reply(e, e.server, serverMAC, port, synAck), from(synAck)},
				{r.segment(e, 5000, ack), to(ack)},
				{r.reply(e, e.server, serverMAC, port, ack), from(ack)},
			} {
				if out, got := r.judged(step.is); out != replies || !bytes.Equal(got, step.want) {
					t.Errorf("step %d: %+v\n got %x\nwant %x", i, out, got, step.want)
				}
			}
			s := r.server(e.server)
			length := uint64(len(r.segment(e, 5000, ack)))
			if s.Opened != 1 || s.Active != 1 || s.Packets != 3 || s.Bytes != 3*length || s.ReplyPackets != 2 || s.ReplyBytes != 2*(length+2) {
				t.Errorf("the server has %+v", s)
			}
		}
		if n := r.sessions("opened"); n != 2 {
			t.Errorf("%d sessions were opened, want 2", n)
		}
	})
}

func TestWhatIsOfNoSessionIsForTheStack(t *testing.T) {
	each(t, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server)), func(t *testing.T, r *rig) {
		ip := func() *pkt.Frame { return frame(clientMAC, r.mac, v4.client, v4.vip) }
		for what, f := range map[string]*pkt.Frame{
			"a segment of a connection that HAProxy has": ip().TCP(5000, 80, ack),
			"a SYN with ACK":        ip().TCP(5000, 80, synAck),
			"another port":          ip().TCP(5000, 81, syn),
			"another protocol":      ip().UDP(5000, 80),
			"a tag":                 pkt.Eth(clientMAC, r.mac).VLAN(7).IPv4(v4.client, v4.vip).TCP(5000, 80, syn),
			"another station":       frame(clientMAC, otherMAC, v4.client, v4.vip).TCP(5000, 80, syn),
			"a port of the sources": frame(serverMAC, r.mac, v4.server, v4.vip).TCP(8080, 12345, ack),
			"not IP":                pkt.Eth(clientMAC, r.mac).ARPRequest(clientMAC, v4.client, v4.vip),
		} {
			is := f.Bytes()
			if out, got := r.judged(is); out != passes || !bytes.Equal(got, is) {
				t.Errorf("%s: %+v, want %+v, unchanged", what, out, passes)
			}
		}
		expired := r.segment(v4, 5000, syn)
		for range 63 {
			expired = pkt.Hop(expired)
		}
		if out, got := r.judged(expired); out != passes || !bytes.Equal(got, expired) {
			t.Errorf("a SYN whose TTL has expired: %+v, want %+v", out, passes)
		}
		r.open(v4, 5000)
		if out, _ := r.judged(expired); out != (bpftest.Outcome{Verdict: "drop", Fate: "e ttl"}) {
			t.Errorf("a segment of a session whose TTL has expired: %+v", out)
		}
	})
}

func TestErrorsReachTheSenderOfAPacket(t *testing.T) {
	conf := fmt.Sprintf(`{"service":[%s,%s]}`, v4.service("", v4.server), v6.service("", v6.server))
	each(t, conf, func(t *testing.T, r *rig) {
		for _, e := range []ends{v4, v6} {
			sent := r.open(e, 5000)
			port := source(sent)
			answered := func() []byte {
				_, got := r.judged(r.reply(e, e.server, serverMAC, port, synAck))
				return got
			}()
			for what, tt := range map[string]struct {
				is, want []byte
			}{
				// The router has seen the packet after the translation, and the sender sees it as it was before.
				"a packet of the client is too large": {tooBig(serverMAC, r.mac, e.router, e.vip, sent), tooBig(r.mac, clientMAC, e.vip, e.client, pkt.Hop(r.segment(e, 5000, syn)))},
				"a packet of the server is too large": {tooBig(clientMAC, r.mac, e.router, e.vip, answered), tooBig(r.mac, serverMAC, e.vip, e.server, pkt.Hop(r.reply(e, e.server, serverMAC, port, synAck)))},
			} {
				if out, got := r.judged(tt.is); out != replies || !bytes.Equal(got, pkt.Hop(tt.want)) {
					t.Errorf("%s: %+v\n got %x\nwant %x", what, out, got, pkt.Hop(tt.want))
				}
			}
			other := tooBig(clientMAC, r.mac, e.router, e.vip, r.segment(e, 5001, syn))
			if out, got := r.judged(other); out != passes || !bytes.Equal(got, other) {
				t.Errorf("an error of no session: %+v, want %+v", out, passes)
			}
		}
		if n := r.sessions("errors"); n != 4 {
			t.Errorf("%d errors were translated, want 4", n)
		}
	})
}

// tooBig is the ICMP error that a frame is too large for the next link.
func tooBig(fromMAC, toMAC, from, to string, sent []byte) []byte {
	if sent[12] == 0x86 {
		return pkt.Eth(fromMAC, toMAC).IP(pkt.IPv6Header{From: from, To: to, Next: pkt.ProtoICMPv6, HopLimit: 64}.Packet(
			pkt.ICMPv6Message(from, to, 2, 0, 1280, sent[14:]))).Bytes()
	}
	return pkt.Eth(fromMAC, toMAC).IP(pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoICMP, TTL: 64}.Packet(
		pkt.ICMPMessage(3, 4, 1400, sent[14:]))).Bytes()
}

func TestServersAreChosen(t *testing.T) {
	for how, want := range map[string][2]int{"MAGLEV": {75, 25}, "ROUND_ROBIN": {75, 25}, "LEAST_CONNECTIONS": {75, 25}} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, cube.TypeXDPDRV, fmt.Sprintf(`{"service":[%s]}`, v4.service(fmt.Sprintf(`,"select":%q`, how), v4.server+" 3", v4.other)))
			got := [2]int{}
			for i := range 100 {
				frame := r.open(v4, uint16(6000+i))
				if bytes.Equal(frame[:6], pkt.MAC(serverMAC)) {
					got[0]++
				} else {
					got[1]++
				}
			}
			slack := 1
			if how == "MAGLEV" {
				slack = 20
			}
			if got[0] < want[0]-slack || got[0] > want[0]+slack || got[0]+got[1] != 100 {
				t.Errorf("the servers got %v sessions, want %v", got, want)
			}
		})
	}
}

func TestSourcesAreThoseThatAreConfigured(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"source":"10.0.0.7","source6":"fd00::7","source-ports":"20000-20001","service":[%s,%s]}`,
		v4.service("", v4.server), v6.service("", v6.server)))
	for _, e := range []ends{v4, v6} {
		own := strings.Replace(e.vip, "1", "7", 1)
		if e == v4 {
			own = "10.0.0.7"
		}
		seen := map[uint16]bool{}
		for i := range 2 {
			got := r.open(e, uint16(5000+i))
			seen[source(got)] = true
			want := pkt.Hop(frame(r.mac, serverMAC, own, e.server).TCP(source(got), 8080, syn).Payload(6).Bytes())
			if !bytes.Equal(got, want) {
				t.Errorf("got %x\nwant %x", got, want)
			}
		}
		if !seen[20000] || !seen[20001] {
			t.Errorf("source ports %v, want 20000 and 20001", seen)
		}
		if out, _ := r.judged(r.segment(e, 5002, syn)); out != passes {
			t.Errorf("without a free source port: %+v, want %+v", out, passes)
		}
	}
	if n := r.sessions("no-port"); n != 2 {
		t.Errorf("no-port is %d, want 2", n)
	}
}

func TestWrongConfigurationsAreRefused(t *testing.T) {
	r := newHost(t, cube.TypeTC)
	for conf, why := range map[string]string{
		`{"source-ports":"30000-40000"}`:                                       "ip_local_port_range",
		`{"source-ports":"20000-19999"}`:                                       "want a range",
		`{"source-ports":"80-90"}`:                                             "want a range",
		`{"source":"127.0.0.1"}`:                                               "not the address of a host",
		`{"service":[{"vip":"10.0.0.1","vport":20000}]}`:                       "in source-ports",
		`{"service":[{"vip":"224.0.0.1","vport":80}]}`:                         "not the address of a host",
		`{"service":[` + v4.service("", "fd00::11") + `]}`:                     "its IP version differs",
		`{"service":[` + v4.service("", v4.vip) + `]}`:                         "its address is that of the service",
		`{"source":"10.0.0.11","service":[` + v4.service("", v4.server) + `]}`: "its address is that of the service, or the source address that servers see",
		`{"max-servers":64,"service":[` + v4.service("", many(65)...) + `]}`:   "65 servers exceed max-servers, which is 64",
	} {
		if err := r.TryCreate("elb", "e", conf); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", conf, err, why)
		}
	}
}

// many are addresses of servers.
func many(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("10.0.1.%d", i+1))
	}
	return all
}

func TestEveryReasonIsReached(t *testing.T) {
	each(t, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server)), func(t *testing.T, r *rig) {
		r.open(v4, 5000)
		expired := frame(clientMAC, r.mac, v4.client, v4.vip).TCP(5000, 80, ack).Bytes()
		for range 63 {
			expired = pkt.Hop(expired)
		}
		short := pkt.Eth(clientMAC, r.mac).IP(pkt.IPv4Header{From: v4.client, To: v4.vip, Protocol: pkt.ProtoTCP, TTL: 64}.Packet(
			[]byte{5000 >> 8, 5000 & 0xff, 0, 80, 0, 0, 0, 0})).Bytes()
		for fate, is := range map[string][]byte{"e ttl": expired, "e malformed": short} {
			if out, _ := r.judged(is); out != (bpftest.Outcome{Verdict: "drop", Fate: fate}) {
				t.Errorf("%+v, want %s", out, fate)
			}
		}
		if left := r.Unmet("e"); len(left) > 0 {
			t.Errorf("no packet was dropped as %v", left)
		}
	})
}

func TestSessionsExpire(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"timeout":{"tcp-established":604800,"tcp-transitory":604800},"service":[%s]}`, v4.service("", v4.server)))
	port := source(r.open(v4, 5000))
	r.judged(r.reply(v4, v4.server, serverMAC, port, synAck))
	r.judged(r.segment(v4, 5000, ack))
	r.open(v4, 5001) // stays half-open
	want := func(what string, n uint64) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			if is := r.sessions("active"); is != n {
				return fmt.Errorf("%s: %d sessions, want %d", what, is, n)
			}
			return nil
		})
	}
	want("long timeouts", 2)
	r.Set("PUT", "e timeout", `{"tcp-established":604800,"tcp-transitory":1}`)
	want("one is half-open", 1)
	if out, _ := r.judged(r.segment(v4, 5000, ack)); out != replies {
		t.Errorf("the open session: %+v, want %+v", out, replies)
	}
	r.Set("PUT", "e timeout", `{"tcp-established":1,"tcp-transitory":1}`)
	want("none has packets", 0)
	if out, _ := r.judged(r.segment(v4, 5000, ack)); out != passes {
		t.Errorf("a segment of a session that has expired: %+v, want %+v", out, passes)
	}
	if s := r.server(v4.server); s.Active != 0 || s.Opened != 2 {
		t.Errorf("the server has %+v, want 2 sessions that have ended", s)
	}
}

func TestATableThatIsFullLeavesConnectionsToTheStack(t *testing.T) {
	r := newRig(t, cube.TypeXDPDRV, fmt.Sprintf(`{"max-sessions":1024,"service":[%s]}`, v4.service("", v4.server)))
	var frames [][]byte
	for i := range 1500 {
		frames = append(frames, r.segment(v4, uint16(6000+i), syn))
	}
	r.RunAll("veth1", frames)
	opened, full := r.sessions("opened"), r.sessions("full")
	if opened < 1024 || full == 0 || opened+full != 1500 {
		t.Errorf("%d sessions were opened and %d not, want at least 1024 and 1500 together", opened, full)
	}
	r.Set("PATCH", "e", `{"max-sessions":4096}`)
	frames = frames[:0]
	for i := range 500 {
		frames = append(frames, r.segment(v4, uint16(9000+i), syn))
	}
	r.RunAll("veth1", frames)
	if more := r.sessions("opened") - opened; more != 500 {
		t.Errorf("%d sessions were opened in a larger table, want 500", more)
	}
}

func TestSessionsAndServersOutliveTheDaemon(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			r := newRig(t, typ, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server, v4.other)))
			want := r.open(v4, 5000)
			r.Restart(func() {})
			if out, got := r.judged(r.segment(v4, 5000, syn)); out != replies || !bytes.Equal(got, want) {
				t.Errorf("after a restart: %+v\n got %x\nwant %x", out, got, want)
			}
			if n := r.sessions("opened"); n != 1 {
				t.Errorf("%d sessions were opened, want 1", n)
			}
			// The service is removed while it has a session, and the daemon restarts once more.
			r.Set("DELETE", "e service", ``)
			r.Restart(func() {})
			if out, got := r.judged(r.segment(v4, 5000, syn)); out != replies || !bytes.Equal(got, want) {
				t.Errorf("of a service that is removed: %+v\n got %x\nwant %x", out, got, want)
			}
			if out, _ := r.judged(r.segment(v4, 5001, syn)); out != passes {
				t.Errorf("a new connection: %+v, want %+v", out, passes)
			}
		})
	}
}

func TestClientsAreFoundWhereTheirPacketsComeFrom(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server)))
	port := source(r.open(v4, 5000))
	for _, mac := range []string{clientMAC, otherMAC} { // another router has taken over
		r.judged(frame(mac, r.mac, v4.client, v4.vip).TCP(5000, 80, ack).Bytes())
		if _, got := r.judged(r.reply(v4, v4.server, serverMAC, port, ack)); !bytes.Equal(got[:6], pkt.MAC(mac)) {
			t.Errorf("the reply goes to %x, want %s", got[:6], mac)
		}
	}
	r.Lab.Lab.Run("ip", "neigh", "replace", v4.server, "lladdr", otherMAC, "dev", "veth1", "nud", "permanent")
	netns.Eventually(t, bpftest.Patience, func() error {
		if _, got := r.judged(r.segment(v4, 5000, ack)); !bytes.Equal(got[:6], pkt.MAC(otherMAC)) {
			return fmt.Errorf("the packet goes to %x, want %s", got[:6], otherMAC)
		}
		return nil
	})
}

func TestServersThatCannotBeReachedGetNoSessions(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server)))
	for what, tt := range map[string]struct{ ip, reason string }{
		"no route":         {"192.0.2.1", "no route"},
		"another netdev":   {"10.0.0.7", "does not lead to veth1"},
		"silent neighbour": {"10.0.0.55", "the MAC address of 10.0.0.55 is not known"},
	} {
		r.Set("PUT", "e service", fmt.Sprintf(`[%s]`, v4.service("", tt.ip)))
		if s := r.server(tt.ip); s.State != "UNRESOLVED" || !strings.Contains(s.Reason, tt.reason) {
			t.Errorf("%s: %+v, want %q", what, s, tt.reason)
		}
		before := r.sessions("no-server")
		if out, _ := r.judged(r.segment(v4, 5000, syn)); out != passes || r.sessions("no-server") != before+1 {
			t.Errorf("%s: %+v, want %+v", what, out, passes)
		}
	}
}
