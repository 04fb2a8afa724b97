// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// table is a data plane of which a test sets the counters.
type table struct {
	names []string
	fates map[string][]datapath.Fate
}

func (c *table) CubeNames() []string { return c.names }

func (c *table) Fates(name string) ([]datapath.Fate, error) {
	if c.fates[name] == nil {
		return nil, cube.ErrNotFound
	}
	return c.fates[name], nil
}

func (c *table) FrameworkFates() ([]datapath.Fate, error) { return c.Fates(Framework) }

// at a second the counters of br1 (no-peer), br2 (loop) and the framework (no-program) stand so;
// -1 is a cube that is not there.
type second struct {
	br1, br2, framework int
	want                string
}

func TestDropsTellWhoDropsHowManyNowAndSinceWhen(t *testing.T) {
	tests := map[string][]second{
		"nothing yet": {{0, 0, 0, ""}},
		"before the daemon": {
			{7, 0, 0, "br1 no-peer 7 0/s - -; "},
			{7, 0, 0, "br1 no-peer 7 0/s - -; "},
			{9, 0, 0, "br1 no-peer 9 2/s - 2; "},
			{9, 0, 0, "br1 no-peer 9 0/s - 2; "},
		},
		"since a time": {
			{0, 0, 0, ""},
			{10, 0, 4, "br1 no-peer 10 10/s 1 1; framework no-program 4 4/s 1 1; "},
			{30, 0, 4, "br1 no-peer 30 20/s 1 2; framework no-program 4 0/s 1 1; "},
		},
		"a cube made again under its name": {
			{9, 5, 0, "br1 no-peer 9 0/s - -; br2 loop 5 0/s - -; "},
			{2, 5, 0, "br1 no-peer 2 2/s 1 1; br2 loop 5 0/s - -; "},
			{0, 5, 0, "br2 loop 5 0/s - -; "},
			{1, 5, 0, "br1 no-peer 1 1/s 3 3; br2 loop 5 0/s - -; "},
		},
		"a cube that goes": {
			{9, 5, 0, "br1 no-peer 9 0/s - -; br2 loop 5 0/s - -; "},
			{9, -1, 0, "br1 no-peer 9 0/s - -; "},
		},
	}
	for name, seconds := range tests {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1_700_000_000, 0)
			now := start
			from := &table{}
			d := NewDrops(from, func() time.Time { return now })
			for i, s := range seconds {
				now = start.Add(time.Duration(i) * time.Second)
				from.set(s)
				d.Sample()
				got, err := d.Report("")
				if err != nil {
					t.Fatal(err)
				}
				if line := show(got, start); line != s.want {
					t.Errorf("second %d: %q, want %q", i, line, s.want)
				}
			}
		})
	}
}

func (c *table) set(s second) {
	c.names, c.fates = nil, map[string][]datapath.Fate{}
	for _, one := range []struct {
		name, reason string
		packets      int
	}{{"br1", "no-peer", s.br1}, {"br2", "loop", s.br2}, {Framework, "no-program", s.framework}} {
		if one.packets < 0 {
			continue
		}
		if one.name != Framework {
			c.names = append(c.names, one.name)
		}
		c.fates[one.name] = []datapath.Fate{
			{Name: "pass", Packets: 1000}, {Name: one.reason, Drop: true, Packets: uint64(one.packets)},
		}
	}
}

func show(drops []Drop, start time.Time) string {
	var out string
	when := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return fmt.Sprint(int(t.Sub(start).Seconds()))
	}
	for _, d := range drops {
		out += fmt.Sprintf("%s %s %d %d/s %s %s; ", d.Cube, d.Reason, d.Packets, d.PerSecond, when(d.First), when(d.Last))
	}
	return out
}

func TestDropsOfOneCube(t *testing.T) {
	from := &table{}
	from.set(second{br1: 3, br2: 4, framework: 5})
	from.fates["br1"] = append(from.fates["br1"], datapath.Fate{Name: "worse", Drop: true, Packets: 8})
	d := NewDrops(from, nil)
	d.Sample()
	for name, want := range map[string]string{
		"br1": "br1 worse 8 0/s - -; br1 no-peer 3 0/s - -; ", Framework: "framework no-program 5 0/s - -; ",
	} {
		got, err := d.Report(name)
		if line := show(got, time.Time{}); err != nil || line != want {
			t.Errorf("%s: %q, %v, want %q", name, line, err, want)
		}
	}
	if _, err := d.Report("nobody"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a cube that is not there: %v", err)
	}
}
