// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/output"
	"github.com/polycube/polycube/test/pkt"
)

// fate is how many packets of a cube ended in a way.
func (m *machine) fate(cube, name string) uint64 {
	m.t.Helper()
	var stats struct {
		Fates []struct {
			Name    string
			Packets uint64
		}
	}
	if err := json.Unmarshal([]byte(m.must(200, "GET", "/cubes/"+cube+"/stats", "")), &stats); err != nil {
		m.t.Fatal(err)
	}
	for _, f := range stats.Fates {
		if f.Name == name {
			return f.Packets
		}
	}
	m.t.Fatalf("cube %s has no fate %s: %+v", cube, name, stats)
	return 0
}

// end stops a daemon in an orderly way and takes away all that it made.
func (m *machine) end(daemon *exec.Cmd, out *output.Buffer) {
	m.t.Helper()
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil {
		m.t.Fatal(err)
	}
	if err := daemon.Wait(); err != nil {
		m.t.Errorf("SIGTERM: %v: %s", err, out)
	}
	cmd, said := m.command("cleanup")
	if err := cmd.Run(); err != nil {
		m.t.Errorf("cleanup: %v: %s", err, said)
	}
}

// silence is how long nothing must arrive until a frame counts as gone. A round through user space takes less than a
// thousandth of it.
const silence = time.Second

// hopLimit is PCN_MAX_HOPS, after which a packet is dropped.
const hopLimit = 128

// ring makes two bridges with two links between them, and a transparent cube where one of the links leaves br1.
func (m *machine) ring(hook, action string) {
	m.t.Helper()
	m.must(201, "POST", "/transparenthelloworld/th1", `{"type":"`+hook+`","ingress-action":"`+action+`","egress-action":"`+action+`"}`)
	m.must(201, "POST", "/simplebridge/br1", `{"type":"`+hook+`","ports":[{"name":"h","peer":"h1"},{"name":"a"},{"name":"b"}]}`)
	m.must(201, "POST", "/simplebridge/br2", `{"type":"`+hook+`","ports":[{"name":"a"},{"name":"b"}]}`)
	m.must(200, "POST", "/attach", `{"cube":"th1","port":"br1:a"}`)
	for _, port := range []string{"a", "b"} {
		m.must(200, "POST", "/connect", `{"peer1":"br1:`+port+`","peer2":"br2:`+port+`"}`)
	}
}

// limited is how many packets were dropped because they went round too often.
func (m *machine) limited() (n uint64) {
	m.t.Helper()
	for _, cube := range []string{"br1", "br2", "th1"} {
		n += m.fate(cube, "hop-limit")
	}
	return n
}

// TestLoopThroughUserSpaceEnds: a broadcast goes round two bridges with two links between them forever, unless each
// round counts, also where a link leads through the slow path, and where user space makes the copies: XDP cannot copy
// a frame that is longer than a buffer.
func TestLoopThroughUserSpaceEnds(t *testing.T) {
	for _, c := range []struct {
		name, hook, action string
		payload            int
		limited, slowpath  uint64 // at most
	}{
		// One frame goes each way round.
		{"TC", "TC", "SLOWPATH", 46, 2, 2 * hopLimit},
		{"XDP_SKB", "XDP_SKB", "SLOWPATH", 46, 2, 2 * hopLimit},
		{"XDP_DRV", "XDP_DRV", "SLOWPATH", 46, 2, 2 * hopLimit},
		// br1 made two copies of each when they had no hops left.
		{"XDP_SKB, copies", "XDP_SKB", "PASS", 5000, 4, 0},
		{"XDP_DRV, copies", "XDP_DRV", "PASS", 5000, 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			h1 := m.lab.Host("h1", "", netns.WithMTU(9000))
			daemon, out := m.start()
			m.ring(c.hook, c.action)
			wire := netns.OpenRaw(t, h1, netns.Inner)
			frame := pkt.Eth(h1.MAC.String(), pkt.Broadcast).Data(make([]byte, c.payload)).Bytes()
			if err := wire.Send(frame); err != nil {
				t.Fatal(err)
			}
			// The host gets a copy in each round, of the frame that goes one way and of the one that goes the other.
			copies, err := 0, error(nil)
			netns.Eventually(t, patience, func() error {
				for err = nil; err == nil && copies <= 2*hopLimit; {
					if _, err = wire.Recv(func(f []byte) bool { return bytes.Equal(f, frame) }, silence); err == nil {
						copies++
					}
				}
				if n := m.limited(); n != c.limited {
					return fmt.Errorf("%d packets ended at the hop limit, want %d, after %d copies", n, c.limited, copies)
				}
				return nil
			})
			if !errors.Is(err, os.ErrDeadlineExceeded) || copies < 10 {
				t.Errorf("%d copies arrived, then %v; want some, then silence\n%s", copies, err, out)
			}
			if n := m.fate("th1", "slowpath"); n > c.slowpath || c.slowpath != 0 && n < 10 {
				t.Errorf("%d packets came up at th1, want at most %d", n, c.slowpath)
			}
			m.end(daemon, out)
		})
	}
}
