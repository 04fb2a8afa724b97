// SPDX-License-Identifier: Apache-2.0

// Phones with IPv6 sessions, whose addresses their kernels make of the prefix that the SMF advertises over N4-U.

package e2e

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/wmnsk/go-pfcp/ie"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/ran"
	"github.com/polycube/polycube/test/smf"
)

// The addresses of this test. Base stations and the SMF's end of N4-U have IPv4 addresses only.
const (
	n4uAddress     = "192.0.2.50"
	webServer6     = "2001:db8:6::2"
	phonePrefixes  = "2001:db8:45::/48"
	prefixOf       = "2001:db8:45:%x::/64"
	phoneRouteHop6 = "2001:db8:3::10"
)

// addIPv6 adds IPv6 to the data network and the router, and the SMF's end of N4-U. The tunnels' end of the UPF is none of
// the router, which takes no packets from itself: here, packets leave a tunnel and enter another one.
func (c *core) addIPv6() *smf.Router {
	c.t.Helper()
	c.dn.Run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=0", "net.ipv6.conf.eth0.accept_ra=0")
	c.dn.Run("ip", "addr", "add", webServer6+"/64", "dev", "eth0", "nodad")
	c.dn.Run("ip", "route", "add", "default", "via", "2001:db8:6::1")
	c.ran.Run("ip", "addr", "add", n4uAddress+"/24", "dev", "eth0")
	c.ran.Run("ip", "route", "add", betweenAddress, "via", n3Address)
	for _, line := range []string{
		"r1 ports p1 secondaryip add 2001:db8:3::1/64",
		"r1 ports p2 secondaryip add 2001:db8:6::1/64",
		"r1 arp-table add " + phoneRouteHop6 + " mac=02:00:00:00:00:10 interface=p1",
		"r1 route add " + phonePrefixes + " " + phoneRouteHop6,
		"u local-address add " + betweenAddress,
		"u local-address del " + n3Address,
	} {
		c.Do(line)
	}
	var router *smf.Router
	c.ran.Must(func() (err error) {
		router, err = smf.NewRouter(netip.MustParseAddr(n4uAddress), netip.MustParseAddr(betweenAddress))
		return err
	})
	c.t.Cleanup(func() {
		if err := router.Close(); err != nil {
			c.t.Error(err)
		}
	})
	return router
}

// visitor is a phone in a network namespace of its own.
type visitor struct {
	*netns.Namespace
	number  uint32
	session *smf.Session
	device  *mobile.Phone
	ipv4    netip.Addr
}

// toSMF and toDevice are TEIDs of N4-U and of packets to the phone.
func (v *visitor) toSMF() uint32    { return 700 + v.number }
func (v *visitor) toDevice() uint32 { return 1100 + v.number }

func (v *visitor) prefix() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf(prefixOf, v.number))
}

// visit establishes a session of IPv6, and of IPv4 if the phone has an address of it. The kernel gets nothing but a device that is
// up.
func (c *core) visit(station *mobile.Station, router *smf.Router, v *visitor) {
	c.t.Helper()
	const choose = 1 // PDRs of the uplink tunnel
	access := smf.PDR{Precedence: 100, Source: ie.SrcInterfaceAccess, Choose: true, ChooseID: choose, UE6: v.prefix().Addr(), UE4: v.ipv4}
	up, solicitations := access, access
	up.ID, up.FAR, up.URRs = 1, 1, []uint32{1}
	solicitations.ID, solicitations.FAR, solicitations.Precedence = 3, 3, 10
	solicitations.Filters = []string{"permit out 58 from ff02::2/128 to assigned"}
	down := smf.PDR{ID: 2, Precedence: 100, Source: ie.SrcInterfaceCore, UE6: v.prefix().Addr(), UE4: v.ipv4, FAR: 2, QERs: []uint32{2}, URRs: []uint32{1}}
	advertisements := smf.PDR{ID: 4, Precedence: 10, Source: ie.SrcInterfaceCPFunction, Choose: true, UE6: v.prefix().Addr(), FAR: 2, QERs: []uint32{2}}
	var err error
	v.session, err = c.smf.Establish(c.t.Context(), uint64(v.number), up.Create(), down.Create(), solicitations.Create(), advertisements.Create(),
		smf.FAR{ID: 1, Action: smf.Forward, Destination: ie.DstInterfaceCore}.Create(),
		smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(betweenStation), TEID: v.toDevice()}.Create(),
		smf.FAR{ID: 3, Action: smf.Forward, Destination: ie.DstInterfaceCPFunction, Peer: netip.MustParseAddr(n4uAddress), TEID: v.toSMF()}.Create(),
		smf.QER(2, 0, 0, 9), smf.URR{ID: 1, Triggers: [2]byte{2}, Threshold: 1 << 30}.Create())
	if err != nil {
		c.t.Fatal(err)
	}
	if v.session.TEIDs[1] != v.session.TEIDs[3] || v.session.TEIDs[4] == v.session.TEIDs[1] {
		c.t.Fatalf("TEIDs %v", v.session.TEIDs)
	}
	router.Serve(smf.Link{Prefix: v.prefix(), MTU: ran.MTU - 20, TEID: v.toSMF(), ToDevice: v.session.TEIDs[4]})
	v.Namespace = netns.New(c.t)
	v.device = &mobile.Phone{Uplink: v.session.TEIDs[1], Downlink: v.toDevice(), QFI: 9}
	station.Attach(v.Namespace, "phone", v.device)
	if v.ipv4.IsValid() {
		v.Run("ip", "addr", "add", v.ipv4.String()+"/32", "dev", "phone")
		v.Run("ip", "route", "add", "default", "dev", "phone")
	}
	v.Run("sysctl", "-qw", "net.ipv6.conf.phone.disable_ipv6=0") // and it solicits
}

// configured returns the address that the phone's kernel has made.
func (c *core) configured(v *visitor) (address netip.Addr) {
	c.t.Helper()
	c.eventually(func() error {
		var found []netlink.Addr
		var routes []netlink.Route
		v.Must(func() error {
			link, err := netlink.LinkByName("phone")
			if err == nil {
				found, err = netlink.AddrList(link, netlink.FAMILY_V6)
			}
			if err == nil {
				routes, err = netlink.RouteList(link, netlink.FAMILY_V6)
			}
			return err
		})
		for _, a := range found {
			if is, ok := netip.AddrFromSlice(a.IP); ok && v.prefix().Contains(is) && a.Flags&unix.IFA_F_PERMANENT == 0 {
				address = is
			}
		}
		for _, r := range routes {
			if address.IsValid() && r.Protocol == unix.RTPROT_RA && r.Gw.String() == "fe80::1" {
				return nil
			}
		}
		return fmt.Errorf("the phone has addresses %v and routes %v", found, routes)
	})
	return address
}

// downloads has the phone download from an address of the server, which has to see the phone's address.
func (c *core) downloads(v *visitor, server string, from netip.Addr, want []byte) {
	c.t.Helper()
	c.eventually(func() error { // until routers know their neighbours
		var conn net.Conn
		var err error
		v.Must(func() error {
			conn, err = net.DialTimeout("tcp", net.JoinHostPort(server, "80"), patience/8)
			return nil
		})
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close() }()
		_ = conn.SetDeadline(time.Now().Add(patience))
		if is := netip.MustParseAddrPort(conn.LocalAddr().String()).Addr(); is != from {
			return fmt.Errorf("the phone uses %v, not %v", is, from)
		}
		got, err := io.ReadAll(conn)
		if err == nil && !bytes.Equal(got, want) {
			err = fmt.Errorf("the phone gets %d bytes of %d from %s", len(got), len(want), server)
		}
		return err
	})
}

// TestPhonesConfigureThemselves: the kernel of a phone solicits a router, the SMF answers over N4-U, and the kernel has its
// address, default route and MTU. A phone of an IPv6 session uses them, one of an IPv4v6 session both families.
func TestPhonesConfigureThemselves(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		router := c.addIPv6()
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
		c.serve(content)
		c.ran.Run("ip", "addr", "add", betweenStation+"/24", "dev", "eth0")
		station := mobile.NewStation(t, c.ran.Namespace, betweenStation, betweenAddress)
		six, both := &visitor{number: 1}, &visitor{number: 2, ipv4: netip.MustParseAddr("10.1.0.2")}
		for _, v := range []*visitor{six, both} {
			c.visit(station, router, v)
			address := c.configured(v)
			if n := router.Answered(v.toSMF()); n == 0 {
				t.Error("no solicitation has come to the SMF")
			}
			if mtu := strings.TrimSpace(v.Run("sysctl", "-n", "net.ipv6.conf.phone.mtu")); mtu != fmt.Sprint(ran.MTU-20) {
				t.Errorf("the phone's link has an MTU of %s", mtu)
			}
			c.downloads(v, webServer6, address, content)
			if v.ipv4.IsValid() {
				c.downloads(v, webServer, v.ipv4, content)
			}
		}
		station.AllowErrors() // a segment that a phone sends late has no session any more
		for _, v := range []*visitor{six, both} {
			m, err := c.smf.Delete(t.Context(), v.session)
			if err != nil {
				t.Fatal(err)
			}
			least := uint64(len(content))
			if v.ipv4.IsValid() {
				least *= 2
			}
			if used, err := smf.UsageReports(m); err != nil || len(used) != 1 || used[0].Down < least || used[0].Down > least*3/2 {
				t.Errorf("%+v, %v were reported, at least %d bytes went down", used, err, least)
			}
		}
	})
}
