// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// listeners open a receiver on each host.
func (b *bench) listeners(hosts ...*netns.Node) []*netns.Raw {
	var out []*netns.Raw
	for _, h := range hosts {
		out = append(out, netns.OpenRaw(b.t, h, netns.Inner))
	}
	return out
}

// receives fails unless the host gets the frame exactly once.
func (b *bench) receives(r *netns.Raw, name string, f []byte) {
	b.t.Helper()
	got, err := r.Recv(isTest, soon)
	if err != nil {
		b.t.Fatalf("%s got no copy: %v", name, err)
	}
	if !bytes.Equal(got, f) {
		b.t.Errorf("%s got % x, want % x", name, got, f)
	}
	if again, err := r.Recv(isTest, 0); err == nil {
		b.t.Errorf("%s got a second copy % x", name, again)
	}
}

func TestFloodReachesEveryOtherPortOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 5, map[string]any{"what": uint32(2)})
		var hosts []*netns.Node
		for i := range uint16(4) {
			hosts = append(hosts, b.host(fmt.Sprintf("h%d", i), "", c, i))
		}
		b.commit()
		for from := range hosts {
			ls := b.listeners(hosts...)
			f := frame(fmt.Sprint("from ", from))
			b.send(hosts[from], f)
			for i, r := range ls {
				if i != from {
					b.receives(r, hosts[i].Outer, f)
				} else if back, err := r.Recv(isTest, 0); err == nil {
					t.Errorf("%s got its own frame back: % x", hosts[i].Outer, back)
				}
			}
		}
		if got := b.fate(c, "flood"); got != 4 {
			t.Errorf("%d packets flooded, want 4", got)
		}
		for i := range uint16(4) {
			want := PortCounters{RxPackets: 1, RxBytes: 64, TxPackets: 3, TxBytes: 3 * 64}
			if got := b.counters(c, i); got != want {
				t.Errorf("port %d: %+v, want %+v", i, got, want)
			}
		}
	})
}

// withHelpers reopens the plane with the interfaces through which copies re-enter.
func (b *bench) withHelpers() {
	b.t.Helper()
	b.close()
	b.lab.Host("tap", "") // at TC any interface can do this
	b.must(func() error {
		tap, err := ifindex("tap")
		if err != nil {
			return err
		}
		b.opts.Taps = map[cube.Hook]int{cube.TC: tap}
		b.opts.Loop, err = OpenLoop("loop")
		return err
	})
	b.open()
	b.must(func() error { return b.plane.AttachTap(cube.TC, b.opts.Taps[cube.TC]) })
	b.must(b.plane.AttachLoop)
}

func TestFloodRunsTheProgramsBehindPorts(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.withHelpers()
		center := b.cube("probe", 5, map[string]any{"what": uint32(2)})
		src, plain := b.host("src", "", center, 0), b.host("plain", "", center, 1)
		gated := b.host("gated", "", center, 2)
		center.Ports[2].Tcubes = b.gates("g")
		var far []*netns.Node
		for i := range uint16(2) {
			n := b.cube("probe", 2, map[string]any{"what": uint32(6)})
			b.link(center, 3+i, n, 0)
			far = append(far, b.host(fmt.Sprintf("far%d", i), "", n, 1))
		}
		b.commit()
		hosts := []*netns.Node{src, plain, gated, far[0], far[1]}
		for from, sender := range hosts {
			ls := b.listeners(hosts...)
			f := frame("to all from " + sender.Outer)
			b.send(sender, f)
			for i, r := range ls {
				want, name := bytes.Clone(f), fmt.Sprintf("%s, from %s,", hosts[i].Outer, sender.Outer)
				if (i == 2) != (from == 2) {
					want[14] = 'g' // once through the gate, inbound or outbound
				}
				if i == from {
					continue
				}
				b.receives(r, name, want)
			}
			if back, err := ls[from].Recv(isTest, 0); err == nil {
				t.Errorf("%s got its own frame back: % x", sender.Outer, back)
			}
		}
		if got := b.fate(center, "slowpath-shed") + b.fate(center, "copy-failed"); got != 0 {
			t.Errorf("%d copies went to user space or were lost", got)
		}
	})
}
