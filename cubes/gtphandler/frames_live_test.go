// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// Devices with Ethernet sessions on a bridge of Polycube: ARP, ICMP and TCP of the kernel.

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
)

const (
	lanServer, lanDevice, lanDevice2 = "10.9.0.2", "10.9.0.1", "10.9.0.3"
	lanServer6, lanDevice6           = "2001:db8:9::2", "2001:db8:9::1"
)

// lan is a bridge with a server on host 2. Base stations are on host 1, and their devices on hosts 3 and 4.
type lan struct{ *network }

// newLAN creates the hosts, and sessions of two devices at two base stations.
func newLAN(t *testing.T, typ cube.Type, connect func(l *bpftest.Lab)) *lan {
	t.Helper()
	options := []netns.Option{netns.WithIPv6()}
	if typ != cube.TypeTC {
		options = append(options, netns.WithoutTxChecksum(), netns.WithGRO())
	}
	l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 4, Host: options})
	n := &lan{&network{Lab: l, t: t, hosts: []*netns.Node{l.Hosts[2]}, server: l.Hosts[1]}}
	for _, a := range []string{station + "/24", station2 + "/24"} {
		l.Hosts[0].Run("ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	for _, a := range []string{lanServer + "/24", lanServer6 + "/64"} {
		n.server.Run("ip", "addr", "add", a, "dev", "eth0", "nodad")
	}
	if typ == cube.TypeTC { // no device completes the checksums in a tunnel
		l.Lab.Run("ethtool", "-K", "veth1", "tx", "off")
	}
	l.Create("gtphandler", "g", `{`+locals+`,"session-type":"ETHERNET","ethernet-session":[
		{"teid":257,"tunnel-endpoint":"`+station+`","remote-teid":1025,"qfi":9},
		{"teid":258,"tunnel-endpoint":"`+station2+`","remote-teid":1026}]}`)
	n.one, n.two = mobile.NewStation(t, l.Hosts[0].Namespace, station, gateway), mobile.NewStation(t, l.Hosts[0].Namespace, station2, gateway)
	n.phone = &mobile.Phone{Uplink: 257, Downlink: 1025, QFI: 9, Ethernet: true}
	n.one.Attach(l.Hosts[2].Namespace, "tap", n.phone, lanDevice+"/24", lanDevice6+"/64")
	n.two.Attach(l.Hosts[3].Namespace, "tap", &mobile.Phone{Uplink: 258, Downlink: 1026, Ethernet: true}, lanDevice2+"/24")
	connect(l) // at last: stations report a broadcast to a device that they do not have
	return n
}

// withSimplebridge attaches the handler to a port of a bridge of Polycube.
func withSimplebridge(l *bpftest.Lab) {
	l.Create("simplebridge", "br1", `{"ports":[{"name":"n3","peer":"veth1"},{"name":"n6","peer":"veth2"}]}`)
	l.Attach("g", "br1:n3")
}

func TestDevicesOnABridge(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			useLAN(newLAN(t, typ, withSimplebridge))
		})
	}
}

// useLAN lets devices and the server find each other, and download.
func useLAN(n *lan) {
	t := n.t
	n.server.Reaches(t, bpftest.Patience, lanDevice) // whose address nobody knows yet: a broadcast
	n.hosts[0].Reaches(t, bpftest.Patience, lanServer)
	n.hosts[0].Reaches(t, bpftest.Patience, lanServer6)
	n.hosts[0].Reaches(t, bpftest.Patience, lanDevice2)
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<15) // 512 KiB
	n.serve(content)
	n.download(lanServer, content)
	n.download(lanServer6, content)
	var session struct {
		Down uint64 `json:"downlink-bytes"`
	}
	if err := json.Unmarshal([]byte(n.Read("g ethernet-session 257")), &session); err != nil {
		t.Fatal(err)
	}
	if session.Down < uint64(2*len(content)) {
		t.Errorf("%d bytes are counted, want more than %d", session.Down, 2*len(content))
	}
	for reason, packets := range n.Fates("g") {
		if packets > 0 && !strings.Contains(" slowpath pass not-tunnelled unknown-station ", " "+reason+" ") {
			t.Errorf("%d frames have ended as %s", packets, reason)
		}
	}
}
