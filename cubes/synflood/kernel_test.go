// SPDX-License-Identifier: Apache-2.0

package synflood

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestLayouts(t *testing.T) {
	for _, name := range []string{"synflood.tc.o", "synflood.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "settings", settings{})
		bpftest.Layout(t, object, "pace", floodPace{})
	}
}

const snmp = `Ip: Forwarding DefaultTTL InReceives InHdrErrors InDelivers
Ip: 1 64 1000 0 900
Icmp: InMsgs
Icmp: 7
Tcp: RtoAlgorithm MaxConn AttemptFails InSegs OutSegs OutRsts
Tcp: 1 -1 12 800 700 34
`

func TestStatistics(t *testing.T) {
	first, err := parseSNMP([]byte(snmp))
	if err != nil {
		t.Fatal(err)
	}
	next := strings.NewReplacer("1000 0 900", "1100 0 925", "12 800 700 34", "13 1200 800 35")
	second, err := parseSNMP([]byte(next.Replace(snmp)))
	if err != nil {
		t.Fatal(err)
	}
	var s statistics
	for _, tt := range []struct {
		what   string
		sample map[string]uint64
		want   statistics
	}{
		{"since the start", first, statistics{AttemptFails: "12", OutRsts: "34", DeliverRatio: "0.900", ResponseRatio: "0.875", LastUpdate: 5000}},
		{"since the last", second, statistics{AttemptFails: "13", OutRsts: "35", DeliverRatio: "0.250", ResponseRatio: "0.250", LastUpdate: 5000}},
		{"nothing was received", second, statistics{AttemptFails: "13", OutRsts: "35", DeliverRatio: "1.000", ResponseRatio: "1.000", LastUpdate: 5000}},
	} {
		s.update(tt.sample, time.UnixMilli(5000))
		tt.want.was = tt.sample
		if !reflect.DeepEqual(s, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.what, s, tt.want)
		}
	}
}

func TestCountersThatCannotBeRead(t *testing.T) {
	for what, text := range map[string]string{
		"nothing":               "",
		"a counter is missing":  strings.NewReplacer(" OutRsts", "", " 34", "").Replace(snmp),
		"a number too few":      strings.Replace(snmp, " 34", "", 1),
		"lines of two families": strings.Replace(snmp, "Icmp: 7", "Udp: 7", 1),
		"a number is none":      strings.Replace(snmp, " 34", " x", 1),
	} {
		if got, err := parseSNMP([]byte(text)); err == nil {
			t.Errorf("%s: %v, want an error", what, got)
		}
	}
}

// FuzzSNMP: whatever the text is, there is an error or all counters.
func FuzzSNMP(f *testing.F) {
	f.Add([]byte(snmp))
	if text, err := os.ReadFile(snmpFile); err == nil {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseSNMP(text)
		if _, ok := got[tcpSent]; ok == (err != nil) {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestTheMachinesOwnFilesAreRead(t *testing.T) {
	k, err := openKernel()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := k.counters(); err != nil || len(got) < 6 {
		t.Errorf("counters are %v, %v", got, err)
	}
	if got := k.facts(); got.Buffer[2] <= 0 || got.Timestamps < 0 || got.Cookies < 0 {
		t.Errorf("settings are %+v", got)
	}
	if err := k.close(); err != nil {
		t.Error(err)
	}
	if got := k.facts(); got.Cookies != -1 {
		t.Errorf("of closed files, settings are %+v", got)
	}
}

func TestWhatTheKernelAllows(t *testing.T) {
	for _, tt := range []struct {
		is      facts
		why     string
		options uint8
	}{
		{facts{Cookies: 2, Timestamps: 2, SACK: 1, Scaling: 1}, "", allowTimestamps | allowSACK | allowScaling},
		{facts{Cookies: 2, Timestamps: 2, SACK: 0, Scaling: 1}, "", allowTimestamps | allowScaling},
		{facts{Cookies: 2, Timestamps: 2, SACK: 1, Scaling: 0}, "", allowTimestamps | allowSACK},
		{facts{Cookies: 2, Timestamps: 1, SACK: 1, Scaling: 1}, "", 0},
		{facts{Cookies: 1, Timestamps: 0, SACK: 1, Scaling: 1}, "tcp_syncookies is 1: set it to 2", 0},
		{facts{Cookies: 0}, "tcp_syncookies is 0: set it to 2", 0},
		{facts{Cookies: -1}, "CONFIG_SYN_COOKIES", 0},
	} {
		if got := tt.is.unavailable(); (got == "") != (tt.why == "") || !strings.Contains(got, tt.why) {
			t.Errorf("%+v: %q, want %q", tt.is, got, tt.why)
		}
		if got := tt.is.options(); got != tt.options {
			t.Errorf("%+v: options %b, want %b", tt.is, got, tt.options)
		}
	}
}

func TestWindowsAreThoseOfTheKernel(t *testing.T) {
	for _, tt := range []struct {
		is     facts
		scale  uint8
		window uint16
	}{
		{facts{Buffer: [3]int{4096, 131072, 6291456}, Largest: 212992}, 7, 65535},
		{facts{Buffer: [3]int{4096, 131072, 6291456}, Largest: 67108864}, 11, 65535},
		{facts{Buffer: [3]int{4096, 65536, 65536}, Largest: 0}, 1, 32768},
		{facts{Buffer: [3]int{4096, 16384, 65535}}, 0, 8192},
		{facts{Buffer: [3]int{4096, 16384, 1 << 31}}, 14, 8192},
		{facts{}, 0, 65535},
	} {
		if got := tt.is.windowScale(); got != tt.scale {
			t.Errorf("%+v: scale %d, want %d", tt.is, got, tt.scale)
		}
		if got := tt.is.window(); got != tt.window {
			t.Errorf("%+v: window %d, want %d", tt.is, got, tt.window)
		}
	}
}

func TestSettingsOfTheProgram(t *testing.T) {
	scale := uint8(3)
	c := Config{HoldTime: 2, Threshold: 5, MSSIPv4: 1460, MSSIPv6: 1440, TTL: 9, WindowScale: &scale}
	dev := cube.Parent{Name: "eth0", Netdev: "eth0", Index: 4, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, MTU: 1400}
	f := facts{Cookies: 2, Timestamps: 2, SACK: 1, Scaling: 1}
	got, err := c.settings(dev, f)
	want := settings{
		MAC: 0x010000000002, Hold: 2e9, Threshold: 5, MSS4: 1360, MSS6: 1340, Window: 65535, WindowScale: 3, TTL: 9,
		Options: allowTimestamps | allowSACK | allowScaling, Available: 1,
	}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	dev.Cube, dev.MTU = "br1", 0 // a port
	got, err = c.settings(dev, facts{Cookies: 1})
	want.MAC, want.MSS4, want.MSS6, want.Options, want.Available = 0, 1460, 1440, 0, 0
	if err != nil || got != want {
		t.Errorf("on a port: %+v, %v, want %+v", got, err, want)
	}
	c.ForwardSYNRate = 4000
	if got, err = c.settings(dev, f); err != nil || got.Forward.Burst != 1000 {
		t.Errorf("4000 SYNs per second have the limit %+v, %v, want a burst of 1000", got.Forward, err)
	}
	c.ForwardSYNRate = 1
	if got, err = c.settings(dev, f); err != nil || got.Forward.Burst != 100 {
		t.Errorf("1 SYN per second has the limit %+v, %v, want a burst of 100", got.Forward, err)
	}
}

func TestMapsOfThePrograms(t *testing.T) {
	c := Config{ProtectedPorts: []ProtectedPort{{0}, {63}, {64}, {65535}}}
	if got, want := c.ports(), (map[uint32]uint64{0: 1 | 1<<63, 1: 1, 1023: 1 << 63}); !reflect.DeepEqual(got, want) {
		t.Errorf("ports are %x, want %x", got, want)
	}
	dev := cube.Parent{Name: "eth0", Index: 4, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Addresses: []netip.Prefix{
		netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("2001:db8::1/64")}}
	address := func(text string) inet.Address { return inet.AddressOf(netip.MustParseAddr(text)) }
	want := map[inet.Address]uint8{address("10.0.0.1"): 3, address("2001:db8::1"): 3}
	if got := c.addresses(dev); !reflect.DeepEqual(got, want) {
		t.Errorf("addresses are %v, want %v", got, want)
	}
	c.ProtectedAddresses = []ProtectedAddress{{netip.MustParseAddr("10.0.0.1")}, {netip.MustParseAddr("192.0.2.7")}}
	want = map[inet.Address]uint8{address("10.0.0.1"): 3, address("2001:db8::1"): 1, address("192.0.2.7"): 3}
	if got := c.addresses(dev); !reflect.DeepEqual(got, want) {
		t.Errorf("with two that are listed, addresses are %v, want %v", got, want)
	}
	if err := new(Protection).UnmarshalText([]byte("on")); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("protection `on`: %v, want an error", err)
	}
}
