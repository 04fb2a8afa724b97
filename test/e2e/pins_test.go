// SPDX-License-Identifier: Apache-2.0

// The system refuses resources: its BPF file system is read-only, or the daemon has no descriptor left. Requests that
// need some are refused with the remedy, others succeed, packets are forwarded, and afterwards everything works again.

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// remount makes the BPF file system of a machine read-only, or writable again. It has no size limit that could be
// reached.
func (m *machine) remount(flags uintptr) (at string) {
	m.t.Helper()
	at = filepath.Dir(m.pins)
	if err := unix.Mount("", at, "", unix.MS_REMOUNT|flags, ""); err != nil {
		m.t.Fatalf("remounting %s: %v", at, err)
	}
	return at
}

// needPins are requests that cannot be carried out without a new pin.
var needPins = []struct{ method, path, body string }{
	{"POST", "/simplebridge/new1", ""},
	{"POST", "/router/new2", `{"type":"KIND","ports":[{"name":"p1"}]}`},
	{"POST", "/cubes", `[{"service-name":"helloworld","name":"new3"},{"service-name":"simplebridge","name":"new4","ports":[{"name":"p1"}]}]`},
	{"PATCH", "/config", `[{"service-name":"simplebridge","name":"new5"}]`},
	{"POST", "/simplebridge/br3/ports/p3", `{"peer":"veth4"}`},
	{"POST", "/connect", `{"peer1":"br3:p1","peer2":"veth4"}`},
	{"POST", "/simplebridge/br2/ports/p9", `{"peer":"veth4"}`}, // refused when it is committed: its program is there
	{"POST", "/attach", `{"cube":"th1","port":"br1:p1"}`},
	{"PATCH", "/transparenthelloworld/th2/egress-action", `"DROP"`},
	{"PATCH", "/simplebridge/br1/fdb/aging-time", "77"},
}

func TestAReadOnlyBpffsRefusesChanges(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.lab.Host("veth4", "")
			d.lab.Host("veth5", "")
			d.twoBridges(kind)
			spare := fmt.Sprintf(`{"type":%q,"ports":[{"name":"p1"},{"name":"p2","peer":"veth5"}]}`, kind)
			d.Must(http.StatusCreated, "POST", "/simplebridge/br3", strings.Replace(spare, `,"peer":"veth5"`, "", 1))
			d.Must(http.StatusCreated, "POST", "/simplebridge/br4", spare)
			for _, th := range []string{"th1", "th2"} {
				d.Must(http.StatusCreated, "POST", "/transparenthelloworld/"+th, fmt.Sprintf(`{"type":%q}`, kind))
			}
			d.Do("attach th2 br1:p2")
			reaches(t, hosts[0], "10.0.0.3")
			s := startStream(t, hosts[0], hosts[2])
			s.Flowing(200)
			before, held := withoutLearned(t, d.Configuration()), d.settled()

			remedy := "mount -o remount,rw " + d.remount(unix.MS_RDONLY)
			for _, c := range needPins {
				d.answers(t, remedy, c.method, c.path, strings.ReplaceAll(c.body, "KIND", kind))
				if status, _, _ := d.Request(c.method, c.path, strings.ReplaceAll(c.body, "KIND", kind)); status != http.StatusServiceUnavailable {
					t.Errorf("%s %s: status %d, want 503", c.method, c.path, status)
				}
				if now := withoutLearned(t, d.Configuration()); now != before {
					t.Fatalf("after %s %s was refused, the configuration is\n%s\nbefore\n%s", c.method, c.path, now, before)
				}
			}
			d.troubled("bpffs", remedy)
			d.Must(http.StatusCreated, "POST", "/simplebridge/br2/fdb/entry/02:00:00:00:00:01", `{"port":"p3"}`)
			d.Must(http.StatusNoContent, "DELETE", "/simplebridge/br2/fdb/entry/02:00:00:00:00:01", "")
			d.Must(http.StatusOK, "DELETE", "/simplebridge/br4", "") // its pins stay for the moment
			s.Flowing(200)

			d.remount(0)
			d.troubled("", "")
			d.Must(http.StatusCreated, "POST", "/simplebridge/br4", spare)
			netns.Eventually(t, patience, func() error {
				now := d.Inventory()
				fewer := now.Maps <= held.Maps // a cube created later shares the saved objects of its programs with others
				if now.Maps, now.RSS = held.Maps, held.RSS; now != held || !fewer {
					return fmt.Errorf("the daemon holds %v; before the file system was read-only, it held %v", d.Inventory(), held)
				}
				return nil
			})
			for _, c := range needPins {
				if c.path != "/connect" && !strings.Contains(c.path, "p9") { // veth4 has its place by then
					d.answers(t, "", c.method, c.path, strings.ReplaceAll(c.body, "KIND", kind))
				}
			}
			s.Stop()
			if t.Failed() {
				d.logDrops("br1", "br2", "th1", "th2")
			}
		})
	}
}

// troubled waits until the status has one trouble, with a remedy, or none.
func (d *daemon) troubled(where, remedy string) {
	d.t.Helper()
	var status struct {
		Status   string
		Troubles []struct{ Where, What, Remedy string }
	}
	netns.Eventually(d.t, patience, func() error {
		d.Get("/status", &status)
		switch {
		case where == "" && status.Status == "ok":
		case where != "" && status.Status == "critical" && len(status.Troubles) == 1 && status.Troubles[0].Where == where && status.Troubles[0].Remedy == remedy:
		default:
			return fmt.Errorf("the status is %+v, want trouble with %q and the remedy %q", status, where, remedy)
		}
		return nil
	})
}

// TestADaemonDoesNotStartOnAReadOnlyBpffs: it reports why, and packets are forwarded meanwhile.
func TestADaemonDoesNotStartOnAReadOnlyBpffs(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.twoBridges("TC")
	reaches(t, hosts[0], "10.0.0.3")
	s := startStream(t, hosts[0], hosts[2])
	before := withoutLearned(t, d.Configuration())
	d.Kill9()
	remedy := "mount -o remount,rw " + d.remount(unix.MS_RDONLY)
	if r := d.Polycubed(); r.code != 1 || !strings.Contains(r.stderr, remedy) {
		t.Errorf("a start on a read-only file system: %s\nwant exit 1 and %q", r, remedy)
	}
	s.Flowing(200)
	d.remount(0)
	d = d.machine.Start()
	if now := withoutLearned(t, d.Configuration()); now != before {
		t.Errorf("the configuration is\n%s\nbefore\n%s", now, before)
	}
	d.Do("br1 ports add p9")
	s.Stop()
}

// TestADaemonWithoutDescriptorsRefusesChanges: each map and program is one.
func TestADaemonWithoutDescriptorsRefusesChanges(t *testing.T) {
	t.Parallel()
	d := start(t)
	hosts := threeHosts(d.machine, v4)
	d.lab.Host("veth4", "")
	d.twoBridges("TC")
	reaches(t, hosts[0], "10.0.0.3")
	s := startStream(t, hosts[0], hosts[2])
	held := d.settled()
	before := withoutLearned(t, d.Configuration())
	var was unix.Rlimit
	none := unix.Rlimit{Cur: d.lowestFree(), Max: 1 << 16}
	if err := unix.Prlimit(d.Pid(), unix.RLIMIT_NOFILE, nil, &was); err != nil {
		t.Fatal(err)
	}
	none.Max = was.Max
	if err := unix.Prlimit(d.Pid(), unix.RLIMIT_NOFILE, &none, nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/simplebridge/new1", ""},
		{"POST", "/simplebridge/br1/ports/p9", `{"peer":"veth4"}`},
		{"PATCH", "/simplebridge/br1/fdb/aging-time", "77"},
	} {
		status, text, err := d.Request(c.method, c.path, c.body) // by a connection that is open
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(text, "too many open files") {
			t.Errorf("%s %s: status %d, %v: %s; want 503 and the reason", c.method, c.path, status, err, clip(text))
		}
		if now := withoutLearned(t, d.Configuration()); now != before {
			t.Fatalf("after %s %s was refused, the configuration is\n%s\nbefore\n%s", c.method, c.path, now, before)
		}
	}
	s.Flowing(200)
	if err := unix.Prlimit(d.Pid(), unix.RLIMIT_NOFILE, &was, nil); err != nil {
		t.Fatal(err)
	}
	d.Do("simplebridge add new1")
	d.Do("new1 ports add p1 peer=veth4")
	d.Do("new1 del")
	s.Stop()
	netns.Eventually(t, patience, func() error {
		now := d.Inventory()
		if now.RSS = held.RSS; now != held {
			return fmt.Errorf("the daemon holds %v, before it held %v", now, held)
		}
		return nil
	})
}

// lowestFree is a limit of descriptors at which the daemon can open no more.
func (d *daemon) lowestFree() uint64 {
	d.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Pid()))
	if err != nil {
		d.t.Fatal(err)
	}
	open := map[int]bool{}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		open[n] = true
	}
	free := 0
	for open[free] {
		free++
	}
	return uint64(free)
}
