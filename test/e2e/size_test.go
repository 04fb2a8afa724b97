// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// Topologies of any size: components that do not fit one kernel program are split into segments, transparently.

// cubeOf is the request that creates a cube.
type cubeOf struct {
	Service string           `json:"service-name"`
	Name    string           `json:"name"`
	Type    string           `json:"type"`
	Ports   []portOf         `json:"ports,omitempty"`
	Actions []map[string]any `json:"actions,omitempty"`
}

type portOf struct {
	Name string `json:"name"`
	Peer string `json:"peer,omitempty"`
}

func (c *cubeOf) port(name, peer string) { c.Ports = append(c.Ports, portOf{name, peer}) }

func (c *cubeOf) forward(in, out string) {
	c.Actions = append(c.Actions, map[string]any{"inport": in, "action": "FORWARD", "outport": out})
}

func makeCubes(service, kind string, n int) []*cubeOf {
	out := make([]*cubeOf, n)
	for i := range out {
		out[i] = &cubeOf{Service: service, Name: fmt.Sprint("c", i), Type: kind}
	}
	return out
}

// wire joins two cubes by a link.
func wire(a, b *cubeOf) {
	pa, pb := "to-"+b.Name, "to-"+a.Name
	a.port(pa, b.Name+":"+pb)
	b.port(pb, a.Name+":"+pa)
}

func (m *machine) create(cubes []*cubeOf) {
	m.t.Helper()
	body, err := json.Marshal(cubes)
	if err != nil {
		m.t.Fatal(err)
	}
	m.Must(http.StatusCreated, "POST", "/cubes", string(body))
}

// segments returns the number of programs of the component of a cube.
func (m *machine) segments(cube string) int {
	m.t.Helper()
	var s struct{ Segments int }
	m.Get("/cubes/"+cube+"/stats", &s)
	return s.Segments
}

// plug creates a host and the port that leads to it.
func (m *machine) plug(c *cubeOf, n int) *netns.Node {
	m.t.Helper()
	name := fmt.Sprint("veth", n)
	c.port("host", name)
	return m.lab.Host(name, fmt.Sprintf(v4, n))
}

var sizeTypes = []string{"TC", "XDP_DRV"}

func TestALineOfAHundredBridges(t *testing.T) {
	t.Parallel()
	for _, kind := range sizeTypes {
		for _, limit := range []string{"0", "1"} {
			t.Run(kind+" by "+limit, func(t *testing.T) {
				t.Parallel()
				d := newMachine(t).Start("--segment-cubes", limit)
				cubes := makeCubes("simplebridge", kind, 100)
				for i := range cubes[1:] {
					wire(cubes[i], cubes[i+1])
				}
				a, z := d.plug(cubes[0], 1), d.plug(cubes[99], 2)
				d.create(cubes)
				reaches(t, a, "10.0.0.2")
				reaches(t, z, "10.0.0.1")
				if n := d.segments("c50"); n < 2 || limit == "1" && n != 100 {
					t.Errorf("%d segments", n)
				}
				transfer(t, a, z, 200_000)
			})
		}
	}
}

func TestARingOfAHundredForwarders(t *testing.T) {
	t.Parallel()
	for _, kind := range sizeTypes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			const n, half = 100, 50
			cubes := makeCubes("simpleforwarder", kind, n)
			for i := range cubes {
				wire(cubes[i], cubes[(i+1)%n])
			}
			a := d.plug(cubes[0], 1)
			d.plug(cubes[half], 2)
			for i, c := range cubes {
				before, after := fmt.Sprint("to-c", (i+n-1)%n), fmt.Sprint("to-c", (i+1)%n)
				if i%half == 0 {
					c.forward("host", after)
					c.forward(before, "host")
				} else {
					c.forward(before, after)
				}
			}
			d.create(cubes)
			reaches(t, a, "10.0.0.2") // once around the ring and back to the start
			// Without an exit, a packet circulates until its hops are used up.
			for _, i := range []string{"0", "50"} {
				next := map[string]string{"0": "to-c1", "50": "to-c51"}[i]
				last := map[string]string{"0": "to-c99", "50": "to-c49"}[i]
				d.Do(fmt.Sprintf("c%s actions %s set outport=%s", i, last, next))
			}
			_ = a.Ping("10.0.0.2", netns.Brief) // nothing answers
			netns.Eventually(t, patience, func() error {
				var hops uint64
				for _, c := range cubes {
					hops += d.Stats(c.Name).Fate(t, "hop-limit")
				}
				if hops == 0 {
					return fmt.Errorf("no packet was dropped as hop-limit")
				}
				return nil
			})
		})
	}
}

func TestAFullMeshOfEightBridges(t *testing.T) {
	t.Parallel()
	for _, kind := range sizeTypes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newMachine(t).Start("--segment-cubes", "3")
			cubes := makeCubes("simplebridge", kind, 8)
			hosts := make([]*netns.Node, len(cubes))
			for i, c := range cubes {
				for _, other := range cubes[i+1:] {
					wire(c, other)
				}
				hosts[i] = d.plug(c, i+1)
			}
			// A mesh of bridges without a spanning tree must not flood: all addresses are static.
			d.create(cubes)
			var ways []string
			for i, c := range cubes {
				for j := range hosts {
					port := "host"
					if i != j {
						port = fmt.Sprint("to-c", j)
					}
					mac := hosts[j].MAC.String()
					ways = append(ways, fmt.Sprintf("/simplebridge/%s/fdb/entry/%s|{\"port\":%q}", c.Name, mac, port))
					if i != j {
						if out, err := hosts[i].Command("ip", "neigh", "replace", fmt.Sprintf("10.0.0.%d", j+1), "lladdr", mac,
							"dev", netns.Inner, "nud", "permanent").CombinedOutput(); err != nil {
							t.Fatalf("static neighbour: %v: %s", err, out)
						}
					}
				}
			}
			for _, w := range ways {
				path, body, _ := strings.Cut(w, "|")
				d.Must(http.StatusCreated, "POST", path, body)
			}
			for i, h := range hosts {
				for j := range hosts {
					if i != j {
						reaches(t, h, fmt.Sprintf("10.0.0.%d", j+1))
					}
				}
			}
		})
	}
}

func TestAStarOfSixtyBridges(t *testing.T) {
	t.Parallel()
	for _, kind := range sizeTypes {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			cubes := makeCubes("simplebridge", kind, 61)
			for _, leaf := range cubes[1:] {
				wire(cubes[0], leaf)
			}
			hosts := []*netns.Node{d.plug(cubes[1], 1), d.plug(cubes[30], 2), d.plug(cubes[60], 3)}
			d.create(cubes)
			for i, h := range hosts {
				reaches(t, h, fmt.Sprintf("10.0.0.%d", (i+1)%3+1))
			}
			if n := d.segments("c0"); n < 2 || n > 6 {
				t.Errorf("%d segments for 61 bridges", n)
			}
		})
	}
}

func TestTwoHundredSeparateComponents(t *testing.T) {
	t.Parallel()
	d := start(t)
	cubes := makeCubes("simplebridge", "TC", 400)
	for i := 0; i < len(cubes); i += 2 {
		wire(cubes[i], cubes[i+1])
	}
	a, z := d.plug(cubes[0], 1), d.plug(cubes[1], 2)
	b, y := d.plug(cubes[398], 3), d.plug(cubes[399], 4)
	d.create(cubes)
	reaches(t, a, "10.0.0.2")
	reaches(t, b, "10.0.0.4")
	reaches(t, y, "10.0.0.3")
	if err := z.Ping("10.0.0.3", netns.Brief); err == nil {
		t.Error("components that are not connected reach each other")
	}
	if n := d.segments("c200"); n != 1 {
		t.Errorf("%d segments for two bridges", n)
	}
}

// lastGeneration is the number of the newest linked program.
func (m *machine) lastGeneration() (last int) {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.pins, "generations"))
	if err != nil {
		m.t.Fatal(err)
	}
	for _, e := range entries {
		var n int
		if _, err := fmt.Sscanf(e.Name(), "%d-", &n); err == nil {
			last = max(last, n)
		}
	}
	return last
}

func TestABurstOfChangesCausesFewRelinks(t *testing.T) {
	t.Parallel()
	d := start(t)
	cubes := makeCubes("simplebridge", "TC", 8)
	for i := range cubes[1:] {
		wire(cubes[i], cubes[i+1])
	}
	a, _ := d.plug(cubes[0], 1), d.plug(cubes[7], 2)
	d.create(cubes)
	reaches(t, a, "10.0.0.2")
	const changes, clients = 500, 32
	before := d.lastGeneration()
	requests := make(chan int)
	var done sync.WaitGroup
	for range clients {
		done.Go(func() {
			for i := range requests {
				level := []string{"TRACE", "DEBUG", "INFO", "WARN"}[i/8%4]
				status, text, err := d.Request("PATCH", fmt.Sprintf("/simplebridge/c%d/loglevel", i%8), `"`+level+`"`)
				if err != nil || status != http.StatusOK {
					t.Errorf("status %d, %v: %s", status, err, text)
				}
			}
		})
	}
	for i := range changes {
		requests <- i
	}
	close(requests)
	done.Wait()
	relinks := d.lastGeneration() - before
	t.Logf("%d changes, %d relinks", changes, relinks)
	if relinks > changes/4 {
		t.Errorf("%d changes caused %d relinks", changes, relinks)
	}
	reaches(t, a, "10.0.0.2")
}
