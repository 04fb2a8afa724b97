// SPDX-License-Identifier: Apache-2.0

// The daemon is killed, stopped and restarted: traffic is not affected, and nothing is lost.

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// learned lists the addresses that a bridge knows, with their ports.
func (m *machine) learned(bridge string) []string {
	m.t.Helper()
	var fdb struct {
		Entry []struct{ Address, Port string }
	}
	m.Get("/simplebridge/"+bridge+"/fdb", &fdb)
	var out []string
	for _, e := range fdb.Entry {
		out = append(out, e.Address+" "+e.Port)
	}
	slices.Sort(out)
	return out
}

// restarts is one way in which a daemon ends; restart returns the next one.
var restarts = []struct {
	name string
	end  func(*daemon)
}{
	{"kill -9", (*daemon).Kill9},
	{"SIGTERM", (*daemon).Stop},
}

func TestTimedRestartUnderTraffic(t *testing.T) {
	for i, kind := range types {
		for _, r := range restarts[:len(restarts)-min(i, 1)] { // SIGTERM on the first hook only
			t.Run(kind+", "+r.name, func(t *testing.T) {
				d := newMachine(t).measure()
				empty := d.tookToAnswer
				hosts := threeHosts(d.machine, v4)
				d.twoBridges(kind)
				d.Do("transparenthelloworld add th1 type=" + kind)
				d.Do("attach th1 br1:p1")
				d.Do("br1 fdb entry add 02:00:00:00:00:01 port=p2")
				reaches(t, hosts[0], "10.0.0.3")
				reaches(t, hosts[1], "10.0.0.3")
				aside := netns.OpenRaw(t, hosts[1], netns.Inner)
				s := startStream(t, hosts[0], hosts[2])
				s.Flowing(500)
				configuration, known, counted := d.Configuration(), d.learned("br1"), d.Stats("br1").Rx(t, "p1")

				r.end(d)
				s.Flowing(4000) // a second without a daemon
				d = d.measure()
				s.Flowing(1000)
				if limit := max(time.Second, 3*empty); d.tookToAnswer > limit {
					t.Errorf("the API was back after %v, not within %v; a daemon without cubes takes %v", d.tookToAnswer, limit, empty)
				}
				if got := d.learned("br1"); !slices.Equal(got, known) {
					t.Errorf("learned addresses: %v, before %v", got, known)
				}
				if got := d.Configuration(); got != configuration {
					t.Errorf("the configuration is\n%s\nbefore\n%s", got, configuration)
				}
				sent := s.Stop()
				if got := d.Stats("br1").Rx(t, "p1"); got < counted || got < sent {
					t.Errorf("port p1 counted %d packets, %d before the restart, and %d were sent", got, counted, sent)
				}
				if f, err := aside.Recv(isStream, 0); err == nil {
					t.Errorf("a frame to a learned address was flooded: %x", f[:14])
				}
				t.Logf("%d frames, API back in %v", sent, d.tookToAnswer)
			})
		}
	}
}

func TestDamagedTailOfTheJournalIsCut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		damage func(t *testing.T, journal string)
	}{
		{"half a record at the end", func(t *testing.T, journal string) {
			appendTo(t, journal, noise(100))
		}},
		{"zeros at the end, as after a crash", func(t *testing.T, journal string) {
			appendTo(t, journal, make([]byte, 4096))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			threeHosts(d.machine, v4)
			d.twoBridges("TC")
			before := d.Configuration()
			d.Kill9()
			c.damage(t, d.journal())
			next := d.Start()
			if got := next.Configuration(); got != before {
				t.Errorf("the configuration is\n%s\nbefore\n%s", got, before)
			}
			if said := next.out.String(); !strings.Contains(said, "damaged") && !strings.Contains(said, "cut") {
				t.Errorf("the daemon says nothing of the damage: %s", said)
			}
			next.Do("simplebridge add br3")
			next.Kill9()
			last := next.Start()
			last.Do("br3 show")
		})
	}
}

// TestLostTailOfTheJournal: an incomplete record is not there, and everything before it is.
func TestLostTailOfTheJournal(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("simplebridge add br1")
	d.Do("simplebridge add br2")
	d.Kill9()
	journal := d.journal()
	info, err := os.Stat(journal)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(journal, info.Size()-5); err != nil {
		t.Fatal(err)
	}
	next := d.Start()
	next.Do("br1 show")
	if r := next.CLI("br2", "show"); r.code != 2 {
		t.Errorf("br2, whose record was cut: %s", r)
	}
	next.Do("simplebridge add br2")
}

// journal is the newest one of the machine.
func (m *machine) journal() string {
	m.t.Helper()
	var found []string
	err := filepath.WalkDir(filepath.Join(m.dir, "state"), func(path string, e os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), "journal-") {
			found = append(found, path)
		}
		return err
	})
	if err != nil || len(found) == 0 {
		m.t.Fatalf("no journal in %s: %v", m.dir, err)
	}
	return slices.Max(found)
}

func appendTo(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// nothingLeft fails the test when the instance left something in the kernel.
func (m *machine) nothingLeft() {
	m.t.Helper()
	if _, err := os.Stat(m.pins); !os.IsNotExist(err) {
		m.t.Errorf("the directory of pins is still there: %v", err)
	}
	links := m.lab.Run("ip", "-d", "-o", "link")
	if strings.Contains(links, "pcn_") || strings.Contains(links, "prog/") {
		m.t.Errorf("devices or programs are left:\n%s", links)
	}
	if progs := m.attached(); len(progs) > 0 {
		m.t.Errorf("programs are still attached: %v", progs)
	}
}

func TestNothingStaysAfter(t *testing.T) {
	t.Parallel()
	ends := []struct {
		name string
		args []string
		end  func(*testing.T, *daemon)
	}{
		{"--on-exit=clean", []string{"--on-exit=clean"}, func(_ *testing.T, d *daemon) { d.Stop() }},
		{"cleanup after kill -9", nil, func(t *testing.T, d *daemon) {
			d.Kill9()
			if r := d.Polycubed("cleanup"); r.code != 0 {
				t.Error(r)
			}
		}},
		{"cleanup, twice", nil, func(t *testing.T, d *daemon) {
			d.Stop()
			for range 2 {
				if r := d.Polycubed("cleanup"); r.code != 0 {
					t.Error(r)
				}
			}
		}},
	}
	for i, kind := range types {
		for _, c := range ends[:len(ends)-min(i, 1)] { // the last on the first hook only
			t.Run(kind+", "+c.name, func(t *testing.T) {
				t.Parallel()
				d := newMachine(t).Start(c.args...)
				hosts := threeHosts(d.machine, v4)
				d.twoBridges(kind)
				d.Do("transparenthelloworld add th1 type=" + kind)
				d.Do("attach th1 br1:p1")
				reaches(t, hosts[0], "10.0.0.3")
				before := d.Configuration()
				c.end(t, d)
				d.nothingLeft()
				if hosts[0].Ping("10.0.0.3", netns.Brief) == nil {
					t.Error("packets still pass")
				}
				// The configuration stays: the next daemon builds it again.
				next := d.Start()
				reaches(t, hosts[0], "10.0.0.3")
				if got := withoutLearned(t, next.Configuration()); got != withoutLearned(t, before) {
					t.Errorf("the configuration is\n%s\nbefore\n%s", got, before)
				}
			})
		}
	}
}

// withoutLearned removes the filtering databases from a configuration.
func withoutLearned(t *testing.T, configuration string) string {
	t.Helper()
	var all map[string][]map[string]any
	if err := json.Unmarshal([]byte(configuration), &all); err != nil {
		t.Fatal(err)
	}
	for _, cubes := range all {
		for _, c := range cubes {
			delete(c, "fdb")
		}
	}
	out, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestCleanupRefusesWhileTheDaemonRuns(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	r := d.Polycubed("cleanup")
	if r.code != 1 || !strings.Contains(r.stderr, "already running") || !strings.Contains(r.stderr, fmt.Sprint(d.Pid())) {
		t.Errorf("cleanup beside a daemon: %s", r)
	}
	reaches(t, hosts[0], "10.0.0.3")
	d.Alive()
}

func TestSecondDaemonOfAnInstanceIsRefused(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("simplebridge add br1")
	r := d.Polycubed()
	if r.code != 1 || !strings.Contains(r.stderr, "polycubed instance e2e is already running (pid "+fmt.Sprint(d.Pid())+")") {
		t.Errorf("the second daemon: %s", r)
	}
	d.Do("br1 show")
}

func TestInstancesSideBySide(t *testing.T) {
	t.Parallel()
	a := newMachine(t)
	b := onLab(t, a.lab, "other")
	hosts := threeHosts(a, v4)
	hosts2 := [2]*netns.Node{a.lab.Host("other1", "10.0.0.1/24"), a.lab.Host("other2", "10.0.0.2/24")}
	da, db := a.Start(), b.Start()
	da.twoBridges("TC")
	db.Must(http.StatusCreated, "POST", "/simplebridge/br1", `{"ports":[{"name":"p1","peer":"other1"},{"name":"p2","peer":"other2"}]}`)
	reaches(t, hosts[0], "10.0.0.2")
	reaches(t, hosts2[0], "10.0.0.2")
	if la, lb := da.learned("br1"), db.learned("br1"); slices.ContainsFunc(la, func(e string) bool { return slices.Contains(lb, e) }) {
		t.Errorf("the bridges of two instances share addresses: %v, %v", la, lb)
	}
	db.Stop()
	if r := b.Polycubed("cleanup"); r.code != 0 {
		t.Error(r)
	}
	if hosts2[0].Ping("10.0.0.2", netns.Brief) == nil {
		t.Error("the instance that was cleaned up still forwards")
	}
	if err := hosts[0].Ping("10.0.0.2"); err != nil {
		t.Errorf("the other instance: %v", err)
	}
	da.Do("br1 show")
}

// TestTheConfigurationOutlivesItsDirectory: somebody removes it under a running daemon. The status reports it, the next
// change writes the whole configuration again, and the next daemon restores it.
func TestTheConfigurationOutlivesItsDirectory(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("simplebridge add br1")
	var status struct {
		Status   string
		Troubles []struct{ Severity, Where, What, Remedy string }
	}
	d.Get("/status", &status)
	if status.Status != "ok" {
		t.Fatalf("before, the status is %+v", status)
	}
	if err := os.RemoveAll(filepath.Join(d.dir, "state")); err != nil {
		t.Fatal(err)
	}
	d.Get("/status", &status)
	if status.Status != "critical" || status.Troubles[0].Where != "store" || !strings.Contains(status.Troubles[0].What, "was removed") ||
		status.Troubles[0].Remedy == "" {
		t.Errorf("the directory is removed, the status is %+v", status)
	}
	d.Do("br1 set loglevel=DEBUG")
	d.Get("/status", &status)
	if status.Status != "ok" {
		t.Errorf("after a change, the status is %+v", status)
	}
	d.Stop()
	next := d.Start()
	if got := strings.TrimSpace(next.Do("br1 show loglevel")); got != "DEBUG" {
		t.Errorf("after a restart, the level is %q", got)
	}
}
