// SPDX-License-Identifier: Apache-2.0

// Netdevs are deleted, recreated, set down and up while their ports change: each change is complete, none ends in an
// internal error, other ports lose nothing, and nothing is left behind.

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
)

// steady and flapping are the devices of a site.
var steady, flapping = []string{"d1", "d2"}, []string{"d3", "d4", "d5", "d6"}

func TestNetdevsThatFlapWithinChanges(t *testing.T) {
	t.Parallel()
	rounds, changes := 2, 40
	if soak {
		rounds, changes = 200, 100
	}
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			rounds := rounds
			seed, repeat := seedFor(t)
			if repeat > 0 {
				rounds = repeat
			}
			t.Logf("POLYCUBE_SEED=%d/%d", seed, rounds)
			r := rand.New(rand.NewPCG(seed, 3))
			s := newSite(t)
			before := s.d.settled()
			for _, o := range []model.Op{{Verb: model.AddCube, Cube: "c0", To: model.Bridge, Value: kind}, {Verb: model.AddPort, At: "c0:p1"},
				{Verb: model.AddPort, At: "c0:p2"}, {Verb: model.Connect, At: "c0:p1", To: "d1"}, {Verb: model.Connect, At: "c0:p2", To: "d2"}} {
				s.do(o)
			}
			f := &flaps{site: s, g: &model.Generator{Rand: r, Types: []string{kind}, Standard: 6, Transparent: 4}}
			for round := range rounds {
				f.round(uint64(round), changes)
				if t.Failed() {
					return
				}
			}
			t.Logf("%d changes were taken and %d refused, while %d netdevs went and came", f.taken, f.refused, f.count.Load())
			if f.taken < rounds*changes/4 || f.count.Load() < int64(f.taken/2) {
				t.Error("too little happened")
			}
			s.clear(before)
		})
	}
}

// flaps is a site with flapping devices.
type flaps struct {
	*site
	g              *model.Generator
	count          atomic.Int64
	taken, refused int
}

// round makes changes while devices flap and frames pass between the others; then it checks the result.
func (f *flaps) round(number uint64, changes int) {
	f.t.Helper()
	node := func(name string) *netns.Node {
		return &netns.Node{Namespace: f.hosts[name].ns, MAC: f.hosts[name].mac}
	}
	traffic := startStream(f.t, node(steady[0]), node(steady[1]))
	stop := make(chan struct{})
	var others sync.WaitGroup
	others.Go(func() { f.flap(rand.New(rand.NewPCG(number, 4)), stop) })
	others.Go(func() { f.read(stop) })
	others.Go(func() { f.route(rand.New(rand.NewPCG(number, 5)), stop) })
	f.g.Building = number == 0
	for range changes {
		if f.change(f.draw()); f.t.Failed() {
			break
		}
	}
	close(stop)
	others.Wait()
	if f.t.Failed() {
		return
	}
	traffic.Flowing(100)
	traffic.Stop()
	for _, name := range flapping {
		f.remove(name)
		f.plugIn(f.hosts[name])
	}
	for _, name := range steady {
		_ = f.hosts[name].collect(func([]byte) error { return nil }) // what the stream left
	}
	f.probeAnew()
}

// remove deletes a device that is there.
func (f *flaps) remove(name string) {
	f.t.Helper()
	f.lab.Must(func() error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkDel(l)
	})
}

// flap deletes and recreates devices, or sets them down and up, without a pause.
func (f *flaps) flap(r *rand.Rand, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		p := f.hosts[flapping[r.IntN(len(flapping))]]
		err := f.lab.Do(func() error {
			if r.IntN(4) == 0 {
				return errors.Join(setUp(p.name, false), setUp(p.name, true))
			}
			l, err := netlink.LinkByName(p.name)
			if err == nil {
				err = netlink.LinkDel(l)
			}
			if err != nil {
				return err
			}
			attrs := netlink.NewLinkAttrs()
			attrs.Name = p.name
			veth := &netlink.Veth{LinkAttrs: attrs, PeerName: netns.Inner, PeerNamespace: netlink.NsFd(p.ns.Fd()), PeerHardwareAddr: p.mac}
			if err := netlink.LinkAdd(veth); err != nil {
				return err
			}
			return errors.Join(p.ns.Do(func() error { return setUp(netns.Inner, true) }), setUp(p.name, true))
		})
		if err != nil {
			f.t.Errorf("flapping %s: %v", p.name, err)
			return
		}
		f.count.Add(1)
	}
}

// read reads everything again and again.
func (f *flaps) read(stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		if status, text, err := f.Request(http.MethodGet, "/cubes", ""); err != nil || status != http.StatusOK {
			f.t.Errorf("GET /cubes: status %d, %v: %s", status, err, clip(text))
			return
		}
	}
}

// route creates and deletes a router, which gives its addresses to devices and takes theirs.
func (f *flaps) route(r *rand.Rand, stop chan struct{}) {
	dev := func() string { return flapping[r.IntN(len(flapping))] }
	send := func(method, path, body string) {
		if status, text, err := f.Request(method, path, body); err != nil || status >= http.StatusInternalServerError {
			f.t.Errorf("%s %s %s: status %d, %v: %s", method, path, body, status, err, clip(text))
		}
	}
	defer func() { send("DELETE", "/router/r0", "") }()
	for {
		select {
		case <-stop:
			return
		default:
		}
		switch r.IntN(6) {
		case 0, 1:
			send("POST", "/router/r0", fmt.Sprintf(`{"ports":[{"name":"p1","ip":"198.18.1.1/24","mac":"02:00:00:00:09:01","peer":%q},{"name":"p2","peer":%q}]}`, dev(), dev()))
		case 2, 3:
			send("PATCH", "/router/r0/ports/p1", fmt.Sprintf(`{"ip":"198.18.1.%d/24","peer":%q}`, 1+r.IntN(9), dev()))
		case 4:
			send("PATCH", "/router/r0/ports/p2/peer", fmt.Sprintf("%q", dev()))
		default:
			send("DELETE", "/router/r0", "")
		}
	}
}

// draw draws an operation that leaves the steady ports alone. One of four is about other ports of their cube.
func (f *flaps) draw() model.Op {
	r := f.g.Rand
	for {
		if r.IntN(4) == 0 {
			at, dev := fmt.Sprintf("c0:p%d", 3+r.IntN(2)), flapping[r.IntN(len(flapping))]
			return []model.Op{{Verb: model.AddPort, At: at}, {Verb: model.AddPort, At: at}, {Verb: model.Connect, At: at, To: dev}, {Verb: model.SetPeer, At: at, To: dev},
				{Verb: model.SetPeer, At: at}, {Verb: model.DelPort, At: at}}[r.IntN(6)]
		}
		o := f.g.Next(f.world)
		touches := func(word string) bool {
			return slices.Contains(steady, word) || word == "c0" || strings.HasPrefix(word, "c0:")
		}
		if o.OnDaemon() || o.OnNetdev() || o.Verb == model.DelEntry || touches(o.Cube) || touches(o.At) || touches(o.To) {
			continue
		}
		return o
	}
}

// change executes an operation. The daemon accepts it if the model does, unless it has not found a device, and says
// which.
func (f *flaps) change(o model.Op) {
	f.t.Helper()
	next := f.world.Clone()
	no := next.Apply(o)
	method, path, body := o.Request(f.world.Service(o))
	if f.world.Service(o) == "" {
		path = strings.Replace(path, "//", "/simplebridge/", 1)
	}
	status, text, err := f.Request(method, path, body)
	named := slices.ContainsFunc(flapping, func(dev string) bool { return strings.Contains(text, dev) })
	switch {
	case err != nil || status >= http.StatusInternalServerError:
		f.t.Errorf("%s: status %d, %v: %s", o, status, err, clip(text))
	case status < 300 && no == nil:
		f.taken++
		f.world = next
	case status < 300:
		f.t.Errorf("%s: status %d; the model says: %v", o, status, no)
	case no == nil && !named:
		f.t.Errorf("%s: status %d, %s; the model takes it, and no device is named", o, status, clip(text))
	default:
		f.refused++
	}
}
