// SPDX-License-Identifier: Apache-2.0

package upf_test

// Network instances: local addresses with TEIDs of their own.

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const (
	gatewayN9, gatewayN9v6 = "192.0.3.1", "2001:db8:9::1"
	phone2                 = "10.1.0.2"
)

// withN9 adds the local addresses of a network instance n9.
func (c *core) withN9() {
	for _, address := range []string{gatewayN9, gatewayN9v6} {
		c.Set("POST", "u local-address "+address, `{"network-instance":"n9"}`)
	}
}

// inN9 is a session of another phone with the TEIDs of session, in n9.
func inN9() *pdusession.Session {
	s := session()
	s.IPv4, s.IPv6 = addr(phone2), netip.Prefix{}
	s.Rules[0].Instance = "n9"
	s.Rules[1].Forward.Peer, s.Rules[1].Forward.Instance = addr(anchor), "n9"
	return s
}

// to is a packet in a tunnel to a local address, from a base station or another user plane function.
func to(local string, teid uint32, packet []byte) []byte {
	from := anchor
	if strings.Contains(local, ":") {
		from = station6
	}
	return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(from, local, gtpu.Message{Type: gtpu.PDU, TEID: teid, Payload: packet}))
}

func TestNetworkInstancesHaveTEIDsOfTheirOwn(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		c.put(nil, session())
		c.withN9()
		rows := c.put(nil, inN9())
		from := func(phone string) []byte {
			return mobile.Datagram(phone, server, 1000, 53, []byte("long enough for Linux 6.1"), 0)
		}
		one, two := from(phone), from(phone2)
		passes := func(what, local string, packet []byte) {
			t.Helper()
			if got := c.fate(what, "veth1", to(local, 257, packet), "p2"); !bytes.Equal(got[14:], packet) {
				t.Errorf("%s:\n got %x\nwant %x", what, got[14:], packet)
			}
		}
		source := func(phone, want string) {
			t.Helper()
			is, err := mobile.ReadTunnel(c.fate(phone, "veth2", network(mobile.Datagram(server, phone, 53, 1000, nil, 0)), "p1"))
			if err != nil || is.From != addr(want) || is.Message.TEID != 1025 {
				t.Errorf("the tunnel to %s: %+v, %v, want it from %s", phone, is, err, want)
			}
		}
		check := func() {
			t.Helper()
			for _, local := range []string{gateway, gateway6} {
				passes("without a name", local, one)
				c.fate("the phone of n9", "veth1", to(local, 257, two), "spoofed-source")
			}
			for _, local := range []string{gatewayN9, gatewayN9v6} {
				passes("in n9", local, two)
				c.fate("the phone without a name", "veth1", to(local, 257, one), "spoofed-source")
			}
			c.fate("no local address", "veth1", to("192.0.3.2", 257, two), "p2")
			source(phone, gateway)
			source(phone2, gatewayN9)
		}
		check()
		c.Restart(nil)
		check()

		s := inN9()
		s.Rules[0].TEID, s.Rules[1].Forward.Peer = 300, addr(station6)
		rows = c.put(rows, s)
		source(phone2, gatewayN9v6)
		c.fate("a TEID of n9 alone", "veth1", to(gateway, 300, two), "slowpath")
		c.fate("a TEID that n9 had", "veth1", to(gatewayN9, 257, two), "slowpath")
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Read("u messages error-indications-sent"); n != "2" {
				return fmt.Errorf("%s Error Indications are sent, want 2", n)
			}
			return nil
		})

		// Addresses of n9 go, and sessions stay: their packets have no address to be sent from.
		for _, address := range []string{gatewayN9, gatewayN9v6} {
			c.Set("DELETE", "u local-address "+address, "")
		}
		c.fate("no local address any more", "veth1", to(gatewayN9, 300, two), "p2")
		c.fate("nor to be sent from", "veth2", network(mobile.Datagram(server, phone2, 53, 1000, nil, 0)), "not-encapsulated")
		passes("the others stay", gateway, one)
		c.withN9()
		source(phone2, gatewayN9v6)
		s.Rules[1].Forward.Peer = addr(anchor)
		c.put(rows, s)
		source(phone2, gatewayN9)
	})
}

func TestPacketsThatWaitStayInTheirNetworkInstance(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		c.withN9()
		c.put(nil, session())
		s := inN9()
		s.Rules[0].Forward = pdusession.Forward{Action: pdusession.Wait}
		rows := c.put(nil, s)
		packet := mobile.Datagram(phone2, server, 1000, 53, []byte("question"), 0)
		wires[0].Puts(to(gatewayN9, 257, packet))
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Read("u buffer packets"); n != "1" {
				return fmt.Errorf("%s wait, want 1", n)
			}
			return nil
		})
		s.Rules[0].Forward = pdusession.Forward{Action: pdusession.Pass}
		c.put(rows, s)
		if _, err := wires[1].Recv(func(got []byte) bool { return bytes.HasPrefix(got[14:], packet) }, bpftest.Patience); err != nil {
			t.Errorf("the packet that has waited: %v", err)
		}
	})
}

func TestEndMarkersStayInTheirNetworkInstance(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		c.withN9()
		// Packets to the phone come from another user plane function in n9, and go to a base station.
		s := onward(pdusession.Rule{Instance: "n9", Forward: tunnel(1025)})
		c.put(nil, s)
		marker := func(local string) []byte {
			return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(anchor, local, gtpu.End(258)))
		}
		wires[0].Puts(marker(gatewayN9))
		arrive(t, wires[1], "end of 1025") // from the gateway's address without a name
		c.markers(1, 0)
		c.fate("the TEID of n9 alone", "veth1", marker(gateway), "end-marker")
		if out := c.Action("u end-marker", `{"tunnel-endpoint":"`+anchor+`","remote-teid":5,"network-instance":"n9"}`); strings.Contains(out, "error") {
			t.Error(out)
		}
		_, err := c.TryAction("u end-marker", `{"tunnel-endpoint":"`+anchor+`","remote-teid":5,"network-instance":"n6"}`)
		if err == nil || !strings.Contains(err.Error(), "no local-address of its family in network-instance n6") {
			t.Errorf("a network instance without an address: %v", err)
		}
	})
}

func TestEchoRequestsComeFromTheNetworkInstanceOfThePeer(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV})
	c := newCore(t, l, "")
	wires := c.Wires()
	c.withN9()
	c.put(nil, inN9())
	c.Set("PATCH", "u echo-interval", "1")
	heard := mobile.Frame(stationMAC, gatewayMAC, mobile.Message(anchor, gatewayN9, gtpu.Echo(false, 1)))
	var from netip.Addr
	wires[0].Puts(heard)
	_, err := wires[0].Recv(func(got []byte) bool {
		if len(got) < 50 || got[12] != 8 || got[23] != pkt.ProtoUDP {
			return false
		}
		is, err := mobile.ReadTunnel(got[:14+int(got[16])<<8+int(got[17])])
		from = is.From
		return err == nil && is.To == addr(anchor) && is.Message.Type == gtpu.EchoRequest
	}, bpftest.Patience)
	if err != nil || from != addr(gatewayN9) {
		t.Errorf("an Echo Request from %s, %v, want %s", from, err, gatewayN9)
	}
	if got := c.Read("u peer " + anchor + " mac"); !strings.Contains(got, stationMAC) {
		t.Errorf("the peer is at %s", got)
	}
}

func TestAUPFHasEightNetworkInstances(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	c := newCore(t, l, "")
	for i := range 7 {
		c.Set("POST", fmt.Sprintf("u local-address 192.0.3.%d", 1+i), fmt.Sprintf(`{"network-instance":"n%d"}`, i))
	}
	if err := l.Try("POST", "u local-address 192.0.3.9", `{"network-instance":"n9"}`); !errors.Is(err, cube.ErrFull) || !strings.Contains(err.Error(), "more than 8 network instances") {
		t.Errorf("one more: %v", err)
	}
	s := session()
	s.Rules[0].Instance, s.Rules[1].Forward.Instance = "n6", "n6"
	c.put(nil, s)
	is, err := mobile.ReadTunnel(c.fate("the last one", "veth2", network(toPhone(53)), "p1"))
	if err != nil || is.From != addr("192.0.3.7") {
		t.Errorf("%+v, %v", is, err)
	}
	if got := c.fate("the last one", "veth1", to("192.0.3.7", 257, fromPhone(53)), "p2"); !bytes.Equal(got[14:], fromPhone(53)) {
		t.Errorf("%x", got)
	}
}
