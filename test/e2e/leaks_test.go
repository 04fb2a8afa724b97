// SPDX-License-Identifier: Apache-2.0

// Cubes are created and deleted a thousand times; afterwards the daemon uses the same resources as before.

package e2e

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// growthKB is how much resident memory may grow for each cube with a thorough garbage collector: the heap varies by 8 MB
// otherwise. A model or a program that is not freed takes more than 20 KB.
const growthKB = 6

func TestCubesLeaveNothingBehind(t *testing.T) {
	t.Parallel()
	rounds := 800 / perRound
	if soak {
		rounds *= 50
	}
	m := newMachine(t)
	m.env = []string{"GOGC=20"}
	d := m.Start()
	hosts := threeHosts(d.machine, v4)
	d.lab.Host("veth4", "")
	d.lab.Host("veth5", "") // no port's peer: at XDP its cubes cannot share a netdev with one
	d.Must(http.StatusCreated, "POST", "/simplebridge/stays", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`)
	reaches(t, hosts[0], "10.0.0.2")
	// Requests that load no programs fill the log of events, which keeps the last 4,096 of them, 4 MB; the first rounds
	// fill pools and caches that stay.
	for d.scrape()["polycube_events_total"] < 4096 {
		for range 100 {
			d.Must(http.StatusCreated, "POST", "/helloworld/e", "")
			d.Must(http.StatusOK, "DELETE", "/helloworld/e", "")
		}
	}
	for i := range rounds / 3 {
		d.comeAndGo(i)
	}
	before := d.settled()
	for i := range rounds {
		d.comeAndGo(i)
	}
	t.Logf("before %v, %d KB; after %v, %d KB", before, before.RSS, d.Inventory(), d.Inventory().RSS)
	netns.Eventually(t, patience, func() error {
		after := d.Inventory()
		grown := after.RSS - before.RSS
		if after.RSS = before.RSS; after != before {
			return fmt.Errorf("after %d rounds the daemon holds %v; before it held %v", rounds, after, before)
		}
		if grown > growthKB*rounds*perRound {
			return fmt.Errorf("after %d rounds the daemon has %d KB more than the %d KB before", rounds, grown, before.RSS)
		}
		return nil
	})
	if err := hosts[0].Ping("10.0.0.2"); err != nil {
		t.Error(err)
	}
}

// perRound is the number of cubes that a round creates and deletes.
const perRound = 10

// comeAndGo creates cubes of every service with ports, wires, netdevs and attachments, on one hook after the other, and
// deletes them in changing order.
func (m *machine) comeAndGo(round int) {
	m.t.Helper()
	kind := types[round%len(types)]
	m.Must(http.StatusCreated, "POST", "/cubes", fmt.Sprintf(`[
		{"service-name":"simplebridge","name":"a","type":%[1]q,"ports":[{"name":"p1","peer":"veth3"},{"name":"up","peer":"b:up"}],
			"fdb":{"entry":[{"address":"02:00:00:00:00:01","port":"p1"}]}},
		{"service-name":"simplebridge","name":"b","type":%[1]q,"ports":[{"name":"p1","peer":"veth4","tcubes":["t"]},{"name":"up","peer":"a:up"}]},
		{"service-name":"transparenthelloworld","name":"t","type":%[1]q},
		{"service-name":"transparenthelloworld","name":"n","type":%[1]q},
		{"service-name":"simpleforwarder","name":"f","type":%[1]q,"ports":[{"name":"p1"}],"actions":[{"inport":"p1","action":"DROP"}]},
		{"service-name":"simpleforwarder","name":"g","type":%[1]q,"ports":[{"name":"p1","peer":"h:p1"}]},
		{"service-name":"helloworld","name":"h","type":%[1]q,"action":"FORWARD","ports":[{"name":"p1","peer":"g:p1"},{"name":"p2"}]},
		{"service-name":"helloworld","name":"i","type":%[1]q},
		{"service-name":"simplebridge","name":"j","type":%[1]q,"ports":[{"name":"p1","tcubes":["u"]}]},
		{"service-name":"transparenthelloworld","name":"u","type":%[1]q}]`, kind))
	m.Must(http.StatusOK, "POST", "/attach", `{"cube":"n","port":"veth5"}`)
	m.Must(http.StatusOK, "PATCH", "/transparenthelloworld/t/egress-action", `"DROP"`)
	all := []string{"simplebridge/a", "simplebridge/b", "transparenthelloworld/t", "transparenthelloworld/n", "simpleforwarder/f",
		"simpleforwarder/g", "helloworld/h", "helloworld/i", "simplebridge/j", "transparenthelloworld/u"}
	for i := range all {
		m.Must(http.StatusOK, "DELETE", "/"+all[(round+i)%len(all)], "")
	}
}

// calm is how long the inventory must be stable to include resources freed in the background: the data plane keeps a
// group of netdevs for 10 s after the last flood that used it, and on a busy machine more than a moment passes between
// two of them.
const calm = 11 * time.Second

// settled is the inventory after background work has freed resources.
func (d *daemon) settled() inventory {
	d.t.Helper()
	last, since := d.Inventory(), time.Now()
	netns.Eventually(d.t, 3*patience, func() error {
		<-time.After(100 * time.Millisecond)
		now := d.Inventory()
		was := last
		last = now
		if was.RSS = now.RSS; now != was {
			since = time.Now()
		}
		if time.Since(since) < calm {
			return fmt.Errorf("still changing: %v", now)
		}
		return nil
	})
	return last
}
