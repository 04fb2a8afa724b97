// SPDX-License-Identifier: Apache-2.0

// Every service in one chain: packets that pass one pass all, on each hook, and each can drop them for its own reason.

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestChainOfEveryService(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			h1, h2 := d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
			d.Must(http.StatusCreated, "POST", "/cubes", fmt.Sprintf(`[
				{"service-name":"simplebridge","name":"br1","type":%[1]q,"ports":[{"name":"p1","peer":"veth1","tcubes":["th1","th2"]},{"name":"up","peer":"hw:p1"}]},
				{"service-name":"helloworld","name":"hw","type":%[1]q,"action":"FORWARD","ports":[{"name":"p1","peer":"br1:up"},{"name":"p2","peer":"sf:p1"}]},
				{"service-name":"simpleforwarder","name":"sf","type":%[1]q,"ports":[{"name":"p1","peer":"hw:p2","tcubes":["th3"]},{"name":"p2","peer":"br2:up"}],
					"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]},
				{"service-name":"simplebridge","name":"br2","type":%[1]q,"ports":[{"name":"p1","peer":"veth2"},{"name":"up","peer":"sf:p2"}]},
				{"service-name":"transparenthelloworld","name":"th1","type":%[1]q},
				{"service-name":"transparenthelloworld","name":"th2","type":%[1]q},
				{"service-name":"transparenthelloworld","name":"th3","type":%[1]q}]`, kind))
			reaches(t, h1, "10.0.0.2")
			transfer(t, h2, h1, 1<<20)
			in, out := netns.OpenRaw(t, h1, netns.Inner), netns.OpenRaw(t, h2, netns.Inner)
			frame := pkt.EthernetFrame(h2.MAC, h1.MAC, streamType, make([]byte, 50))
			if err := in.Send(frame); err != nil {
				t.Fatal(err)
			}
			sameFrame(t, out, "nothing stopped", frame)
			for _, c := range []struct {
				cube, reason string
				stop, again  string // commands
			}{
				{"hw", "action-drop", "hw set action=DROP", "hw set action=FORWARD"},
				{"sf", "action-drop", "sf actions p1 set action=DROP", "sf actions p1 set action=FORWARD"},
				{"sf", "no-action", "sf actions del p1", "sf actions add p1 action=FORWARD outport=p2"},
				{"th1", "ingress-drop", "th1 set ingress-action=DROP", "th1 set ingress-action=PASS"},
				{"th3", "ingress-drop", "th3 set ingress-action=DROP", "th3 set ingress-action=PASS"},
				// A bridge forgets the stations behind the port, and a flood without another port ends
				// as no-peer.
				{"br1", "no-peer", "disconnect br1:up hw:p1", "connect br1:up hw:p1"},
				{"hw", "no-peer", "disconnect hw:p2 sf:p1", "connect hw:p2 sf:p1"},
			} {
				d.Do(c.stop)
				want := d.Stats(c.cube).Fate(t, c.reason) + 1
				if err := in.Send(frame); err != nil {
					t.Fatal(err)
				}
				netns.Eventually(t, patience, func() error {
					if got := d.Stats(c.cube).Fate(t, c.reason); got < want {
						return fmt.Errorf("after %s, %s counts %d packets as %s, want %d", c.stop, c.cube, got, c.reason, want)
					}
					return nil
				})
				if _, err := out.Recv(isStream, 0); err == nil {
					t.Errorf("after %s, the frame arrives", c.stop)
				}
				d.Do(c.again)
				reaches(t, h1, "10.0.0.2")
			}
		})
	}
}

// TestLogLevelIsPerCube: lines for each packet come from the cube whose level enables them, and stop with it.
func TestLogLevelIsPerCube(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := newMachine(t).Start("--loglevel", "debug")
			h1 := threeHosts(d.machine, v4)[0]
			d.twoBridges(kind)
			d.Do("transparenthelloworld add th1 type=" + kind)
			d.Do("transparenthelloworld add th2 type=" + kind)
			d.Do("attach th1 br1:p1")
			d.Do("attach th2 br1:p1 position=last")
			reaches(t, h1, "10.0.0.3")
			lines := func(cube string) int {
				return strings.Count(d.out.String(), "[transparenthelloworld] ["+cube+"] [debug]")
			}
			if n := lines("th1") + lines("th2"); n > 0 {
				t.Errorf("%d lines at level INFO", n)
			}
			d.Do("th1 set loglevel=DEBUG")
			netns.Eventually(t, patience, func() error {
				if err := h1.Ping("10.0.0.3"); err != nil {
					return err
				}
				if lines("th1") == 0 {
					return errors.New("th1 says nothing at level DEBUG")
				}
				return nil
			})
			if n := lines("th2"); n > 0 {
				t.Errorf("th2, whose level is INFO, says %d lines", n)
			}
			d.Do("th1 set loglevel=INFO")
			netns.Eventually(t, patience, func() error { // packets from before the change may still be logged
				before := lines("th1")
				reaches(t, h1, "10.0.0.3", netns.PingOptions{Count: 20})
				if after := lines("th1"); after > before+2 {
					return fmt.Errorf("th1 goes on to say lines at level INFO: %d, then %d", before, after)
				}
				return nil
			})
		})
	}
}
