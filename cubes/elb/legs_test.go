// SPDX-License-Identifier: Apache-2.0

package elb_test

// A host with clients at one netdev and servers at another one.

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// The host has inner addresses on veth2, where servers are.
var (
	inner4 = ends{"10.0.1.1", "10.0.0.2", "10.0.1.11", "10.0.1.12", "10.0.1.99"}
	inner6 = ends{"fd01::1", "fd00::2", "fd01::11", "fd01::12", "fd01::99"}
)

// outputs are those that a cube at XDP needs.
const outputs = `"outputs":[{"number":1,"to":"veth1"},{"number":2,"to":"veth2"}]`

// newTwoLegs is a host with two netdevs, without the cube.
func newTwoLegs(t *testing.T, typ cube.Type) *rig {
	t.Helper()
	r := newHostOf(t, typ, 2)
	r.Lab.Lab.Run("sysctl", "-qw", "net.ipv6.conf.veth2.disable_ipv6=0", "net.ipv6.conf.veth2.accept_dad=0")
	r.Lab.Lab.Run("ip", "addr", "add", inner4.vip+"/24", "dev", "veth2")
	r.Lab.Lab.Run("ip", "addr", "add", inner6.vip+"/64", "dev", "veth2", "nodad")
	return r
}

// legsOf is the configuration of services whose servers are behind veth2.
func legsOf(more string) string {
	one := func(vip string, e ends) string {
		return strings.Replace(e.service("", e.server), `"`+e.vip+`"`, `"`+vip+`"`, 1)
	}
	return fmt.Sprintf(`{"service":[%s,%s]%s}`, one(v4.vip, inner4), one(v6.vip, inner6), more)
}

// newTwoLegged is one with the cube at `host`, and neighbours that it knows.
func newTwoLegged(t *testing.T, typ cube.Type, more string) *rig {
	t.Helper()
	r := newTwoLegs(t, typ)
	for address, mac := range map[string]string{v4.client: clientMAC, v6.client: clientMAC} {
		r.Lab.Lab.Run("ip", "neigh", "replace", address, "lladdr", mac, "dev", "veth1", "nud", "permanent")
	}
	for _, e := range []ends{inner4, inner6} {
		r.Lab.Lab.Run("ip", "neigh", "replace", e.server, "lladdr", serverMAC, "dev", "veth2", "nud", "permanent")
	}
	r.Create("elb", "e", legsOf(more))
	r.Attach("e", "host")
	r.settled()
	return r
}

// redirected is the outcome of a frame that leaves by another netdev.
var redirected = bpftest.Outcome{Verdict: "send", Fate: "e redirected"}

// judgedAt runs a frame on a netdev, as judged does on the first one.
func (r *rig) judgedAt(dev string, frame []byte) (bpftest.Outcome, []byte) {
	r.t.Helper()
	out, got := r.RunBytes(dev, bytes.Clone(frame))
	var fates []string
	for _, fate := range strings.Split(out.Fate, ", ") {
		if !strings.HasPrefix(fate, "e pass") {
			fates = append(fates, fate)
		}
	}
	if out.Fate = strings.Join(fates, ", "); out.Fate == "" {
		out.Fate = "e pass"
	}
	return out, got
}

func TestClientsAndServersAreBehindTwoNetdevs(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			r := newTwoLegged(t, typ, ","+outputs)
			inside := r.Hosts[1].OuterMAC.String()
			for i, e := range []ends{v4, v6} {
				in := []ends{inner4, inner6}[i]
				out, got := r.judgedAt("veth1", r.segment(e, 5000, syn))
				if out != redirected {
					t.Fatalf("SYN: %+v, want %+v; %s", out, redirected, r.Read("e"))
				}
				port := source(got)
				if want := pkt.Hop(frame(inside, serverMAC, in.vip, in.server).TCP(port, 8080, syn).Payload(6).Bytes()); !bytes.Equal(got, want) {
					t.Errorf("SYN\n got %x\nwant %x", got, want)
				}
				reply := frame(serverMAC, inside, in.server, in.vip).TCP(8080, port, synAck).Payload(8).Bytes()
				out, got = r.judgedAt("veth2", reply)
				if want := pkt.Hop(frame(r.mac, clientMAC, e.vip, e.client).TCP(80, 5000, synAck).Payload(8).Bytes()); out != redirected || !bytes.Equal(got, want) {
					t.Errorf("reply: %+v\n got %x\nwant %x", out, got, want)
				}
				// An error for the reply comes from the netdev of the client, and goes to the server.
				out, got = r.judgedAt("veth1", tooBig(clientMAC, r.mac, e.router, e.vip, got))
				if want := pkt.Hop(tooBig(inside, serverMAC, in.vip, in.server, pkt.Hop(reply))); out != redirected || !bytes.Equal(got, want) {
					t.Errorf("error: %+v\n got %x\nwant %x", out, got, want)
				}
				// The client's packets now come from the netdev of the servers: replies follow.
				if out, _ = r.judgedAt("veth2", frame(otherMAC, inside, e.client, e.vip).TCP(5000, 80, ack).Bytes()); out != replies {
					t.Errorf("a segment of the client from the other netdev: %+v, want %+v", out, replies)
				}
				if out, got = r.judgedAt("veth2", reply); out != replies || !bytes.Equal(got[:6], pkt.MAC(otherMAC)) {
					t.Errorf("the reply to it: %+v, to %x, want %+v, to %s", out, got[:6], replies, otherMAC)
				}
			}
		})
	}
}

func TestSYNsThatCannotCrossAreForTheStack(t *testing.T) {
	for typ, without := range map[cube.Type]bool{cube.TypeTC: false, cube.TypeXDPDRV: true} {
		t.Run(string(typ), func(t *testing.T) {
			r := newTwoLegged(t, typ, "")
			want, no := redirected, uint64(0)
			if without { // outputs, which only XDP needs
				want, no = passes, 1
			}
			if out, _ := r.judgedAt("veth1", r.segment(v4, 5000, syn)); out != want || r.sessions("no-output") != no {
				t.Errorf("without outputs: %+v, want %+v; %s", out, want, r.Read("e sessions"))
			}
			r.Set("PUT", "e outputs", `[{"number":1,"to":"veth1"},{"number":2,"to":"veth2"}]`)
			if out, _ := r.judgedAt("veth1", r.segment(v4, 5001, syn)); out != redirected {
				t.Errorf("with outputs: %+v, want %+v", out, redirected)
			}
			r.Lab.Lab.Run("ip", "link", "set", "veth2", "mtu", "1400")
			port := uint16(6000)
			netns.Eventually(t, bpftest.Patience, func() error {
				port++
				if out, _ := r.judgedAt("veth1", r.segment(v4, port, syn)); out != passes {
					return fmt.Errorf("with another MTU: %+v, want %+v", out, passes)
				}
				return nil
			})
			if r.sessions("mtu") == 0 {
				t.Error("the SYN does not count as `mtu`")
			}
			r.Lab.Lab.Run("ip", "link", "del", "veth2")
			netns.Eventually(t, bpftest.Patience, func() error {
				if out, _ := r.judgedAt("veth1", r.segment(v4, 5001, ack)); out != (bpftest.Outcome{Verdict: "drop", Fate: "e no-output"}) {
					return fmt.Errorf("without the netdev of the servers: %+v", out)
				}
				return nil
			})
			netns.Eventually(t, bpftest.Patience, func() error {
				if s := r.server(inner4.server); s.State != "UNRESOLVED" || !strings.Contains(s.Reason, "no route") {
					return fmt.Errorf("the server is %+v", s)
				}
				return nil
			})
		})
	}
}

func TestGenericXDPIsForOneNetdev(t *testing.T) {
	r := newTwoLegs(t, cube.TypeXDPSKB)
	r.Create("elb", "e", legsOf(""))
	if err := r.TryAttach("e", "host"); err == nil || !strings.Contains(err.Error(), "XDP_SKB") {
		t.Errorf("attached to host: %v, want an error about XDP_SKB", err)
	}
	r.Attach("e", "veth1")
	if s := r.server(inner4.server); s.State != "UNRESOLVED" || !strings.Contains(s.Reason, "attach it to `host`") {
		t.Errorf("the server is %+v, want it to be UNRESOLVED", s)
	}
}

// twoLegs is HAProxy's configuration; %s are its socket, lines, and a pool.
const twoLegs = `global
  stats socket %s mode 600
defaults
  mode tcp
  timeout connect 5s
  timeout client 1h
  timeout server 1h
frontend web
  bind 10.0.0.1:80
%s  default_backend app
backend app
  balance roundrobin
  server s1 10.0.1.11:8080 check inter 200ms
  server s2 10.0.1.12:8080 check inter 200ms
frontend app6
  bind [fd00::1]:81
  default_backend app6
backend app6
  server six [fd01::11]:8080
`

// writeTwoLegs writes it, with lines of the frontend.
func (s *site) writeTwoLegs(lines string) {
	s.t.Helper()
	text := fmt.Sprintf(twoLegs, s.socket(), lines)
	if err := errors.Join(os.WriteFile(s.file()+".new", []byte(text), 0o600), os.Rename(s.file()+".new", s.file())); err != nil {
		s.t.Fatal(err)
	}
}

// newTwoLeggedSite is a host with HAProxy between a network of clients and one of servers.
func newTwoLeggedSite(t *testing.T, typ cube.Type) *site {
	t.Helper()
	if _, err := exec.LookPath("haproxy"); err != nil {
		t.Skip("haproxy is not installed: there are no frontends to take over")
	}
	s := &site{rig: newTwoLegs(t, typ), dir: t.TempDir()}
	for i, all := range [][]string{{v4.client + "/24", v6.client + "/64"}, {inner4.server + "/24", inner4.other + "/24", inner6.server + "/64"}} {
		s.Hosts[i].Run("ip", "link", "set", "lo", "up")
		for _, a := range all {
			args := []string{"addr", "add", a, "dev", netns.Inner}
			if strings.Contains(a, ":") {
				args = append(args, "nodad")
			}
			s.Hosts[i].Run("ip", args...)
		}
	}
	for _, a := range []string{inner4.server, inner4.other, inner6.server} {
		s.echoAt(s.Hosts[1], a)
	}
	return s
}

func TestHAProxyBetweenTwoNetdevsIsTakenOver(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) { takeoverBetween(t, newTwoLeggedSite(t, typ)) })
	}
}

func takeoverBetween(t *testing.T, s *site) {
	const to, to6 = "10.0.0.1:80", "[fd00::1]:81"
	s.writeTwoLegs("")
	s.run()
	old := s.dial(to)
	old.during("the cube begins", func() {
		s.Create("elb", "e", fmt.Sprintf(`{%s,"haproxy":{"file":[%q],"stats-socket":%q}}`, outputs, s.file(), s.socket()))
		s.Attach("e", "host")
		s.takenOver("web", true)
		s.takenOver("app6", true)
		s.settled()
	})
	first, second, six := s.dial(to), s.dial(to), s.dial(to6)
	for _, c := range []*conn{first, second, six} {
		if c.works("after the takeover"); !c.fast() {
			t.Errorf("source port %d after the takeover", c.port)
		}
	}
	if first.source != inner4.vip || six.source != inner6.vip || first.server == second.server {
		t.Errorf("servers %s and %s see %s and %s, want two that see %s and %s", first.server, second.server, first.source, six.source, inner4.vip, inner6.vip)
	}
	if n := s.through(); n != 1 {
		t.Errorf("HAProxy has opened %d connections, want 1", n)
	}

	first.during("HAProxy is killed", func() { s.kill(s.master) })
	if c := s.dial(to); !c.fast() {
		t.Errorf("source port %d without HAProxy", c.port)
	}
	s.run()
	second.during("the frontend is given back", func() {
		s.writeTwoLegs("  tcp-request content accept\n")
		if err := s.master.Process.Signal(syscall.SIGUSR2); err != nil {
			t.Error(err)
		}
		s.takenOver("web", false)
		if c := s.dial(to); c.fast() {
			t.Errorf("source port %d after the frontend was given back", c.port)
		}
	})
	six.works("a session of another frontend")
}
