// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
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
func (m *machine) end(daemon *exec.Cmd, out *output) {
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

// ring makes two bridges with two links between them. What comes out of br1's port a, or in there, goes through user
// space.
func (m *machine) ring(hook string) {
	m.t.Helper()
	m.must(201, "POST", "/transparenthelloworld/th1", `{"type":"`+hook+`","ingress-action":"SLOWPATH","egress-action":"SLOWPATH"}`)
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

// TestLoopThroughUserSpaceEnds: a broadcast goes round two bridges with two links between them for ever, unless each
// round counts, also where a link leads through the slow path.
func TestLoopThroughUserSpaceEnds(t *testing.T) {
	for _, hook := range []string{"TC", "XDP_SKB", "XDP_DRV"} {
		t.Run(hook, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			h1 := m.lab.Host("h1", "")
			daemon, out := m.start()
			m.ring(hook)
			wire := netns.OpenRaw(t, h1, netns.Inner)
			frame := slices.Concat(bytes.Repeat([]byte{0xff}, 6), h1.MAC, []byte{0x88, 0xb5}, make([]byte, 46))
			if err := wire.Send(frame); err != nil {
				t.Fatal(err)
			}
			// The host gets a copy in each round, of the frame that goes one way and of the one that goes the other.
			rounds, err := 0, error(nil)
			for ; err == nil && rounds <= 2*hopLimit; rounds++ {
				_, err = wire.Recv(func(f []byte) bool { return bytes.Equal(f, frame) }, silence)
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d rounds the frame still goes round: %v, want silence\n%s", rounds, err, out)
			}
			netns.Eventually(t, patience, func() error {
				if n := m.limited(); n != 2 {
					return fmt.Errorf("%d packets ended at the hop limit, want one each way round", n)
				}
				return nil
			})
			if n := m.fate("th1", "slowpath"); n < 10 || n > 2*hopLimit {
				t.Errorf("%d packets came through user space, want 10 to %d", n, 2*hopLimit)
			}
			m.end(daemon, out)
		})
	}
}
