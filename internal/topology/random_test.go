// SPDX-License-Identifier: Apache-2.0

package topology

// Random requests, some of which fail at a random step, and invariants.

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// randomLine makes a request that may be invalid.
func randomLine(r *rand.Rand) string {
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	br, th, p := pick("b1", "b2", "x1"), pick("t1", "t2", "t3", "y1"), pick("p1", "p2", "p3")
	port := br + ":" + p
	dev := pick("veth1", "veth2", "veth3", "nodev0")
	spot := pick(port, dev)
	peer := pick(dev, "", pick("b1", "b2", "x1")+":"+pick("p1", "p2", "p3"))
	typ := "TC"
	if br == "x1" {
		typ = "XDP_DRV"
	}
	ttyp := "TC"
	if th == "y1" {
		ttyp = "XDP_DRV"
	}
	switch r.IntN(14) {
	case 0:
		return fmt.Sprintf(`create toybridge %s <<< {"type":%q,"ports":[{"name":"p1","peer":%q},{"name":"p2"}]}`, br, typ, pick("", "", peer))
	case 1:
		return fmt.Sprintf(`create toyfilter %s <<< {"type":%q}`, th, ttyp)
	case 2:
		return "delete " + pick(br, th)
	case 3, 4:
		return fmt.Sprintf(`connect %s %s`, port, pick(dev, pick("b1", "b2", "x1")+":"+pick("p1", "p2", "p3")))
	case 5:
		return fmt.Sprintf(`disconnect %s %s`, port, pick(dev, pick("b1", "b2", "x1")+":"+pick("p1", "p2", "p3")))
	case 6, 7:
		return fmt.Sprintf(`attach %s %s %s`, th, spot, pick("", "position=first", "position=last", "before=t1", "after=t2"))
	case 8:
		return fmt.Sprintf(`detach %s %s`, th, spot)
	case 9:
		return fmt.Sprintf(`post %s ports %s <<< {"peer":%q,"tcubes":[%q]}`, br, p, peer, th)
	case 10:
		return fmt.Sprintf(`del %s ports %s`, br, p)
	case 11:
		return fmt.Sprintf(`patch %s ports %s peer <<< %q`, br, p, peer)
	case 12:
		return fmt.Sprintf(`put %s ports <<< [{"name":"p1","peer":%q},{"name":%q,"mac":"m"}]`, br, peer, pick("p2", "p3"))
	}
	return fmt.Sprintf(`patch %s <<< {"fdb":{"aging-time":%d},"loglevel":%q}`, br, r.IntN(400), pick("INFO", "DEBUG"))
}

// wantSound checks the invariants.
func (l *lab) wantSound() {
	l.t.Helper()
	w := l.view.Load()
	if !reflect.DeepEqual(l.plane.now(), w.Graph()) {
		l.t.Fatalf("the data plane's graph is not the world's:\n%+v\n%+v", l.plane.now(), w.Graph())
	}
	if len(l.plane.cubes) != len(w.Cubes) || len(w.Units) != len(w.Cubes) {
		l.t.Fatalf("%d cubes, %d units, %d sets of maps", len(w.Cubes), len(w.Units), len(l.plane.cubes))
	}
	if err := (&settling{&editing{txn: &txn{old: unit.NewSnapshot(), next: w}}}).checkHooks(); err != nil {
		l.t.Fatal(err)
	}
	parents, slots := map[string]string{}, map[uint16]string{}
	put := func(name, where string) {
		if parents[name] != "" {
			l.t.Fatalf("%s is attached to %s and %s", name, parents[name], where)
		}
		parents[name] = where
	}
	for dev, chain := range w.Chains {
		for _, name := range chain {
			put(name, dev)
		}
	}
	for _, rec := range w.InOrder() {
		for _, p := range rec.PortsByIndex() {
			me := world.Place{Cube: rec.Name, Port: p.Name}.String()
			for _, name := range p.Tcubes {
				put(name, me)
			}
			if slots[p.Slot] != "" {
				l.t.Fatalf("%s has the slot of %s", me, slots[p.Slot])
			}
			slots[p.Slot] = me
			l.wantSoundPeer(w, p, me)
		}
	}
	for _, rec := range w.InOrder() {
		if rec.Parent != parents[rec.Name] {
			l.t.Fatalf("%s says that it is at %q, it is at %q", rec.Name, rec.Parent, parents[rec.Name])
		}
	}
	for peer, holders := range w.AllHolders() {
		if len(holders) > 1 {
			l.t.Fatalf("%s is the peer of %v", peer, holders)
		}
	}
}

func (l *lab) wantSoundPeer(w *unit.Snapshot, p *world.Port, me string) {
	l.t.Helper()
	if !strings.Contains(p.Peer, ":") {
		return
	}
	at, err := world.ParsePlace(p.Peer)
	if err != nil {
		l.t.Fatal(err)
	}
	_, other, err := w.PortAt(at)
	if err != nil {
		l.t.Fatalf("%s has the peer %s: %v", me, p.Peer, err)
	}
	if other.Peer != "" && other.Peer != me {
		l.t.Fatalf("%s has the peer %s, which has %s", me, p.Peer, other.Peer)
	}
}

func TestRandomRequests(t *testing.T) {
	const rounds, requests = 12, 150
	done, refused := 0, 0
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := newLab(t, "veth1", "veth2", "veth3")
		for range requests {
			line := randomLine(r)
			left := r.IntN(40)
			fail := func(string) error {
				if left--; left == 0 {
					return errInjected
				}
				return nil
			}
			before := l.state()
			l.plane.setFail(fail)
			l.b.setFail(func(call string) error {
				if strings.Contains(call, "Prepare") || strings.Contains(call, "Commit") {
					return fail(call)
				}
				return nil
			})
			err := l.do(line)
			l.plane.setFail(nil)
			l.b.setFail(nil)
			done++
			if err != nil {
				refused++
				if l.wantState(before); t.Failed() {
					t.Fatalf("seed %d: after the refused %s: %v", seed, line, err)
				}
			}
			if l.wantSound(); t.Failed() {
				t.Fatalf("seed %d: after %s", seed, line)
			}
			if r.IntN(10) == 0 {
				l.NetdevEvent(randomEvent(l, r))
				l.wantSound()
			}
			if r.IntN(30) == 0 {
				before := l.state()
				l.restart()
				l.wantState(before)
				l.wantSound()
			}
		}
	}
	if refused < done/10 || refused > done*9/10 {
		t.Errorf("%d of %d requests were refused: too one-sided to prove anything", refused, done)
	}
}

// randomEvent removes or adds one of the netdevs, with another index.
func randomEvent(l *lab, r *rand.Rand) netdev.Event {
	name := []string{"veth1", "veth2", "veth3"}[r.IntN(3)]
	if infos, _ := l.devs.List(); slices.ContainsFunc(infos, func(i netdev.Info) bool { return i.Name == name }) {
		return netdev.Event{Kind: netdev.Removed, Info: l.devs.remove(name)}
	}
	return netdev.Event{Kind: netdev.Added, Info: l.devs.set(netdev.Info{Name: name, Index: 100 + r.IntN(1000), Up: r.IntN(4) > 0, Carrier: true})}
}
