// SPDX-License-Identifier: Apache-2.0

package hairpin

// Packets for the router's address when the configuration changes, and with other cubes on the port.

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// fromPort returns the frame of a new connection to the forwarded port, and its result.
func fromPort(n uint16) (in, out []byte) {
	return fromTo(clientMAC, lanMAC, client, wan).TCP(n, 8080, syn).Bytes(),
		routed(fromTo(lanMAC, serverMAC, wan, server).TCP(n, 80, syn))
}

func (g *gateway) wantHairpin(name string, port uint16) {
	g.t.Helper()
	in, out := fromPort(port)
	g.steps(step{name, "veth1", in, "lan", out, ""})
}

func (g *gateway) wantOwn(name string, port uint16) {
	g.t.Helper()
	in, _ := fromPort(port)
	g.steps(own(name, "veth1", in))
}

func TestTheConfigurationDecides(t *testing.T) {
	each(t, bpftest.Options{}, func(g *gateway) {
		g.wantHairpin("a rule", 5000)
		g.Set("PATCH", "masq behaviour hairpin", "false")
		g.wantOwn("hairpin is off", 5001)
		g.Set("PATCH", "masq behaviour hairpin", "true")
		g.wantHairpin("hairpin is on", 5002)
		g.Detach("masq", "gw:wan")
		g.wantOwn("the nat is gone", 5003)
		g.Attach("masq", "gw:wan")
		g.wantHairpin("the nat is back", 5004)
		g.Set("DELETE", "masq rule port-forwarding entry 1", "")
		g.wantOwn("the rule is gone", 5005)
		g.Set("DELETE", "masq rule masquerade", "")
		g.Action("masq rule port-forwarding append", `{"external-ip":"`+wan+`","external-port":8080,"internal-ip":"`+server+`","internal-port":80}`)
		g.wantOwn("nothing translates sources", 5006)
	})
}

func TestTheAddressThatThePortHasCounts(t *testing.T) {
	each(t, bpftest.Options{}, func(g *gateway) {
		rule := func(address string) {
			g.Action("masq rule port-forwarding append", `{"external-ip":"`+address+`","external-port":8080,"internal-ip":"`+server+`","internal-port":80}`)
		}
		to := func(address string, port uint16) []byte {
			return fromTo(clientMAC, lanMAC, client, address).TCP(port, 8080, syn).Bytes()
		}
		rule("192.0.2.2")
		g.Set("POST", "gw ports wan secondaryip 192.0.2.2/24", "")
		g.steps(step{"a secondary address", "veth1", to("192.0.2.2", 6000), "lan", routed(fromTo(lanMAC, serverMAC, wan, server).TCP(6000, 80, syn)), ""})
		g.Restart(nil)
		g.steps(step{"behind a restart", "veth1", to("192.0.2.2", 6001), "lan", routed(fromTo(lanMAC, serverMAC, wan, server).TCP(6001, 80, syn)), ""})
		g.Set("DELETE", "gw ports wan secondaryip 192.0.2.2/24", "")
		// It is an address of the provider's network now, so the packet is sent there, and hairpinned on its
		// path.
		g.steps(step{name: "an address that the router has no more", in: "veth1", send: to("192.0.2.2", 6002), fate: "gw slowpath"})
		rule("10.0.3.1")
		g.steps(own("an address of a port without a nat", "veth1", to("10.0.3.1", 6003)))
	})
}

// TestOtherCubesOnThePort: cubes between the router and the nat see offered packets, and those outside do not.
func TestOtherCubesOnThePort(t *testing.T) {
	inEach(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("router", "gw", ports)
		l.Create("transparenthelloworld", "inner", "")
		l.Create("transparenthelloworld", "outer", `{"egress-action":"DROP","ingress-action":"DROP"}`)
		l.Attach("outer", "gw:wan")
		g := &gateway{l, t}
		g.wantOwn("nobody on the port takes offers", 7000)
		l.Detach("outer", "gw:wan")
		l.Attach("inner", "gw:wan")
		l.Create("nat", "masq", rules)
		l.Attach("masq", "gw:wan")
		l.Attach("outer", "gw:wan")
		netns.Eventually(t, bpftest.Patience, func() error { return g.masquerades(wan, wan6) })
		g.wantHairpin("what drops is further out", 7001)
		g.steps(own("another port is the router's", "veth1", fromTo(clientMAC, lanMAC, client, wan).TCP(7002, 22, syn).Bytes()))
		l.Set("PATCH", "inner egress-action", `"DROP"`)
		in, _ := fromPort(7003)
		g.steps(step{name: "what drops is in between", in: "veth1", send: in, fate: "inner egress-drop"})
	})
}

// TestOffersThatACubeSendsOn: the control plane of a cube between router and nat gets them, and sends them on; they
// remain offered.
func TestOffersThatACubeSendsOn(t *testing.T) {
	onWires(t, func(g *gateway, wires []*bpftest.Wire) {
		g.Detach("masq", "gw:wan")
		g.Create("transparenthelloworld", "th", `{"egress-action":"SLOWPATH","ingress-action":"SLOWPATH"}`)
		g.Attach("th", "gw:wan")
		g.Attach("masq", "gw:wan")
		netns.Eventually(g.t, bpftest.Patience, func() error { return g.masquerades(wan, wan6) })
		in, out := fromPort(8000)
		wires[0].Puts(in)
		wires[0].Gets(out)
		// A packet that no cube takes is delivered to the router, which answers, and does not leave.
		ping := fromTo(clientMAC, lanMAC, client, wan).Echo(7, 7).Payload(30).Bytes()
		wires[0].Puts(ping)
		reply := pkt.ICMPMessage(0, 0, binary.BigEndian.Uint32(ping[38:]), ping[42:])
		answer := fromTo(lanMAC, clientMAC, wan, client).Protocol(pkt.ProtoICMP).Data(reply).Bytes()
		if _, err := wires[0].Recv(func(f []byte) bool {
			return len(f) >= len(answer) && string(f[:14])+string(f[26:len(answer)]) == string(answer[:14])+string(answer[26:])
		}, bpftest.Patience); err != nil {
			g.t.Errorf("the router does not answer a ping: %v", err)
		}
		if got, err := wires[1].Recv(func(f []byte) bool { return f[12] == 8 && f[13] == 0 }, time.Millisecond); err == nil {
			g.t.Errorf("a packet left that was for the router: %x", got)
		}
		if n := g.Fates("th")["slowpath"]; n < 3 {
			g.t.Errorf("the cube in between saw %d packets, want two of the connection and the ping", n)
		}
	})
}

// TestAShadowCubeGetsItsPacketsWhereTheyCameIn: the namespace's interface is that of the port.
func TestAShadowCubeGetsItsPacketsWhereTheyCameIn(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Shadow: true})
	l.Create("router", "gw", strings.Replace(ports, "{", `{"shadow":true,`, 1))
	l.Create("nat", "masq", rules)
	l.Attach("masq", "gw:wan")
	g := &gateway{l, t}
	netns.Eventually(t, bpftest.Patience, func() error { return g.masquerades(wan, wan6) })
	g.wantHairpin("a rule", 9000)
	cmd := l.Within("gw", "timeout", "20", "tcpdump", "-n", "-l", "-e", "-c", "1", "-i", "lan", "tcp dst port 22")
	var heard strings.Builder
	cmd.Stdout = &heard
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	wire := l.Wires()[0]
	for began := time.Now(); ; {
		wire.Puts(fromTo(clientMAC, lanMAC, client, wan).TCP(9001, 22, pkt.TCPFlags{SYN: true}).Bytes())
		select {
		case err := <-done:
			if want := clientMAC + " > " + lanMAC; err != nil || !strings.Contains(heard.String(), want) {
				t.Errorf("the interface of the port has heard %q, want a frame of %s: %v", heard.String(), want, err)
			}
			return
		case <-time.After(50 * time.Millisecond):
		}
		if time.Since(began) > bpftest.Patience {
			_ = cmd.Process.Kill()
			t.Fatalf("the interface of the port hears nothing: %v", <-done)
		}
	}
}
