// SPDX-License-Identifier: Apache-2.0

// Changes while no daemon runs: devices change, and changes are in progress when it is killed.

package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// awayChanges are events of veth1 and veth2, ports p1 and p2 of a forwarder that sends frames from p1 to p3 and drops
// those from p2.
var awayChanges = []struct {
	name     string
	change   []string // commands in the lab
	remake   bool     // recreate veth1, with another host behind it
	gone     bool     // veth1 is gone
	p1, p2   string   // status after the next start
	from     int      // the host that reaches p3 then, 0 for none
	back     []string // commands that restore the previous state
	backFrom int
}{
	{name: "nothing", p1: "UP", p2: "UP", from: 1},
	{name: "a device is deleted", change: []string{"link del veth1"}, gone: true, p1: "DOWN", p2: "UP"},
	{name: "a device is deleted and made again", change: []string{"link del veth1"}, remake: true, p1: "UP", p2: "UP", from: 1},
	{name: "a device gets another name", change: []string{"link set veth1 name other"}, p1: "DOWN", p2: "UP",
		back: []string{"link set other name veth1"}, backFrom: 1},
	{name: "two devices swap their names", change: []string{"link set veth1 name x", "link set veth2 name veth1", "link set x name veth2"},
		p1: "UP", p2: "UP", from: 2},
	{name: "a device is switched off", change: []string{"link set veth1 down"}, p1: "DOWN", p2: "UP",
		back: []string{"link set veth1 up"}, backFrom: 1},
	{name: "a device gets other addresses and another MTU", change: []string{"link set veth1 address 02:00:00:00:07:07", "addr add 10.7.7.7/24 dev veth1",
		"link set veth1 mtu 1400"}, p1: "UP", p2: "UP", from: 1},
}

func TestDevicesChangeWhileNoDaemonRuns(t *testing.T) {
	t.Parallel()
	away := 300 * time.Millisecond
	if soak {
		away = time.Minute
	}
	for i, kind := range types {
		for n, c := range awayChanges {
			if !soak && i > 0 && n%len(types) != i {
				continue // each of them on one more hook
			}
			t.Run(kind+", "+c.name, func(t *testing.T) {
				t.Parallel()
				d := start(t)
				hosts := threeHosts(d.machine, v4)
				d.forwarder(kind)
				bystanders := [2]*netns.Node{d.lab.Host("veth8", ""), d.lab.Host("veth9", "")}
				d.Must(http.StatusCreated, "POST", "/simplebridge/br1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"p1","peer":"veth8"},{"name":"p2","peer":"veth9"}]}`, kind))
				d.onlyFrom(hosts[:], 1)
				s := startStream(t, bystanders[0], bystanders[1])
				began := time.Now()
				d.Kill9()
				for _, line := range c.change {
					d.lab.Run("ip", strings.Fields(line)...)
				}
				switch {
				case c.remake:
					hosts[0] = d.lab.Host("veth1", "")
				case c.gone:
					hosts[0] = nil
				}
				for time.Since(began) < away {
					s.Flowing(200)
				}
				d = d.Start()
				d.ports(c.p1, c.p2)
				d.onlyFrom(hosts[:], c.from)
				if c.back != nil {
					for _, line := range c.back {
						d.lab.Run("ip", strings.Fields(line)...)
					}
					d.ports("UP", "UP")
					d.onlyFrom(hosts[:], c.backFrom)
				}
				s.Stop()
			})
		}
	}
}

// forwarder creates f1 with ports p1 to p3 on veth1 to veth3.
func (m *machine) forwarder(kind string) {
	m.t.Helper()
	m.Must(http.StatusCreated, "POST", "/simpleforwarder/f1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},
		{"name":"p3","peer":"veth3"}],"actions":[{"inport":"p1","action":"FORWARD","outport":"p3"},{"inport":"p2","action":"DROP"}]}`, kind))
}

// ports waits until p1 and p2 of f1 have a status.
func (m *machine) ports(p1, p2 string) {
	m.t.Helper()
	netns.Eventually(m.t, patience, func() error {
		var got []struct{ Name, Status string }
		m.Get("/simpleforwarder/f1/ports", &got)
		for i, want := range []string{p1, p2} {
			if len(got) < 2 || got[i].Status != want {
				return fmt.Errorf("ports are %v, want p1 %s and p2 %s", got, p1, p2)
			}
		}
		return nil
	})
}

// onlyFrom sends frames from the first two hosts; those of the host with this number reach the third, the others
// nobody.
func (m *machine) onlyFrom(hosts []*netns.Node, number int) {
	m.t.Helper()
	to := netns.OpenRaw(m.t, hosts[2], netns.Inner)
	var frames [2][]byte
	var from [2]*netns.Raw
	for i, h := range hosts[:2] {
		if h != nil {
			from[i] = netns.OpenRaw(m.t, h, netns.Inner)
			frames[i] = pkt.EthernetFrame(hosts[2].MAC, h.MAC, streamType, append([]byte{byte(i + 1)}, noise(40)...))
		}
	}
	netns.Eventually(m.t, patience, func() error {
		for i, r := range from {
			if r == nil {
				continue
			}
			if err := r.Send(frames[i]); err != nil && number == i+1 {
				return err
			}
		}
		f, err := to.Recv(isStream, 20*time.Millisecond)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			if number != 0 {
				return fmt.Errorf("nothing comes from host %d", number)
			}
		case err != nil:
			return err
		case number == 0 || !slices.Equal(f, frames[number-1]):
			return fmt.Errorf("a frame of host %d comes, want those of %d", f[14], number)
		}
		return nil
	})
}

// TestKilledWithinAChange: acknowledged changes are there after a kill, and others are there completely or not at all.
func TestKilledWithinAChange(t *testing.T) {
	t.Parallel()
	kills := 4
	if soak {
		kills = 400
	}
	for _, mix := range mixes {
		t.Run(mix.name, func(t *testing.T) {
			t.Parallel()
			kills := kills
			seed, repeat := seedFor(t)
			if repeat > 0 {
				kills = repeat
			}
			t.Logf("POLYCUBE_SEED=%d/%d", seed, kills)
			s := newSite(t, mix.args...)
			r := rand.New(rand.NewPCG(seed, 2))
			g := &model.Generator{Rand: r, Types: mix.types, Standard: 7, Transparent: 5}
			before := s.d.settled()
			for kill := range kills {
				s.killedAmidst(g, r, kill)
				if t.Failed() {
					return
				}
			}
			s.clear(before)
		})
	}
}

// killedAmidst sends requests as fast as they are answered, kills the daemon at some moment, and checks the state of
// the next one.
func (s *site) killedAmidst(g *model.Generator, r *rand.Rand, kill int) {
	s.t.Helper()
	type answer struct {
		op      model.Op
		refused error
		world   *model.World
	}
	var last answer // the unanswered one
	answered, stopped := make(chan struct{}, 1000), make(chan struct{})
	world := s.world.Clone()
	go func() {
		defer close(stopped)
		for {
			g.Building = r.IntN(3) > 0
			o := g.Next(world)
			if o.OnDaemon() || o.OnNetdev() || o.Verb == model.DelEntry {
				continue // whether a learned address is still known is not waited for here
			}
			next := world.Clone()
			last = answer{o, next.Apply(o), next}
			method, path, body := o.Request(world.Service(o))
			status, text, err := s.Request(method, path, body)
			if err != nil {
				return
			}
			if done := status < 300; done != (last.refused == nil) {
				s.t.Errorf("%s: status %d, %s; the model says: %v", o, status, clip(text), last.refused)
				return
			}
			world = next
			answered <- struct{}{}
		}
	}()
	for range 5 + kill%7 {
		select {
		case <-answered:
		case <-stopped:
		case <-time.After(patience):
			s.t.Error("no answer")
		}
	}
	<-time.After(time.Duration(kill*7%23) * time.Millisecond)
	s.d.Kill9()
	<-stopped
	if s.t.Failed() {
		return
	}
	s.d = s.machine.Start(s.args...)
	s.eitherOf(world, last.world, last.op)
	s.probeAnew()
}

// eitherOf makes the world that the daemon has, of two possible ones, the site's.
func (s *site) eitherOf(without, with *model.World, o model.Op) {
	s.t.Helper()
	status, text, err := s.Request(http.MethodGet, "/cubes", "")
	if err != nil || status != http.StatusOK {
		s.t.Fatalf("GET /cubes: status %d, %v", status, err)
	}
	got, err := flatten(text)
	if err != nil {
		s.t.Fatal(err)
	}
	s.world = with
	errWith := differ(got, s.wanted())
	if errWith == nil {
		return
	}
	s.world = without
	if errWithout := differ(got, s.wanted()); errWithout != nil {
		s.t.Fatalf("killed within %s; compared with what was answered, %v\nand if it was done, %v", o, errWithout, errWith)
	}
}

// probeAnew sends frames when the learned addresses of bridges are unknown.
func (s *site) probeAnew() {
	s.t.Helper()
	for _, name := range s.world.Names() {
		if s.world.Cubes[name].Service == model.Bridge {
			s.do(model.Op{Verb: model.Flush, Cube: name})
		}
	}
	s.configured()
	s.last = s.counters()
	s.step++
	s.probe()
}
