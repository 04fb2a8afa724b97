// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// A gateway as in the paper, with phones behind base stations, and TCP and UDP of the kernel.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

const (
	phone, phone6 = "10.1.0.1", "2001:db8:0:1::1"
	web, web6     = "198.51.100.2", "2001:db8:ffff::2"
	station2      = "192.0.2.20"
)

// network is the gateway, two base stations on host 1 with a phone, and a server on host 2.
type network struct {
	*bpftest.Lab
	t      *testing.T
	one    *mobile.Station
	two    *mobile.Station
	phone  *mobile.Phone
	hosts  []*netns.Node
	server *netns.Node
}

// newNetwork creates a router r1 whose port p1 leads to base stations: from the wire, packets meet the handler g, a classifier c
// and a policer p.
func newNetwork(t *testing.T, typ cube.Type, set ...func(*bpftest.Options)) *network {
	t.Helper()
	options := []netns.Option{netns.WithIPv6()}
	if typ != cube.TypeTC {
		options = append(options, netns.WithoutTxChecksum(), netns.WithGRO())
	}
	o := bpftest.Options{Type: typ, Hosts: 2, Host: options}
	for _, f := range set {
		f(&o)
	}
	l := bpftest.New(t, o)
	n := &network{Lab: l, t: t, hosts: l.Hosts, server: l.Hosts[1]}
	for _, a := range []string{station + "/24", station2 + "/24", station6 + "/64"} {
		l.Hosts[0].Run("ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	for _, a := range []string{web + "/24", web6 + "/64"} {
		n.server.Run("ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	n.server.Run("ip", "route", "add", "default", "via", "198.51.100.1")
	n.server.Run("ip", "-6", "route", "add", "default", "via", "2001:db8:ffff::1")
	if typ == cube.TypeTC { // no device completes the checksums in a tunnel
		l.Lab.Run("ethtool", "-K", "veth1", "tx", "off")
	}
	l.CreateAll(`[{"name":"r1","service-name":"router","ports":[
			{"name":"p1","peer":"veth1","ip":"192.0.2.1/24","secondaryip":[{"ip":"2001:db8:a::1/64"}]},
			{"name":"p2","peer":"veth2","ip":"198.51.100.1/24","secondaryip":[{"ip":"2001:db8:ffff::1/64"}]}],
			"route":[{"network":"10.1.0.0/16","nexthop":"192.0.2.10"},{"network":"2001:db8:0:1::/64","nexthop":"2001:db8:a::10"}]},
		{"name":"g","service-name":"gtphandler",` + locals + `,"mtu":1500,"echo-interval":1,"user-equipment":[
			{"ip":"` + phone + `","ipv6-prefix":"2001:db8:0:1::","tunnel-endpoint":"` + station + `","teid":257,"remote-teid":1025,"qfi":9,"traffic-class":7}]},
		{"name":"c","service-name":"classifier","subscriber":[{"address":"` + phone + `","class":7},{"address":"2001:db8:0:1::","class":7}]},
		{"name":"p","service-name":"policer","length":"IP","default-contract":{"action":"DROP"},"contract":[{"traffic-class":7},{"traffic-class":0}]}]`)
	for _, name := range []string{"p", "c", "g"} {
		l.Attach(name, "r1:p1")
	}
	n.one, n.two = mobile.NewStation(t, l.Hosts[0].Namespace, station, gateway), mobile.NewStation(t, l.Hosts[0].Namespace, station2, gateway)
	n.phone = &mobile.Phone{Uplink: 257, Downlink: 1025, QFI: 9}
	n.one.Attach(l.Hosts[0].Namespace, "phone", n.phone, phone+"/32", phone6+"/128")
	l.Hosts[0].Run("ip", "route", "add", "198.51.100.0/24", "dev", "phone", "src", phone)
	l.Hosts[0].Run("ip", "-6", "route", "add", "2001:db8:ffff::/64", "dev", "phone", "src", phone6)
	return n
}

// eachLive runs a test at each hook.
func eachLive(t *testing.T, test func(t *testing.T, n *network)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			test(t, newNetwork(t, typ))
		})
	}
}

// TestTheChainIsOneProgram: its stack is enough for the four cubes of the paper.
func TestTheChainIsOneProgram(t *testing.T) {
	netns.NeedRoot(t)
	if !need.Linux(t, 6, 8) {
		t.Skip("kernels before Linux 6.8 count more bytes of stack for a function: the cubes run by tail calls")
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			newNetwork(t, typ, func(o *bpftest.Options) { o.Mode = "inline" })
		})
	}
}

// serve gives each client of the server what it downloads.
func (n *network) serve(content []byte) {
	n.server.Must(func() error {
		l, err := net.Listen("tcp", ":80")
		if err != nil {
			return err
		}
		n.t.Cleanup(func() { _ = l.Close() })
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					_, _ = c.Write(content) // the client compares
					_ = c.Close()
				}()
			}
		}()
		return nil
	})
}

// download gets it on the phone.
func (n *network) download(address string, want []byte) {
	n.t.Helper()
	var c net.Conn
	n.hosts[0].Must(func() (err error) {
		c, err = net.DialTimeout("tcp", net.JoinHostPort(address, "80"), bpftest.Patience)
		return err
	})
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(bpftest.Patience))
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, want) {
		n.t.Errorf("the phone gets %d bytes of %d from %s: %v", len(got), len(want), address, err)
	}
}

func TestAPhoneDownloads(t *testing.T) {
	eachLive(t, func(t *testing.T, n *network) {
		content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16) // 1 MiB
		n.serve(content)
		n.hosts[0].Reaches(t, bpftest.Patience, web)
		n.download(web, content)
		n.download(web6, content)
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := n.Read("g base-station " + station + " status"); got != `"UP"` {
				return fmt.Errorf("the base station is %s", got)
			}
			return nil
		})
		var user struct {
			Down json.Number `json:"downlink-bytes"`
		}
		if err := json.Unmarshal([]byte(n.Read("g user-equipment "+phone)), &user); err != nil {
			t.Fatal(err)
		}
		if bytes, err := user.Down.Int64(); err != nil || bytes < int64(2*len(content)) {
			t.Errorf("%d bytes are counted, want more than %d", bytes, 2*len(content))
		}
		if got := n.Read("g messages segmented"); n.Type == cube.TypeTC && got == "0" {
			t.Error("no superframe was cut: the server has sent none")
		}
		for reason, packets := range n.Fates("g") {
			if packets > 0 && reason != "slowpath" && reason != "pass" {
				t.Errorf("%d packets have ended as %s", packets, reason)
			}
		}
	})
}

// TestAPhoneMovesWhilePacketsComeIn loses none, gets none twice, and gets the old station's before the End Marker.
func TestAPhoneMovesWhilePacketsComeIn(t *testing.T) {
	eachLive(t, func(t *testing.T, n *network) {
		n.hosts[0].Reaches(t, bpftest.Patience, web)
		var in, out *net.UDPConn
		n.hosts[0].Must(func() (err error) {
			in, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(phone+":5000")))
			return err
		})
		n.server.Must(func() (err error) {
			out, err = net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(phone+":5000")))
			return err
		})
		mobile.Room(t, in)
		const packets = 20_000
		go func() {
			b := make([]byte, 100)
			tick := time.NewTicker(time.Millisecond) // 20 kpps at most: the stations are Go programs
			defer tick.Stop()
			for i := range uint32(packets) {
				binary.BigEndian.PutUint32(b, i)
				_, _ = out.Write(b) // the phone counts them
				if i%20 == 19 {
					<-tick.C
				}
			}
		}()
		seen, read := make([]int, packets), 0
		b := make([]byte, 200)
		for read < packets {
			_ = in.SetReadDeadline(time.Now().Add(2 * time.Second))
			if _, err := in.Read(b); err != nil {
				break
			}
			seen[binary.BigEndian.Uint32(b)]++
			if read++; read == packets/4 {
				// Both stations know the phone while it moves.
				n.two.Expect(n.phone, 2049)
				n.Set("PATCH", "g user-equipment "+phone, `{"tunnel-endpoint":"`+station2+`","remote-teid":2049}`)
			}
		}
		lost, twice := 0, 0
		for _, times := range seen {
			switch {
			case times == 0:
				lost++
			case times > 1:
				twice++
			}
		}
		if lost > 0 || twice > 0 {
			t.Errorf("of %d packets %d were lost, and %d came twice", packets, lost, twice)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if ends := n.one.Ends(); !slices.Equal(ends, []uint32{1025}) {
				return fmt.Errorf("the old station has got End Markers %v", ends)
			}
			return nil
		})
		if late := n.one.AfterEnd(); late > 0 {
			t.Errorf("%d packets came to the old station after its End Marker", late)
		}
		if n.two.Packets() == 0 {
			t.Error("no packet came to the new station")
		}
		n.two.Take(n.phone)
		n.hosts[0].Reaches(t, bpftest.Patience, web)
		_ = errors.Join(in.Close(), out.Close())
	})
}
