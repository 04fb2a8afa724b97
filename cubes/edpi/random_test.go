// SPDX-License-Identifier: Apache-2.0

package edpi_test

// Random packets of random flows, with decisions in between, beside a model that knows what must have been counted.

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// oracle is the model of a flow.
type oracle struct {
	packets, bytes [2]int // from the source, and to it
	source         int    // the end that sent the first packet
	protocol       string
}

// randomFrame is a packet between ends a and b of flow n, from end `from`.
func randomFrame(rng *rand.Rand, n, from int) []byte {
	macs := [2]string{clientMAC, serverMAC}
	v4, v6 := [2]string{client, server}, [2]string{"2001:db8::1", "2001:db8::2"}
	ports := [2]uint16{uint16(1000 + n/4), uint16(2000 + n/4)}
	f := pkt.Eth(macs[from], macs[1-from])
	if rng.IntN(4) == 0 {
		f = f.VLAN(uint16(1 + rng.IntN(100)))
	}
	if n%2 == 0 {
		f = f.IPv4(v4[from], v4[1-from])
	} else {
		f = f.IPv6(v6[from], v6[1-from])
	}
	if n%4 < 2 {
		f = f.UDP(ports[from], ports[1-from])
	} else {
		f = f.TCP(ports[from], ports[1-from], pkt.TCPFlags{ACK: true})
	}
	return f.Payload(rng.IntN(1200)).Bytes()
}

func TestRandomPacketsAreCountedOnce(t *testing.T) {
	seed := repeat.Seed(t)
	each(t, `{"elephant-bytes":0}`, func(t *testing.T, r *rig) {
		r.announce()
		rng := rand.New(rand.NewPCG(seed, 1))
		flows := map[int]*oracle{}
		classes := []struct {
			name  string
			class dpi.Class
		}{{"DNS", dpi.Class{Protocol: dns}}, {"YouTube", dpi.Class{Protocol: video, Master: tls, Category: media}}, {"Unknown", dpi.Class{}}}
		for range 600 {
			n, from := rng.IntN(24), rng.IntN(2)
			frame := randomFrame(rng, n, from)
			r.run("a packet", []string{"veth1", "veth2"}[from], frame, "")
			o := flows[n]
			if o == nil {
				o = &oracle{source: from}
				flows[n] = o
			}
			side := from ^ o.source
			o.packets[side], o.bytes[side] = o.packets[side]+1, o.bytes[side]+len(frame)
			if o.protocol == "" && rng.IntN(10) == 0 {
				c := classes[rng.IntN(len(classes))]
				r.decide(frame, c.class)
				o.protocol = c.name
			}
		}
		r.agree(flows)
		var top struct{ Flow []entry }
		if err := json.Unmarshal([]byte(r.Action("c flows", `{"count":5}`)), &top); err != nil {
			t.Fatal(err)
		}
		heavier := func(a, b entry) int { return b.Bytes + b.ReplyBytes - a.Bytes - a.ReplyBytes }
		all := r.entries()
		slices.SortFunc(all, heavier)
		if len(top.Flow) != 5 || !slices.IsSortedFunc(top.Flow, heavier) || heavier(top.Flow[4], all[4]) != 0 {
			t.Errorf("the heaviest flows are %+v, want the first five of %+v", top.Flow, all)
		}
	})
}

// agree compares flows and sums with the model.
func (r *rig) agree(flows map[int]*oracle) {
	r.t.Helper()
	seen := map[string]entry{}
	for _, e := range r.entries() {
		v6 := 0
		if len(e.Source) > 10 {
			v6 = 1
		}
		if e.L4 == "TCP" {
			v6 += 2
		}
		seen[fmt.Sprint((min(e.SourcePort, e.DestinationPort)-1000)*4+v6)] = e
	}
	want := map[string]class{}
	for n, o := range flows {
		e := seen[fmt.Sprint(n)]
		if got := [4]int{e.Packets, e.Bytes, e.ReplyPackets, e.ReplyBytes}; got != [4]int{o.packets[0], o.bytes[0], o.packets[1], o.bytes[1]} || e.Application != o.protocol {
			r.t.Errorf("flow %d has %v and is %q, want %+v", n, got, e.Application, *o)
		}
		name := o.protocol
		if name == "" {
			name = "undecided"
		}
		c := want[name]
		c.Name = name
		c.Flows, c.Packets, c.Bytes = c.Flows+1, c.Packets+uint64(o.packets[0]+o.packets[1]), c.Bytes+uint64(o.bytes[0]+o.bytes[1])
		want[name] = c
	}
	netns.Eventually(r.t, bpftest.Patience, func() error { // the daemon moves what was decided after the last packet
		got := r.classes("protocol")
		for name, c := range want {
			if got[name] != c {
				return fmt.Errorf("%s has %+v, want %+v", name, got[name], c)
			}
		}
		return nil
	})
}

func TestFramesOfRandomBytesAreCounted(t *testing.T) {
	seed := repeat.Seed(t)
	each(t, "", func(t *testing.T, r *rig) {
		rng := rand.New(rand.NewPCG(seed, 2))
		const frames = 200
		for range frames {
			frame := randomFrame(rng, rng.IntN(24), 0)
			for range rng.IntN(8) {
				frame[12+rng.IntN(len(frame)-12)] = byte(rng.Uint32())
			}
			frame = frame[:min(len(frame), max(54, rng.IntN(len(frame)+1)))] // test runs at TC take no shorter ones
			if _, _, err := r.TryBytes("veth1", frame); err != nil {
				t.Fatalf("%x: %v", frame, err)
			}
		}
		sum := uint64(0)
		for _, c := range r.classes("protocol") {
			sum += c.Packets
		}
		if sum != frames {
			t.Errorf("%d packets are counted, want %d", sum, frames)
		}
	})
}
