// SPDX-License-Identifier: Apache-2.0

package perf

// The start of a daemon with a large topology of several kinds of cubes, until its programs are those that stay.

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

// A topology of five routers; each has four lines of ten bridges with ten ports, and a transparent cube on the port to its
// uplink, but the last: 209 cubes with 2,025 ports.
const (
	startRouters, startLines, startLine, startPorts = 5, 4, 10, 10
	startSettled                                    = 30 * time.Second
)

// startTopology is the topology as a document of cubes. netdevs are those that it needs.
func startTopology(quick bool) (document string, netdevs []string, cubes, ports int) {
	routers := startRouters
	if quick {
		routers = 1
	}
	type port map[string]any
	var all []map[string]any
	netdev := func(format string, args ...any) string {
		name := fmt.Sprintf(format, args...)
		netdevs = append(netdevs, name)
		return name
	}
	add := func(service, name string, rest map[string]any) {
		rest["service-name"], rest["name"] = service, name
		all = append(all, rest)
	}
	for r := range routers {
		uplink := []port{{"name": "up", "ip": fmt.Sprintf("10.%d.0.1/24", r), "peer": netdev("r%d", r)}}
		for line := range startLines {
			uplink = append(uplink, port{"name": fmt.Sprintf("l%d", line), "ip": fmt.Sprintf("10.%d.%d.1/24", r, line+1),
				"peer": fmt.Sprintf("b%d_%d_0:up", r, line)})
			for i := range startLine {
				up, down := fmt.Sprintf("r%d:l%d", r, line), fmt.Sprintf("b%d_%d_%d:up", r, line, i+1)
				if i > 0 {
					up = fmt.Sprintf("b%d_%d_%d:down", r, line, i-1)
				}
				members := []port{{"name": "up", "peer": up}, {"name": "host", "peer": netdev("h%d_%d_%d", r, line, i)}}
				if i < startLine-1 {
					members = append(members, port{"name": "down", "peer": down})
				}
				for p := len(members); p < startPorts; p++ {
					members = append(members, port{"name": fmt.Sprintf("p%d", p)})
				}
				ports += len(members)
				add("simplebridge", fmt.Sprintf("b%d_%d_%d", r, line, i), map[string]any{"ports": members})
			}
		}
		ports += len(uplink)
		add("router", fmt.Sprintf("r%d", r), map[string]any{"ports": uplink})
		if r < startRouters-1 {
			add([]string{"nat", "transparenthelloworld"}[r%2], fmt.Sprintf("t%d", r), map[string]any{"parent": fmt.Sprintf("r%d:up", r)})
		}
	}
	text, _ := json.Marshal(all) // of strings and numbers alone
	return string(text), netdevs, len(all), ports
}

// manyKinds measures starts with the topology, after a kill.
func manyKinds(ctx context.Context, r *Run) (*report.Table, []report.Check, error) {
	document, netdevs, cubes, ports := startTopology(r.Quick)
	var answers, inlined report.Sample
	rounds := r.rounds(7, 2)
	r.progress("daemon: start with %d cubes and %d ports, %d times", cubes, ports, rounds)
	err := lab.With(ctx, func(rig *lab.Rig) error {
		w, err := rig.NewWire(1)
		if err != nil {
			return err
		}
		for _, name := range netdevs {
			if err := w.Spare(name); err != nil {
				return err
			}
		}
		d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(r.Root, "bin"))
		if err != nil {
			return err
		}
		if _, err := d.Start(); err != nil {
			return err
		}
		if err := d.Request("POST", "/cubes", document); err != nil {
			return err
		}
		if err := allInlined(d); err != nil {
			return err
		}
		for range rounds {
			if err := d.Kill(); err != nil {
				return err
			}
			began := time.Now()
			took, err := d.Start()
			if err == nil {
				err = allInlined(d)
			}
			if err != nil {
				return err
			}
			answers, inlined = append(answers, took.Seconds()), append(inlined, time.Since(began).Seconds())
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	t := &report.Table{
		Title:   "Start with cubes of four kinds, s",
		Columns: []string{"cubes", "ports", "API back", "all inlined"},
		Notes: []string{"Routers with lines of bridges, and NATs and other transparent cubes on their uplinks. The daemon was killed before; " +
			"its programs forward until the new ones take over."},
	}
	t.Add(fmt.Sprint(cubes), fmt.Sprint(ports), answers.Spread(2), inlined.Spread(2))
	return t, []report.Check{report.AtMost(fmt.Sprintf("start with %d cubes and %d ports: all inlined", cubes, ports), "%.2f s", inlined.Median(), 1.5)}, nil
}

// allInlined waits until no program is in call mode.
func allInlined(d *lab.Daemon) error {
	c := d.Client()
	for start := time.Now(); ; {
		_, answer, _, err := c.Do("GET", "/status", "")
		if err != nil {
			return err
		}
		var status struct {
			Programs struct{ Inline, Call int } `json:"programs"`
		}
		if err := json.Unmarshal(answer, &status); err != nil {
			return fmt.Errorf("the daemon's status: %w", err)
		}
		if status.Programs.Call == 0 && status.Programs.Inline > 0 {
			return nil
		}
		if time.Since(start) > startSettled {
			return fmt.Errorf("%d programs are not inlined after %s", status.Programs.Call, startSettled) //nolint:err113 // of a benchmark
		}
		time.Sleep(10 * time.Millisecond)
	}
}
