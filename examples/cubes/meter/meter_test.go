// SPDX-License-Identifier: Apache-2.0

package meter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	_ "github.com/polycube/polycube/examples/cubes/meter" // registers itself
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// size is that of the frames of udp and udp6.
const size = 100

// udp is a frame with a DSCP and ECN 1.
func udp(dscp byte) []byte {
	const from, to = "10.0.0.1", "10.0.0.2"
	datagram := pkt.UDPDatagram(from, to, 1000, 53, make([]byte, size-14-20-8))
	return frameOf(pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoUDP, TTL: 64, TOS: dscp<<2 | 1}.Packet(datagram))
}

func udp6(dscp byte) []byte {
	const from, to = "fd00::1", "fd00::2"
	datagram := pkt.UDPDatagram(from, to, 1000, 53, make([]byte, size-14-40-8))
	return frameOf(pkt.IPv6Header{From: from, To: to, Next: pkt.ProtoUDP, HopLimit: 64, Class: dscp<<2 | 1}.Packet(datagram))
}

func frameOf(packet []byte) []byte {
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IP(packet).Bytes()
}

// tagged is a frame in a VLAN.
func tagged(frame []byte) []byte {
	return slices.Concat(frame[:12], []byte{0x81, 0x00, 0, 10}, frame[12:])
}

var arp = pkt.Eth("02:00:00:00:00:01", "ff:ff:ff:ff:ff:ff").ARPRequest("02:00:00:00:00:01", "10.0.0.1", "10.0.0.2").Bytes()

// everywhere runs a test at each hook. At TC and in the driver it is called and inlined; generic XDP runs what the driver does.
func everywhere(t *testing.T, test func(t *testing.T, l *bpftest.Lab)) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, test)
	t.Run("xdp_skb", func(t *testing.T) {
		t.Parallel()
		test(t, bpftest.New(t, bpftest.Options{Type: cube.TypeXDPSKB, Hosts: 2}))
	})
}

// policed is a forwarder with the meter p on its first port: packets from veth1 are ingress.
func policed(l *bpftest.Lab, conf string) {
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("meter", "p", conf)
	l.Attach("p", "f:p1")
}

// passes fails the test unless a frame passes p unchanged.
func passes(t *testing.T, l *bpftest.Lab, what, dev string, frame []byte) {
	t.Helper()
	want := bpftest.Outcome{Verdict: "send", Sent: map[string]string{"veth1": "f:p2", "veth2": "f:p1"}[dev]}
	if got := l.Run(dev, frame); got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// exceeds fails the test unless p drops a frame.
func exceeds(t *testing.T, l *bpftest.Lab, what, dev string, frame []byte) {
	t.Helper()
	want := bpftest.Outcome{Verdict: "drop", Fate: map[string]string{"veth1": "p ingress-exceeded", "veth2": "p egress-exceeded"}[dev]}
	if got := l.Run(dev, frame); got != want {
		t.Errorf("%s: %+v, want %+v", what, got, want)
	}
}

// counts are the counters of a limit.
type counts struct {
	ConformingPackets uint64 `json:"conforming-packets"`
	ConformingBytes   uint64 `json:"conforming-bytes"`
	ExceedingPackets  uint64 `json:"exceeding-packets"`
	ExceedingBytes    uint64 `json:"exceeding-bytes"`
}

func countsOf(t *testing.T, l *bpftest.Lab, limit string) (c counts) {
	t.Helper()
	if err := json.Unmarshal([]byte(l.Read(limit)), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A bit per second: the bucket does not fill within a test.
const hardly = `"rate":1,"burst":200`

func TestPacketsAboveTheRateAreDropped(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		policed(l, `{"limit":[{"class":0,"direction":"INGRESS",`+hardly+`},{"class":1,"direction":"EGRESS",`+hardly+`}],
			"dscp":[{"value":46,"class":1}]}`)
		passes(t, l, "within the burst", "veth1", udp(0))
		passes(t, l, "within the burst", "veth1", udp6(10))
		exceeds(t, l, "above the rate", "veth1", udp(0))
		exceeds(t, l, "without an IP header", "veth1", arp)
		passes(t, l, "of a class without a limit", "veth1", udp(46))
		for range 3 {
			passes(t, l, "of a direction without a limit", "veth2", udp(0))
		}
		passes(t, l, "of a class in the other direction", "veth2", udp(46))
		passes(t, l, "of a class in the other direction", "veth2", udp6(46))
		exceeds(t, l, "above that rate", "veth2", udp(46))
		exceeds(t, l, "above that rate, in a VLAN", "veth2", tagged(udp(46)))
		got, want := countsOf(t, l, "p limit 0 INGRESS"), counts{2, 2 * size, 2, size + uint64(len(arp))}
		if got != want {
			t.Errorf("ingress is counted as %+v, want %+v", got, want)
		}
		if got, want := countsOf(t, l, "p limit 1 EGRESS"), (counts{2, 2 * size, 2, 2*size + 4}); got != want {
			t.Errorf("egress is counted as %+v, want %+v", got, want)
		}
	})
}

// TestEachLeafHasAnEffect: each changes the fate or the bytes of the next packet.
func TestEachLeafHasAnEffect(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		policed(l, "")
		passes(t, l, "without a limit", "veth1", udp(0))
		l.Set("POST", "p limit 0 INGRESS", `{"rate":1,"burst":99}`)
		exceeds(t, l, "of more bytes than the burst", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS burst", "100")
		passes(t, l, "of as many", "veth1", udp(0))
		exceeds(t, l, "another one", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS rate", "0")
		passes(t, l, "without a rate", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS rate", "1")
		exceeds(t, l, "with the rate again", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS exceed-action", `"PASS"`)
		passes(t, l, "with exceed-action PASS", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS exceed-action", `"MARK"`)
		for _, dscp := range []string{"0", "8", "63"} {
			l.Set("PATCH", "p limit 0 INGRESS exceed-dscp", dscp)
			marked(t, l, dscp)
		}
		l.Set("PATCH", "p limit 0 INGRESS exceed-action", `"DROP"`)
		l.Set("POST", "p dscp 10", `{"class":3}`)
		passes(t, l, "of another class", "veth1", udp(10))
		l.Set("PATCH", "p dscp 10 class", "0")
		exceeds(t, l, "of class 0", "veth1", udp(10))
		l.Set("DELETE", "p limit 0 INGRESS", "")
		passes(t, l, "after the limit", "veth1", udp(10))

		l.Set("POST", "p limit 0 INGRESS", `{"rate":1,"burst":3,"unit":"PACKETS"}`)
		began, n := time.Now(), 0
		for l.Run("veth1", udp(0)).Verdict == "send" {
			n++
		}
		if most := 3 + int(time.Since(began)/time.Second) + 1; n < 3 || n > most {
			t.Errorf("%d packets pass at once, want 3 to %d", n, most)
		}
		l.Set("PATCH", "p limit 0 INGRESS unit", `"BITS"`)
		exceeds(t, l, "of more bytes than the burst", "veth1", udp(0))
	})
}

// marked fails the test unless packets above the rate get a DSCP, and everything else in them stays.
func marked(t *testing.T, l *bpftest.Lab, dscp string) {
	t.Helper()
	var value byte
	if err := json.Unmarshal([]byte(dscp), &value); err != nil {
		t.Fatal(err)
	}
	for what, frames := range map[string][2][]byte{
		"IPv4":           {udp(26), udp(value)},
		"IPv6":           {udp6(26), udp6(value)},
		"IPv4 in a VLAN": {tagged(udp(26)), tagged(udp(value))},
		"ARP":            {arp, arp},
	} {
		out, got := l.RunBytes("veth1", frames[0])
		if want := (bpftest.Outcome{Verdict: "send", Sent: "f:p2"}); out != want || !slices.Equal(got, frames[1]) {
			t.Errorf("%s marked with %s: %+v\n got %x\nwant %x", what, dscp, out, got, frames[1])
		}
	}
}

// TestARateTakesEffectAtOnceWithoutABurst: when a packet has just found the bucket empty, no more can pass than the new
// rate has carried since.
func TestARateTakesEffectAtOnceWithoutABurst(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		policed(l, `{"limit":[{"class":0,"direction":"INGRESS","rate":1,"burst":1000}]}`)
		for range 10 {
			passes(t, l, "within the burst", "veth1", udp(0))
		}
		const rate = 80_000 // a frame in 10 ms
		last := time.Now()
		exceeds(t, l, "with an empty bucket", "veth1", udp(0))
		l.Set("PATCH", "p limit 0 INGRESS rate", "80000")
		n := 0
		netns.Eventually(t, bpftest.Patience, func() error {
			for range 50 {
				if l.Run("veth1", udp(0)).Verdict == "send" {
					n++
				}
			}
			most := 1 + int(rate/8*time.Since(last).Seconds()/size)
			if n > most {
				t.Fatalf("%d frames pass after the change, the new rate carries %d", n, most)
			}
			if n < 20 {
				return fmt.Errorf("%d frames have passed after the change, want 20", n)
			}
			return nil
		})
		const burst = 10 // frames
		l.Set("PATCH", "p limit 0 INGRESS rate", "100000000000")
		for range 2 * burst {
			passes(t, l, "at 100 Gbit/s", "veth1", udp(0))
		}
		l.Set("PATCH", "p limit 0 INGRESS rate", "1")
		n = 0 // a bucket that was full is full
		for n <= burst && l.Run("veth1", udp(0)).Verdict == "send" {
			n++
		}
		for range burst {
			exceeds(t, l, "with the first rate again", "veth1", udp(0))
		}
	})
}

// TestARestartKeepsBucketsAndCounters: and the next cube with the number has none of them.
func TestARestartKeepsBucketsAndCounters(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		const conf = `{"limit":[{"class":0,"direction":"INGRESS",` + hardly + `}]}`
		policed(l, conf)
		passes(t, l, "the first", "veth1", udp(0))
		passes(t, l, "the second", "veth1", udp(0))
		exceeds(t, l, "the third", "veth1", udp(0))
		l.Restart(nil)
		exceeds(t, l, "after a restart", "veth1", udp(0))
		if got, want := countsOf(t, l, "p limit 0 INGRESS"), (counts{2, 2 * size, 2, 2 * size}); got != want {
			t.Errorf("after a restart: %+v, want %+v", got, want)
		}
		l.Detach("p", "f:p1")
		l.Set("DELETE", "p", "")
		l.Create("meter", "p", conf)
		l.Attach("p", "f:p1")
		passes(t, l, "a new cube", "veth1", udp(0))
		if got, want := countsOf(t, l, "p limit 0 INGRESS"), (counts{1, size, 0, 0}); got != want {
			t.Errorf("a new cube: %+v, want %+v", got, want)
		}
	})
}

// TestALimitThatReturnsCountsFromZero: its counters were another's meanwhile.
func TestALimitThatReturnsCountsFromZero(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		policed(l, `{"limit":[{"class":0,"direction":"INGRESS"},{"class":0,"direction":"EGRESS"}]}`)
		passes(t, l, "in", "veth1", udp(0))
		l.Set("DELETE", "p limit 0 INGRESS", "")
		l.Set("POST", "p limit 1 INGRESS", `{}`)
		passes(t, l, "in, not counted", "veth1", udp(0))
		passes(t, l, "out", "veth2", udp(0))
		l.Set("POST", "p limit 0 INGRESS", `{}`)
		for limit, want := range map[string]counts{"0 INGRESS": {}, "1 INGRESS": {}, "0 EGRESS": {1, size, 0, 0}} {
			if got := countsOf(t, l, "p limit "+limit); got != want {
				t.Errorf("limit %s: %+v, want %+v", limit, got, want)
			}
		}
	})
}

// TestMetersAreApart: those of netdevs run the same programs, and each has buckets, counters and limits of its own.
func TestMetersAreApart(t *testing.T) {
	everywhere(t, func(t *testing.T, l *bpftest.Lab) {
		for name, dev := range map[string]string{"m": "veth1", "n": "veth2"} {
			l.Create("meter", name, "")
			l.Attach(name, dev)
		}
		expect := func(what, dev, verdict, fate string) {
			t.Helper()
			if got, want := l.Run(dev, udp(0)), (bpftest.Outcome{Verdict: verdict, Fate: fate}); got != want {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		linked := l.Linked()
		l.Set("POST", "m limit 0 INGRESS", `{`+hardly+`}`)
		l.Set("POST", "n limit 0 INGRESS", `{`+hardly+`,"exceed-action":"PASS"}`)
		for range 2 {
			expect("within the burst", "veth1", "pass", "m pass")
		}
		expect("above the rate", "veth1", "drop", "m ingress-exceeded")
		for range 3 {
			expect("of the other meter", "veth2", "pass", "n pass")
		}
		for limit, want := range map[string]counts{"m": {2, 2 * size, 1, size}, "n": {2, 2 * size, 1, size}} {
			if got := countsOf(t, l, limit+" limit 0 INGRESS"); got != want {
				t.Errorf("%s: %+v, want %+v", limit, got, want)
			}
		}
		if n := l.Linked(); n > linked {
			t.Errorf("limits link program %d, after %d", n, linked)
		}
	})
}

// TestProgramsHaveNoMapsOfTheCube: so that any number of meters share programs and maps.
func TestProgramsHaveNoMapsOfTheCube(t *testing.T) {
	for _, object := range []string{"meter.tc.o", "meter.xdp.o"} {
		spec, err := ebpf.LoadCollectionSpec(object)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range spec.Programs {
			for i := range p.Instructions {
				name := p.Instructions[i].Reference()
				m := spec.Maps[name]
				if m == nil || strings.HasPrefix(name, ".") || !p.Instructions[i].IsLoadFromMap() {
					continue
				}
				if !slices.ContainsFunc(m.Tags, func(tag string) bool {
					return strings.HasPrefix(tag, "pcn_shared:") || strings.HasPrefix(tag, "pcn_public")
				}) {
					t.Errorf("%s: %s uses map %s of the cube", object, p.Name, name)
				}
			}
		}
	}
}

func TestInvalidLimitsAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	policed(l, `{"limit":[{"class":0,"direction":"INGRESS",`+hardly+`}]}`)
	before := l.Read("p")
	for _, tt := range []struct{ words, body, says string }{
		{"p limit 8 INGRESS", `{}`, "class"},
		{"p limit 1 BOTH", `{}`, "direction"},
		{"p limit 1 INGRESS", `{"rate":1,"burst":4294967295}`, "limit 1 INGRESS: rate: a burst of 4294967295"},
		{"p limit 1 INGRESS", `{"rate":-1}`, "rate"},
		{"p limit 1 INGRESS", `{"exceed-dscp":64}`, "exceed-dscp"},
		{"p dscp 64", `{"class":1}`, "value"},
		{"p dscp 1", `{}`, "class"},
	} {
		if err := l.Try("POST", tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s: %v, want an error with %q", tt.words, tt.body, err, tt.says)
		}
	}
	if after := l.Read("p"); after != before {
		t.Errorf("refused changes have changed\n%s\nto\n%s", before, after)
	}
	passes(t, l, "within the burst", "veth1", udp(0))
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
