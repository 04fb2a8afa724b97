// SPDX-License-Identifier: Apache-2.0

package gtphandler_test

// Networks behind devices.

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
)

func TestNetworksBehindDevices(t *testing.T) {
	each(t, 0, `{`+locals+`,`+devices+`,"echo-interval":0}`, func(t *testing.T, g *gatewayLab) {
		to := func(address string) []byte { return mobile.Datagram(server, address, 53, 1, []byte("answer"), 0) }
		to6 := func(address string) []byte { return mobile.Datagram(server6, address, 53, 1, []byte("answer"), 0) }
		from := func(address string) []byte { return mobile.Datagram(address, server, 1, 53, nil, 0) }
		from6 := func(address string) []byte { return mobile.Datagram(address, server6, 1, 53, nil, 0) }
		nobody := func(what string, packet []byte) {
			t.Helper()
			g.fate(what, "veth2", mobile.Frame(gatewayMAC, stationMAC, packet), "p1")
		}
		nobody("no route yet", to("10.200.1.1"))
		g.Set("PATCH", "g user-equipment 10.1.0.1", `{"framed-route":["10.200.0.0/16","2001:db8:f::/48"]}`)
		g.Set("PATCH", "g user-equipment 10.1.0.3", `{"framed-route":["10.200.7.0/24","2001:db8:f:7::/64"]}`)
		g.Set("PATCH", "g user-equipment 10.1.0.2", `{"framed-route":["10.201.0.0/24"]}`)

		g.goes("IPv4", to("10.200.1.1"), station, 1025, 9)
		g.goes("IPv6", to6("2001:db8:f:1::1"), station, 1025, 9)
		g.goes("the longest prefix, IPv4", to("10.200.7.1"), station6, 1027, 0)
		g.goes("the longest prefix, IPv6", to6("2001:db8:f:7::1"), station6, 1027, 0)
		nobody("IPv6 that looks like IPv4", to6("::ffff:10.200.1.1"))
		// The base station was not heard yet, so that no End Marker is on its way in what follows.
		g.Set("PATCH", "g user-equipment 10.1.0.1", `{"tunnel-endpoint":"192.0.2.20","remote-teid":2000}`)
		g.goes("with the device", to("10.200.1.1"), "192.0.2.20", 2000, 9)

		g.comes("from a network, IPv4", uplink(257, 9, from("10.200.1.1")), from("10.200.1.1"), 257)
		g.comes("from a network, IPv6", uplink(257, 9, from6("2001:db8:f:1::1")), from6("2001:db8:f:1::1"), 257)
		g.comes("from a longer one", uplink(259, 9, from("10.200.7.1")), from("10.200.7.1"), 7)
		g.comes("any TEID", uplink(1234, 9, from("10.201.0.1")), from("10.201.0.1"), 1234)
		for what, packet := range map[string][]byte{"a network of another device": from("10.200.7.1"), "no network": from("10.202.0.1"), "IPv6 that looks like IPv4": from6("::ffff:10.200.1.1")} {
			g.fate(what, "veth1", uplink(257, 9, packet), "g spoofed-source")
		}
		n := uint64(len(from("10.200.1.1")) + len(from6("2001:db8:f:1::1")))
		down := uint64(2*len(to("10.200.1.1")) + len(to6("2001:db8:f:1::1")))
		g.counted("10.1.0.1", 2, n, 3, down)

		g.Set("DELETE", "g user-equipment 10.1.0.3", "")
		g.goes("the shorter prefix", to("10.200.7.1"), "192.0.2.20", 2000, 9)
		g.Restart(nil)
		g.goes("after a restart", to("10.200.1.1"), "192.0.2.20", 2000, 9)
		g.Set("PUT", "g user-equipment 10.1.0.1", `{"ip":"10.1.0.1","tunnel-endpoint":"192.0.2.20","teid":257,"remote-teid":2000,"framed-route":["2001:db8:f::/48"]}`)
		nobody("it is gone", to("10.200.1.1"))
		g.goes("the other one is not", to6("2001:db8:f:1::1"), "192.0.2.20", 2000, 0)
	})
}

func TestNetworksOfOneDeviceEach(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	g := handle(t, l, `{`+locals+`,`+devices+`,"echo-interval":0,"max-framed-routes":2}`)
	g.Set("PATCH", "g user-equipment 10.1.0.1", `{"framed-route":["10.200.0.0/16"]}`)
	for _, c := range []struct {
		body, says string
		want       error
	}{
		{`{"framed-route":["10.200.0.0/16"]}`, "10.1.0.1 has the same framed-route", cube.ErrExists},
		{`{"framed-route":["10.200.0.1/16"]}`, "10.1.0.1 has the same framed-route", cube.ErrExists},
		{`{"framed-route":["10.201.0.0/16","10.202.0.0/16"]}`, "3 framed routes, but max-framed-routes is 2", cube.ErrFull},
	} {
		if err := l.Try("PATCH", "g user-equipment 10.1.0.2", c.body); err == nil || !strings.Contains(err.Error(), c.says) || !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v: %s", c.body, err, c.want, c.says)
		}
	}
	g.Set("PATCH", "g user-equipment 10.1.0.1", `{"framed-route":["10.201.0.0/16"]}`)
	g.Set("DELETE", "g user-equipment 10.1.0.1", "")
	g.Set("PATCH", "g user-equipment 10.1.0.2", `{"framed-route":["10.201.0.0/16","10.202.0.0/16"]}`)
}
