// SPDX-License-Identifier: Apache-2.0

// Failures at a bad moment: the daemon is killed in the middle of changes, devices are deleted and recreated.

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// TestKilledInTheMiddleOfChanges: acknowledged changes are there, traffic continues, and the next daemon takes over.
func TestKilledInTheMiddleOfChanges(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"TC", "XDP_DRV"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.twoBridges(kind)
			d.Must(http.StatusCreated, "POST", "/transparenthelloworld/th1", fmt.Sprintf(`{"type":%q}`, kind))
			reaches(t, hosts[0], "10.0.0.3")
			s := startStream(t, hosts[0], hosts[2])
			for round := range 8 {
				var made atomic.Int32
				stopped := make(chan struct{})
				go func() {
					defer close(stopped)
					for i := 0; ; i++ {
						status, _, err := d.Request("POST", fmt.Sprintf("/simplebridge/r%dn%d", round, i), fmt.Sprintf(`{"type":%q,"ports":[{"name":"p1"}]}`, kind))
						if err != nil || status != http.StatusCreated {
							return
						}
						made.Add(1)
						for _, what := range []string{"attach", "detach"} {
							if _, _, err := d.Request("POST", "/"+what, `{"cube":"th1","port":"br1:p1"}`); err != nil {
								return
							}
						}
					}
				}()
				// The moment of the kill is another one in each round.
				netns.Eventually(t, patience, func() error {
					if made.Load() < 3 {
						return fmt.Errorf("%d cubes were made", made.Load())
					}
					return nil
				})
				<-time.After(time.Duration(round) * 3 * time.Millisecond)
				d.Kill9()
				<-stopped
				s.Flowing(200)
				d = d.Start()
				for i := range made.Load() {
					name := fmt.Sprintf("r%dn%d", round, i)
					d.Must(http.StatusOK, "GET", "/simplebridge/"+name, "")
					d.Must(http.StatusOK, "DELETE", "/simplebridge/"+name, "")
				}
				// The last one was perhaps written and not acknowledged.
				if _, _, err := d.Request("DELETE", fmt.Sprintf("/simplebridge/r%dn%d", round, made.Load()), ""); err != nil {
					t.Fatal(err)
				}
				if _, _, err := d.Request("POST", "/detach", `{"cube":"th1","port":"br1:p1"}`); err != nil {
					t.Fatal(err)
				}
			}
			s.Stop()
			if t.Failed() {
				d.logDrops("br1", "br2", "th1")
			}
		})
	}
}

func TestDevicesGoAndComeBack(t *testing.T) {
	onEachHook(t, func(t *testing.T, kind string, d *daemon, hosts [3]*netns.Node) {
		d.Do("transparenthelloworld add th1 type=" + kind)
		d.Do("attach th1 br2:p3")
		reaches(t, hosts[0], "10.0.0.3")
		status := func(want string) {
			t.Helper()
			netns.Eventually(t, patience, func() error {
				if got := strings.TrimSpace(d.Do("br2 show ports p3 status")); got != want {
					return fmt.Errorf("port p3 is %s, want %s", got, want)
				}
				return nil
			})
		}
		status("UP")
		d.lab.Run("ip", "link", "del", "veth3")
		status("DOWN")
		if err := hosts[0].Ping("10.0.0.2"); err != nil {
			t.Errorf("the other ports: %v", err)
		}
		d.lab.Host("veth3", "10.0.0.4/24")
		status("UP")
		reaches(t, hosts[0], "10.0.0.4")

		// Deleted while no daemon runs, and recreated after the next one started.
		d.Kill9()
		d.lab.Run("ip", "link", "del", "veth3")
		d = d.Start()
		status("DOWN")
		back := d.lab.Host("veth3", "10.0.0.5/24")
		status("UP")
		reaches(t, back, "10.0.0.1")
		if got := strings.TrimSpace(d.Do("th1 show parent")); got != "br2:p3" {
			t.Errorf("th1 is on %q", got)
		}
	})
}

// TestTCPNeedsTheToken: over TCP everybody on the machine may read, and only users who can read the token may change.
func TestTCPNeedsTheToken(t *testing.T) {
	t.Parallel()
	d := newMachine(t).Start("--port", "9000")
	d.Do("simplebridge add br1")
	cli := func(env []string, line string) result {
		cmd := d.lab.Command(program(t, "polycubectl"), strings.Fields(line)...)
		cmd.Env = append(d.environment(), "POLYCUBECTL_URL=http://127.0.0.1:9000/polycube/v1/")
		cmd.Env = append(cmd.Env, env...)
		return run(t, cmd, "")
	}
	if r := cli(nil, "br1 show fdb aging-time"); r.code != 0 || r.stdout != "300\n" {
		t.Errorf("read over TCP: %s", r)
	}
	for _, line := range []string{"simplebridge add br2", "br1 set loglevel=DEBUG", "del br1", "br1 fdb flush"} {
		if r := cli(nil, line); r.code != 2 || !strings.Contains(r.stderr, "token") {
			t.Errorf("change over TCP without the token: %s", r)
		}
		if r := cli([]string{"POLYCUBECTL_TOKEN=wrong"}, line); r.code != 2 {
			t.Errorf("change over TCP with a wrong token: %s", r)
		}
	}
	token, err := os.ReadFile(filepath.Join(d.dir, "run", "token"))
	if err != nil {
		t.Fatal(err)
	}
	if r := cli([]string{"POLYCUBECTL_TOKEN=" + strings.TrimSpace(string(token))}, "simplebridge add br2"); r.code != 0 {
		t.Errorf("change over TCP with the token: %s", r)
	}
	d.Do("br2 show")
	if got := strings.TrimSpace(d.Do("br1 show loglevel")); got != "INFO" {
		t.Errorf("loglevel of br1 is %s", got)
	}
}
