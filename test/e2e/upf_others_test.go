// SPDX-License-Identifier: Apache-2.0

// A mobile core with a second phone, and with strangers.

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/internal/n4"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/smf"
)

// TestTwoPhonesReachEachOther: what one sends to the other comes back at the port where it came in.
func TestTwoPhonesReachEachOther(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		c.attach()
		const second = "10.1.0.2"
		elsewhere := c.lab.Host("veth3", "")
		other, err := c.smf.Establish(t.Context(), 8, smf.Device(netip.MustParseAddr(second), netip.MustParseAddr(gNB1), 1026)...)
		if err != nil {
			t.Fatal(err)
		}
		c.one.Attach(elsewhere.Namespace, "phone2", &mobile.Phone{Uplink: other.TEIDs[1], Downlink: 1026, QFI: 9}, second+"/32")
		elsewhere.Run("ip", "route", "add", ueAddress, "dev", "phone2", "src", second)
		c.ran.Run("ip", "route", "add", second, "dev", "phone", "src", ueAddress)
		c.ran.Reaches(t, patience, second)
		elsewhere.Reaches(t, patience, ueAddress)
	})
}

// garbageSent is the number of datagrams with garbage.
const garbageSent = 5000

// upfStatus is what polycube-upf says of itself.
func (c *core) upfStatus() (is n4.Status) {
	c.t.Helper()
	r := run(c.t, exec.CommandContext(c.t.Context(), program(c.t, "polycube-upf"), "status", "--json", "--control", filepath.Join(c.dir, "upf.sock")), "")
	if err := json.Unmarshal([]byte(r.stdout), &is); r.code != 0 || err != nil {
		c.t.Fatalf("polycube-upf status: %v %s", err, r.stderr)
	}
	return is
}

// TestStrangersChangeNothing: neither garbage nor requests of strangers end polycube-upf or touch a session; both are counted.
func TestStrangersChangeNothing(t *testing.T) {
	c := newCore(t, "XDP_SKB")
	c.attach()
	c.ran.Reaches(t, patience, webServer)
	var stranger *smf.SMF
	var garbage net.Conn
	c.lab.Must(func() (err error) {
		upf := netip.MustParseAddrPort(upfAddress + ":8805")
		if stranger, err = smf.New(netip.MustParseAddrPort("127.0.0.3:8805"), upf, "127.0.0.3"); err != nil {
			return err
		}
		garbage, err = net.DialUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort("127.0.0.4:0")), net.UDPAddrFromAddrPort(upf))
		return err
	})
	defer func() { _ = errors.Join(stranger.Close(), garbage.Close()) }()
	random := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	for range garbageSent {
		b := make([]byte, random.IntN(200))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		if len(b) > 8 && random.IntN(2) == 0 { // a header that is right
			b[0], b[1] = 0x21, byte(50+random.IntN(8))
			binary.BigEndian.PutUint16(b[2:], uint16(len(b)-4))
		}
		_, _ = garbage.Write(b) // some are lost
	}
	var refused *smf.RefusedError
	if _, err := stranger.Delete(t.Context(), c.session); !errors.As(err, &refused) {
		t.Errorf("a stranger without an association deletes a session: %v", err)
	}
	if _, err := stranger.Associate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := stranger.Delete(t.Context(), c.session); !errors.As(err, &refused) {
		t.Errorf("a stranger deletes a session: %v", err)
	}
	if _, err := stranger.Establish(t.Context(), 9, smf.Device(netip.MustParseAddr(ueAddress), netip.MustParseAddr(gNB2), 1026)...); !errors.As(err, &refused) {
		t.Errorf("a stranger has a session with the address of another one: %v", err)
	}
	c.modify(ie.NewQueryURR(ie.NewURRID(1)))
	c.ran.Reaches(t, patience, webServer)
	is := c.upfStatus()
	if is.Sessions != 1 || is.Panics != 0 || len(is.Peers) != 2 {
		t.Errorf("the status is %+v", is)
	}
	// Some garbage may look like a heartbeat, and some is lost; three of the stranger's requests are refused, one before its association.
	if is.Malformed < garbageSent/10 || is.Strangers < is.Malformed || is.Strangers > garbageSent+1 {
		t.Errorf("of %d messages %d were malformed, and %d of strangers", garbageSent, is.Malformed, is.Strangers)
	}
}
