// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/efw"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The outcomes of a frame.
var (
	passes  = bpftest.Outcome{Verdict: "pass", Fate: "f pass"}
	byRule  = bpftest.Outcome{Verdict: "drop", Fate: "f rule"}
	byEnd   = bpftest.Outcome{Verdict: "drop", Fate: "f policy"}
	blocked = bpftest.Outcome{Verdict: "drop", Fate: "f blocked"}
	leaves  = bpftest.Outcome{Verdict: "send", Fate: "f redirected"}
)

const someRules = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:web - [0:0]
-A INPUT -p udp --dport 53 -j DROP
-A FORWARD -s 10.0.1.0/24
-A FORWARD -p tcp -j web
-A FORWARD -p udp --dport 1000:1999 -m limit --limit 1/s -j ACCEPT
-A FORWARD -p udp --dport 2000:2999 -o veth2 -j ACCEPT
-A web -p tcp --dport 80 -j ACCEPT
-A web -p tcp --dport 81 -j DROP
COMMIT
`

func TestRulesAreCarriedOut(t *testing.T) {
	needIptables(t)
	for _, program := range []string{"iptables-legacy", "iptables-nft"} {
		for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
			t.Run(program+"/"+string(typ), func(t *testing.T) { carriedOut(t, newRouter(t, typ, toServers), program, true) })
		}
		t.Run(program+"/XDP without outputs", func(t *testing.T) { carriedOut(t, newRouter(t, cube.TypeXDPSKB, `{}`), program, false) })
	}
}

// toServers has the way out as an output, without which no packet is forwarded at XDP.
const toServers = `{"outputs":[{"number":3,"to":"veth2"}]}`

func carriedOut(t *testing.T, r *router, program string, forwards bool) {
	r.changed("--dport 81", func() { r.restore(program, someRules) })
	from, to := r.mac()
	ip := func(destination string) *pkt.Frame { return pkt.Eth(from, to).IPv4(client, destination) }
	accepted := leaves
	if !forwards {
		accepted = passes
	}
	for _, tt := range []struct {
		what  string
		frame *pkt.Frame
		want  bpftest.Outcome
	}{
		{"accepted in a chain", ip(server).TCP(1, 80, pkt.TCPFlags{SYN: true}), accepted},
		{"dropped in a chain", ip(server).TCP(1, 81, pkt.TCPFlags{SYN: true}), byRule},
		{"dropped by the policy", ip(server).UDP(1, 82), byEnd},
		{"accepted by the netdev of the way out", ip(server).UDP(1, 2082), accepted},
		{"a rule that the fast path cannot evaluate may match", ip(server).UDP(1, 1082), passes},
		{"dropped for the host", ip(host).UDP(1, 53), byRule},
		{"accepted for the host", ip(host).UDP(1, 54), passes},
		{"for another station", pkt.Eth(from, "02:00:00:00:00:99").IPv4(client, server).UDP(1, 82), passes},
		{"from an address of the host", pkt.Eth(from, to).IPv4(host, server).UDP(1, 82), passes},
		{"IPv6 has no rules", pkt.Eth(from, to).IPv6(client6, server6).UDP(1, 82), passes},
		{"a tag", pkt.Eth(from, to).VLAN(5).IPv4(client, server).UDP(1, 82), passes},
	} {
		got, frame := r.judged(tt.frame.Bytes())
		if r.Type == cube.TypeTC && strings.HasPrefix(tt.what, "for another station") {
			continue // a test run at TC has no type of packet
		}
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.what, got, tt.want)
		}
		if got == leaves && (frame[22] != 63 || string(frame[:6]) != string(r.Hosts[1].MAC)) {
			t.Errorf("%s: the frame is %x", tt.what, frame)
		}
	}
	want := map[string]uint64{"web 2": 1, "FORWARD 0": 1, "INPUT 1": 1, "web 1": 1, "FORWARD 4": 1, "FORWARD 2": 2, "FORWARD 1": 4}
	if !forwards {
		want["web 1"], want["FORWARD 4"], want["FORWARD 2"], want["FORWARD 1"] = 0, 0, 1, 2
	}
	for _, l := range r.report() {
		name := fmt.Sprint(l.Chain, " ", l.Number)
		if l.Hook == l.Chain || l.Hook == "FORWARD" {
			if l.Family == "IPV4" && l.Packets != want[name] {
				t.Errorf("%s has counted %d packets, want %d", name, l.Packets, want[name])
			}
		}
	}
}

// TestRulesAreOffloadedByAFilter: on kernels before 6.6, a program at TC is a filter, as those of others may be.
func TestRulesAreOffloadedByAFilter(t *testing.T) {
	needIptables(t)
	carriedOut(t, newRouter(t, cube.TypeTC, `{}`, func(o *bpftest.Options) { o.Clsact = true }), "iptables-nft", true)
}

// TestAFilterOfClassicBPFIsOfOthers: it has no program ID.
func TestAFilterOfClassicBPFIsOfOthers(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	r.changed("--dport 81", func() { r.restore("iptables-nft", someRules) })
	r.Lab.Lab.Run("tc", "qdisc", "add", "dev", "veth1", "clsact")
	r.Lab.Lab.Run("tc", "filter", "add", "dev", "veth1", "ingress", "bpf", "da", "bytecode", "1,6 0 0 4294967295,")
	netns.Eventually(t, bpftest.Patience, func() error {
		if is := r.Read("f environment"); !strings.Contains(is, "a tc filter of type bpf") {
			return fmt.Errorf("the filter is not reported: %s", is)
		}
		return nil
	})
}

// TestWhatXDPWouldSkipKeepsRulesInTheStack: a queue with a rate at an output, which packets that are redirected at XDP do not meet.
func TestWhatXDPWouldSkipKeepsRulesInTheStack(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeXDPSKB, toServers)
	r.changed("--dport 81", func() { r.restore("iptables-nft", someRules) })
	from, to := r.mac()
	frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 2082).Bytes()
	if got, _ := r.judged(frame); got != leaves {
		t.Errorf("without a queue: %+v, want %+v", got, leaves)
	}
	// because waits until the rule that accepts the frame is left to the stack for a reason.
	because := func(why string) {
		t.Helper()
		netns.Eventually(t, bpftest.Patience, func() error {
			for _, l := range r.report() {
				if l.Family == "IPV4" && l.Chain == "FORWARD" && l.Number == 4 && l.Offloaded == "NO" && strings.Contains(l.Reason, why) {
					return nil
				}
			}
			return fmt.Errorf("no reason has %q: %s", why, r.Read("f report"))
		})
		r.settled()
		if got, _ := r.judged(frame); got != passes {
			t.Errorf("%s: %+v, want %+v", why, got, passes)
		}
	}
	r.Lab.Lab.Run("tc", "qdisc", "add", "dev", "veth2", "root", "tbf", "rate", "1gbit", "burst", "1mb", "latency", "10ms")
	because("qdisc tbf on veth2")
	r.Set("DELETE", "f outputs 3", "")
	because("the cube has none")
}

func TestOtherChainsKeepRulesInTheStack(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	r.changed("--dport 81", func() { r.restore("iptables-nft", someRules) })
	from, to := r.mac()
	dropped := pkt.Eth(from, to).IPv4(client, server).TCP(1, 81, pkt.TCPFlags{SYN: true}).Bytes()
	accepted := pkt.Eth(from, to).IPv4(client, server).TCP(1, 80, pkt.TCPFlags{SYN: true}).Bytes()
	for _, tt := range []struct {
		what, do, undo string
		drop, accept   bpftest.Outcome
	}{
		{"a chain of nftables in front", "nft add table ip x; nft add chain ip x c '{ type filter hook prerouting priority -5; }'; nft add rule ip x c udp dport 9 drop", "nft delete table ip x", passes, passes},
		{"a chain of nftables behind", "nft add table ip x; nft add chain ip x c '{ type filter hook postrouting priority 5; }'; nft add rule ip x c udp dport 9 drop", "nft delete table ip x", byRule, passes},
		{"the reverse path is checked", "sysctl -qw net.ipv4.conf.veth1.rp_filter=1", "sysctl -qw net.ipv4.conf.veth1.rp_filter=0", byRule, passes},
		{"xfrm policies", "ip xfrm policy add src 192.0.2.1 dst 192.0.2.2 dir fwd", "ip xfrm policy del src 192.0.2.1 dst 192.0.2.2 dir fwd", byRule, passes},
		{"two firewalls", "iptables-legacy -A FORWARD -j ACCEPT", "iptables-legacy -F FORWARD", passes, passes},
		{"a macvlan may take packets", "ip link add mv0 link veth1 type macvlan", "ip link del mv0", passes, passes},
		{"a bridge takes packets", "ip link add br0 type bridge; ip link set veth1 master br0", "ip link set veth1 nomaster; ip link del br0", passes, passes},
		{"nothing is forwarded", "sysctl -qw net.ipv4.ip_forward=0", "sysctl -qw net.ipv4.ip_forward=1", passes, passes},
	} {
		check := func(when string, drop, accept bpftest.Outcome) {
			netns.Eventually(t, bpftest.Patience, func() error {
				d, _ := r.RunBytes("veth1", dropped)
				a, _ := r.RunBytes("veth1", accepted)
				if d != drop || a != accept {
					return fmt.Errorf("%s, %s: got %+v and %+v, want %+v and %+v: %s", tt.what, when, d, a, drop, accept, r.Read("f environment"))
				}
				return nil
			})
		}
		r.Lab.Lab.Run("sh", "-c", tt.do)
		check("after", tt.drop, tt.accept)
		if tt.what == "nothing is forwarded" {
			continue
		}
		r.Lab.Lab.Run("sh", "-c", tt.undo)
		check("undone", byRule, leaves)
	}
}

// TestRulesOfAHostThatForwardsNothing: such a host has rules for itself, as most servers do.
func TestRulesOfAHostThatForwardsNothing(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			r := newRouter(t, typ, `{}`)
			r.Lab.Lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=0", "net.ipv6.conf.all.forwarding=0")
			for _, program := range []string{"iptables-nft", "ip6tables-nft"} {
				r.changed("--dport 81", func() { r.restore(program, "*filter\n-A INPUT -p tcp --dport 81 -j DROP\nCOMMIT\n") })
			}
			from, to := r.mac()
			for _, f := range []*pkt.Frame{pkt.Eth(from, to).IPv4(client, host), pkt.Eth(from, to).IPv6(client6, host6)} {
				if got, _ := r.judged(f.TCP(1, 81, pkt.TCPFlags{SYN: true}).Bytes()); got != byRule {
					t.Errorf("to the host: %+v, want %+v", got, byRule)
				}
			}
			for _, f := range []*pkt.Frame{pkt.Eth(from, to).IPv4(client, server), pkt.Eth(from, to).IPv6(client6, server6)} {
				if got, _ := r.judged(f.TCP(1, 81, pkt.TCPFlags{SYN: true}).Bytes()); got != passes {
					t.Errorf("to another host: %+v, want %+v", got, passes)
				}
			}
		})
	}
}

func TestConnectionsStayInTheStack(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		r := newRouter(t, typ, `{}`)
		r.changed("--dport 24", func() {
			r.restore("iptables-nft", "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"+
				"-A FORWARD -p tcp --dport 23 -j DROP\n-A FORWARD -p tcp --dport 24 -m conntrack --ctstate NEW -j DROP\nCOMMIT\n")
		})
		from, to := r.mac()
		syn, ack := pkt.TCPFlags{SYN: true}, pkt.TCPFlags{ACK: true}
		ip := func() *pkt.Frame { return pkt.Eth(from, to).IPv4(client, server) }
		wrong := ip().TCP(1, 23, syn).Bytes()
		wrong[50] ^= 1 // the checksum
		run := func(what string, frame []byte, want bpftest.Outcome) {
			t.Helper()
			if got, _ := r.judged(frame); got != want {
				t.Errorf("%s %s: got %+v, want %+v", typ, what, got, want)
			}
		}
		run("a new connection", ip().TCP(1, 23, syn).Bytes(), byRule)
		run("a new connection, by its state", ip().TCP(1, 24, syn).Bytes(), byRule)
		run("a new connection that is accepted", ip().TCP(1, 25, syn).Bytes(), passes)
		run("a wrong checksum", wrong, passes)
		run("no SYN", ip().TCP(1, 23, ack).Bytes(), passes)
		run("UDP, whose checksum is not looked at", ip().UDP(1, 23).Bytes(), passes)
		run("a SYN over IPv6, which has no rules", pkt.Eth(from, to).IPv6(client6, server6).TCP(1, 23, syn).Bytes(), passes)
		// A connection that the kernel knows.
		r.Lab.Lab.Run("iptables-nft", "-I", "FORWARD", "-p", "tcp", "--sport", "77", "-j", "ACCEPT")
		r.settled()
		r.pin()
		r.send([][]byte{ip().TCP(77, 23, syn).Bytes()})
		r.Lab.Lab.Run("iptables-nft", "-D", "FORWARD", "-p", "tcp", "--sport", "77", "-j", "ACCEPT")
		r.settled()
		run("a known connection", ip().TCP(77, 23, syn).Bytes(), passes)
		run("another one", ip().TCP(78, 23, syn).Bytes(), byRule)
	}
}

func TestMatchersComeFirst(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		r := newRouter(t, typ, `{"port":[{"protocol":"TCP","direction":"DESTINATION","ports":"80-90","action":"ALLOW"},{"protocol":"UDP","direction":"SOURCE","ports":53,"action":"BLOCK"}],
			"subnet":[{"direction":"SOURCE","prefix":"10.0.1.0/30","action":"BLOCK"},{"direction":"DESTINATION","prefix":"fd00:2::/64","action":"BLOCK"},{"direction":"SOURCE","prefix":"10.0.1.3","action":"PASS"}]}`)
		from, to := r.mac()
		allowed := leaves
		if typ != cube.TypeTC {
			allowed = passes
		}
		tcp := pkt.Eth(from, to).IPv4(client, server).TCP(1, 85, pkt.TCPFlags{SYN: true}).Bytes()
		udp := pkt.Eth(from, to).IPv4("10.0.1.9", server).UDP(53, 1).Bytes()
		pass := pkt.Eth(from, to).IPv4("10.0.1.3", server).UDP(53, 1).Bytes()
		both := pkt.Eth(from, to).IPv4("10.0.1.3", server).TCP(1, 85, pkt.TCPFlags{SYN: true}).Bytes()
		v6 := pkt.Eth(from, to).IPv6(client6, server6).UDP(1, 2).Bytes()
		for _, tt := range []struct {
			order                            string
			wantTCP, wantUDP, want, wantBoth bpftest.Outcome
		}{
			{"PORT_FIRST", allowed, blocked, passes, allowed}, {"SUBNET_FIRST", allowed, blocked, passes, passes},
			{"BLOCK_FIRST", blocked, blocked, blocked, blocked},
		} {
			r.Set("PATCH", "f order", fmt.Sprintf("%q", tt.order))
			r.open()
			for what, one := range map[string]struct {
				frame []byte
				want  bpftest.Outcome
			}{"tcp": {tcp, tt.wantTCP}, "udp": {udp, tt.wantUDP}, "pass": {pass, tt.want}, "both": {both, tt.wantBoth}, "IPv6": {v6, blocked}} {
				if got, _ := r.judged(one.frame); got != one.want {
					t.Errorf("%s %s %s: got %+v, want %+v", typ, tt.order, what, got, one.want)
				}
			}
		}
		r.Set("PATCH", "f order", `"PORT_FIRST"`)
		if got := r.Read("f port TCP DESTINATION 80-90 packets"); got != "3" {
			t.Errorf("the matcher has counted %s packets, want 3", got)
		}
		for _, bad := range []string{`{"action":"BLOCK","prefix":"10.0.0.1/8","direction":"SOURCE"}`, `{"action":"DENY","prefix":"10.0.0.0/8","direction":"SOURCE"}`} {
			if err := r.Try("POST", "f subnet SOURCE 10.0.0.0/8", bad); err == nil {
				t.Errorf("%s is accepted", bad)
			}
		}
	}
}

func TestRulesThatChangeAllTheTime(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 82).Bytes()
	was := r.status()
	r.Lab.Lab.Run("sh", "-c", `for i in $(seq 100); do iptables-nft -A FORWARD -p udp --dport 82 -j DROP; iptables-nft -D FORWARD -p udp --dport 82 -j DROP; done`)
	r.settled()
	if got, _ := r.judged(frame); got != leaves {
		t.Errorf("after all changes: got %+v, want %+v", got, leaves)
	}
	if s := r.status(); s.Changes < was.Changes+100 || s.Error != "" {
		t.Errorf("%d changes were noticed, want 100 at least: %s", s.Changes-was.Changes, s.Error)
	}
	r.changed("-p udp -j DROP", func() { r.Lab.Lab.Run("iptables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "DROP") })
	if got, _ := r.judged(frame); got != byRule {
		t.Errorf("after a change of iptables-legacy: got %+v, want %+v", got, byRule)
	}
	s := r.status()
	t.Logf("withdrawn within %d µs of the notice, in effect %d µs later", s.LastWithdrawal, s.LastCompile)
}

func TestARestartedDaemonReadsTheRulesAnew(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 82).Bytes()
	r.changed("policy DROP", func() { r.restore("iptables-nft", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n") })
	if got, _ := r.judged(frame); got != byEnd {
		t.Fatalf("got %+v, want %+v", got, byEnd)
	}
	r.Restart(func() { r.restore("iptables-nft", "*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n") })
	r.open()
	if got, _ := r.judged(frame); got != leaves {
		t.Errorf("after the restart: got %+v, want %+v", got, leaves)
	}
	// A daemon that does nothing any more does not renew the gate. This one does, twice a second.
	verdict := func(want bpftest.Outcome) error {
		if got, _ := r.RunBytes("veth1", frame); got != want {
			return fmt.Errorf("got %+v, want %+v", got, want)
		}
		return nil
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if err := r.Map("f", "gate").Put(uint32(0), append([]byte{1}, make([]byte, 23)...)); err != nil { // 1 ns after the start of the machine
			return err
		}
		return verdict(passes)
	})
	netns.Eventually(t, bpftest.Patience, func() error { return verdict(leaves) })
	r.Set("PATCH", "f offload", "false")
	if got, _ := r.RunBytes("veth1", frame); got != passes {
		t.Errorf("without offloading: got %+v, want %+v", got, passes)
	}
	r.Set("PATCH", "f offload", "true")
	r.settled()
	if got, _ := r.judged(frame); got != leaves {
		t.Errorf("with offloading: got %+v, want %+v", got, leaves)
	}
}

func TestCountersOutliveTheDaemon(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	frame := pkt.Eth(from, to).IPv4(client, server).UDP(1, 82).Bytes()
	r.changed("policy DROP", func() { r.restore("iptables-nft", "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n") })
	for range 2 {
		if got, _ := r.judged(frame); got != byEnd {
			t.Fatalf("got %+v, want %+v", got, byEnd)
		}
		r.Restart(nil)
		r.open()
	}
	if got := r.report()[1]; got.Chain != "FORWARD" || got.Packets != 2 {
		t.Errorf("the policy has counted %+v, want 2 packets of both daemons", got)
	}
}

func TestNothingIsLookedAtWithoutOffloading(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	r.changed("-p udp -j DROP", func() { r.Lab.Lab.Run("iptables-legacy", "-A", "FORWARD", "-p", "udp", "-j", "DROP") })
	r.Set("PATCH", "f offload", "false")
	netns.Eventually(t, bpftest.Patience, func() error {
		if rules := r.report(); len(rules) > 0 {
			return fmt.Errorf("there are rules in effect: %+v", rules)
		}
		return nil
	})
	netns.Eventually(t, bpftest.Patience, func() error {
		if n := efw.Asked(); n > 0 {
			return fmt.Errorf("the tables of %d hosts are looked at", n)
		}
		return nil
	})
	was := r.status().Changes
	r.Lab.Lab.Run("iptables-legacy", "-F", "FORWARD")
	r.Lab.Lab.Run("iptables-nft", "-A", "FORWARD", "-p", "udp", "--dport", "7", "-j", "DROP") // what is announced still counts
	netns.Eventually(t, bpftest.Patience, func() error {
		if r.status().Changes == was {
			return errors.New("the announcement of a change is not noticed")
		}
		return nil
	})
	r.Set("PATCH", "f offload", "true")
	r.changed("--dport 7", func() {})
	from, to := r.mac()
	if got, _ := r.judged(pkt.Eth(from, to).IPv4(client, server).UDP(1, 7).Bytes()); got != byRule {
		t.Errorf("by the rule that was added meanwhile: got %+v, want %+v", got, byRule)
	}
	if got, _ := r.judged(pkt.Eth(from, to).IPv4(client, server).UDP(1, 8).Bytes()); got != leaves {
		t.Errorf("by the rule that was deleted meanwhile: got %+v, want %+v", got, leaves)
	}
}

func TestPacketsFromAddressesOfTheHostStayInTheStack(t *testing.T) {
	needIptables(t)
	r := newRouter(t, cube.TypeTC, `{}`)
	from, to := r.mac()
	for _, program := range []string{"iptables-nft", "ip6tables-nft"} {
		r.changed("--dport 9", func() { r.Lab.Lab.Run(program, "-A", "FORWARD", "-p", "udp", "--dport", "9", "-j", "DROP") })
	}
	judge := func(v6 bool, source string, want bpftest.Outcome) {
		t.Helper()
		is := pkt.Eth(from, to)
		if v6 {
			is = is.IPv6(source, server6)
		} else {
			is = is.IPv4(source, server)
		}
		frame := is.UDP(1, 9).Bytes()
		netns.Eventually(t, bpftest.Patience, func() error { // addresses are announced
			if got, _ := r.judged(frame); got != want {
				return fmt.Errorf("from %s: got %+v, want %+v", source, got, want)
			}
			return nil
		})
	}
	for i := range 6 {
		v4, v6 := fmt.Sprintf("10.77.%d.%d", i, 255-i), fmt.Sprintf("fd00:77::%x:%x", 7*i+1, i)
		judge(false, v4, byRule)
		judge(true, v6, byRule)
		r.Lab.Lab.Run("ip", "addr", "add", v4+"/32", "dev", "veth2")
		r.Lab.Lab.Run("ip", "addr", "add", v6+"/128", "dev", "veth2", "nodad")
		judge(false, v4, passes)
		judge(true, v6, passes)
	}
	judge(false, "10.0.2.1", passes)
	judge(true, "fd00:2::1", passes)
	for _, source := range []string{"127.0.0.1", "224.0.0.1", "255.255.255.255"} {
		judge(false, source, passes)
	}
	judge(true, "ff02::1", passes)
	for i := range 6 {
		v4 := fmt.Sprintf("10.77.%d.%d", i, 255-i)
		r.Lab.Lab.Run("ip", "addr", "del", v4+"/32", "dev", "veth2")
		judge(false, v4, byRule)
	}
}
