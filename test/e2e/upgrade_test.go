// SPDX-License-Identifier: Apache-2.0

// A daemon is killed, and the next one has another version of a service: different code, map layout or model, or
// without the service; or it is of another version itself. Traffic continues throughout, and counts are preserved.

package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

var (
	//go:embed testdata/tally.yang
	tallyModel string
	//go:embed testdata/tally.tc.o
	tallyTC []byte
	//go:embed testdata/tally.xdp.o
	tallyXDP []byte
	//go:embed testdata/tally_wide.tc.o
	tallyWideTC []byte
	//go:embed testdata/tally_wide.xdp.o
	tallyWideXDP []byte
)

// Versions of the service tally, by the machine's version.
const (
	tallyFirst  = "first"
	tallyWide   = "wide"   // wider counters, carried over
	tallyBlunt  = "blunt"  // wider counters, not carried over
	tallyColour = "colour" // no leaf of that name
	tallyNone   = "none"   // the service is not there
)

// narrow and wide are the entries of the versions' maps.
type (
	narrow struct{ Packets, Bytes uint32 }
	wide   struct{ Packets, Bytes uint64 }
)

func registerTally(version string) {
	s := cube.Service{
		Model: tallyModel, Objects: map[cube.Hook][]byte{cube.TC: tallyTC, cube.XDP: tallyXDP}, MaxPorts: 2,
		New: func(env cube.Env) (cube.Instance, error) { return newTally(env, version).instance(), nil },
	}
	switch version {
	case tallyNone:
		return
	case tallyWide:
		s.Migrate = widen
	case tallyColour:
		s.Model = strings.Replace(tallyModel, "leaf colour", "leaf color", 1)
		s.Migrate = widen
	}
	if version != tallyFirst && version != "" {
		s.Objects = map[cube.Hook][]byte{cube.TC: tallyWideTC, cube.XDP: tallyWideXDP}
	}
	cube.Register(s)
}

// widen carries the counters over.
func widen(m cube.Migration) error {
	from, err := table.Of[uint32, narrow](m.Map, m.Old)
	if err != nil {
		return err
	}
	to, err := table.Of[uint32, wide](m.Map, m.New)
	if err != nil {
		return err
	}
	for port, c := range from.All(&err) {
		if err := to.Set(port, wide{uint64(c.Packets), uint64(c.Bytes)}); err != nil {
			return err
		}
	}
	return err
}

type tallyConfig struct {
	Mark uint32 `json:"mark"`
}

type tally struct {
	env   cube.Env
	first bool
}

func newTally(env cube.Env, version string) *tally {
	return &tally{env: env, first: version == tallyFirst || version == ""}
}

func (c *tally) instance() cube.Instance {
	prepare := func(_ context.Context, change cube.ChangeOf[tallyConfig]) (cube.Plan, error) {
		return cube.Plan{Constants: map[string]any{"mark": change.New.Mark}}, nil
	}
	return cube.Instance{Prepare: cube.Typed(prepare), State: c.State}
}

// State returns the sum of the counts.
func (c *tally) State(context.Context, []string) (any, error) {
	var sum uint64
	var err error
	if c.first {
		sum, err = addUp[narrow](c.env, func(n narrow) uint64 { return uint64(n.Packets) })
	} else {
		sum, err = addUp[wide](c.env, func(n wide) uint64 { return n.Packets })
	}
	return map[string]uint64{"counted": sum}, err
}

func addUp[V any](env cube.Env, packets func(V) uint64) (sum uint64, err error) {
	for _, v := range table.New[uint32, V](env, "seen").All(&err) {
		sum += packets(v)
	}
	return sum, err
}

// counted reads how many packets the cube has counted.
func (d *daemon) counted() uint64 {
	d.t.Helper()
	n, err := strconv.ParseUint(strings.TrimSpace(d.Do("t1 show counted")), 10, 64)
	if err != nil {
		d.t.Fatal(err)
	}
	return n
}

// upgraded kills the daemon and starts another version.
func (d *daemon) upgraded(version string) *daemon {
	d.t.Helper()
	d.Kill9()
	d.version = version
	return d.Start()
}

func TestUpgradesOfAServiceUnderTraffic(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			m.own, m.version = true, tallyFirst
			hosts := threeHosts(m, v4)
			d := m.Start()
			d.Must(http.StatusCreated, "POST", "/tally/t1", fmt.Sprintf(`{"type":%q,"mark":7,"colour":"red","ports":[{"name":"a","peer":"veth1"},{"name":"b"}]}`, kind))
			d.Must(http.StatusCreated, "POST", "/simplebridge/br1", fmt.Sprintf(`{"type":%q,"ports":[{"name":"t"},{"name":"z","peer":"veth3"}]}`, kind))
			d.Do("connect t1:b br1:t")
			reaches(t, hosts[0], "10.0.0.3")
			s := startStream(t, hosts[0], hosts[2])
			s.Flowing(400)
			last := d.counted()
			grown := func(when string) {
				t.Helper()
				s.Flowing(400)
				now := d.counted()
				if now <= last {
					t.Errorf("%s the cube has counted %d packets, before %d", when, now, last)
				}
				last = now
			}

			d = d.upgraded(tallyBlunt)
			heldTally(t, d, "map seen has another layout (ValueSize: 8 changed to 16)")
			d.Do("br1 fdb set aging-time=77")
			s.Flowing(400) // the segment was relinked with it

			d = d.upgraded(tallyNone)
			heldTally(t, d, "service tally is not loaded")
			s.Flowing(400)

			d = d.upgraded(tallyFirst)
			grown("by the version that it had,")

			d = d.upgraded(tallyWide)
			grown("after its counters became wide,")

			d = d.upgraded(tallyColour)
			heldTally(t, d, "colour")
			s.Flowing(400)

			d = d.upgraded(tallyWide)
			grown("after a model refused it,")
			if got := strings.TrimSpace(d.Do("t1 show colour")) + strings.TrimSpace(d.Do("t1 show mark")); got != "red7" {
				t.Errorf("its configuration is %s", got)
			}
			s.Stop()

			// If it is deleted while it is held, it is removed completely.
			d = d.upgraded(tallyNone)
			reaches(t, hosts[0], "10.0.0.3")
			d.Must(http.StatusOK, "DELETE", "/simplebridge/t1", "")
			if err := hosts[0].Ping("10.0.0.3", netns.Brief); err == nil {
				t.Error("packets pass a deleted cube")
			}
			if left, err := filepath.Glob(filepath.Join(m.pins, "cubes", "*")); err != nil || len(left) != 1 {
				t.Errorf("maps are left: %v %v", left, err)
			}
		})
	}
}

// TestAnUpgradeLosesNoPhone: an older polycubed and an older polycube-upf are replaced under traffic, in either order. No session is lost, the
// phone loses no packet, and each of its bytes is reported. New programs work with old ones meanwhile.
func TestAnUpgradeLosesNoPhone(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind        string
		daemonFirst bool
	}{{"TC", false}, {"XDP_DRV", true}} {
		t.Run(tt.kind, func(t *testing.T) {
			t.Parallel()
			c := newCoreWith(t, tt.kind, "max-sessions=1000 max-rules=4000", baseline(t, "upf"))
			c.attach()
			const others = 300
			c.establish(1000, 1000+others)
			c.ran.Reaches(t, patience, webServer)
			end := c.numbers().stream(5)
			daemon := func() {
				c.Kill9()
				c.bin = ""
				c.daemon = c.Start()
			}
			upf := func() {
				c.killUPF()
				c.folder = ""
				c.startUPF()
			}
			steps := []func(){upf, daemon}
			if tt.daemonFirst {
				steps = []func(){daemon, upf}
			}
			for _, step := range steps {
				c.modifyAfter(step)
				if n := c.upfStatus().Sessions; n != others+1 {
					t.Errorf("there are %d sessions, want %d", n, others+1)
				}
			}
			if devices := strings.Count(c.Do("u show device -json"), `"tunnel-endpoint"`); devices != others+1 {
				t.Errorf("the cube has %d devices, want %d", devices, others+1)
			}
			if err := inOrder(end()); err != nil {
				t.Error(err)
			}
			c.remove()
			if held := c.daemon.out.String(); strings.Contains(held, "could not be restored") {
				t.Errorf("the daemon has not taken over all cubes:\n%s", tail(held, 20))
			}
		})
	}
}

// heldTally checks that t1 cannot be used, and why.
func heldTally(t *testing.T, d *daemon, why string) {
	t.Helper()
	status, text, err := d.Request("GET", "/tally/t1", "")
	if err != nil || status != http.StatusNotFound {
		t.Fatalf("t1 answers %d %s, %v", status, text, err)
	}
	if d.version == tallyNone { // nor is there a resource for the service
		_, text, _ = d.Request("GET", "/t1", "")
	}
	for _, want := range []string{"could not be restored", why, "continues to forward as before"} {
		if !strings.Contains(text, want) {
			t.Errorf("t1 answers %s, without %q", text, want)
		}
	}
	if log := d.out.String(); !strings.Contains(log, why) || !strings.Contains(log, "continues to forward with its previous programs") {
		t.Errorf("the daemon does not say %q:\n%s", why, tail(log, 20))
	}
}
