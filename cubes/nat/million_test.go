// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// TestAMillionSessions: they are counted, read in pages and ended without the daemon's memory growing with their
// number.
func TestAMillionSessions(t *testing.T) {
	if os.Getenv("POLYCUBE_SOAK") == "" {
		t.Skip("a million sessions take a while: set POLYCUBE_SOAK=1")
	}
	const many = 1_000_000 // of IPv4
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("nat", "n", `{"max-sessions":1000000,"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/8","external-ip":"203.0.113.0/24"}]}}}`)
	fillMillion(t, tablesOf(t, l), many)
	began := time.Now()
	l.Set("PATCH", "n timeout udp", "3600") // counts again
	netns.Eventually(t, pace.Stretch(time.Minute), func() error {
		if got := l.Read("n sessions active"); got != fmt.Sprint(many) {
			return fmt.Errorf("%s sessions are counted", got)
		}
		return nil
	})
	t.Logf("they were counted after %v", time.Since(began))

	n := pagerOf(t, l)
	began = time.Now()
	page, err := n.Page(t.Context(), []string{"natting-table"}, cube.PageQuery{Limit: 100})
	if err != nil || len(page.Entries) != 100 {
		t.Fatalf("a page has %d entries, %v", len(page.Entries), err)
	}
	t.Logf("a page of 100 takes %v", time.Since(began))

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began = time.Now()
	read, most := 0, uint64(0)
	for range l.Entries("n natting-table") {
		if read++; read%100_000 == 0 {
			runtime.ReadMemStats(&after)
			most = max(most, after.HeapAlloc)
		}
	}
	if read != many {
		t.Errorf("%d sessions were read", read)
	}
	t.Logf("all are read in %v, the heap went from %d to at most %d MB", time.Since(began), before.HeapAlloc>>20, most>>20)
	if most > before.HeapAlloc+100<<20 {
		t.Error("reading them takes more than 100 MB")
	}
	began = time.Now()
	if got := l.Action("n delete-sessions", `{"internal-src":"10.0.0.0/17"}`); got != `{"deleted":508480}` {
		t.Errorf("deletion by a condition: %s", got)
	}
	runtime.ReadMemStats(&after)
	t.Logf("those of a prefix were deleted in %v, the heap has %d MB", time.Since(began), after.HeapAlloc>>20)
	began = time.Now()
	l.Set("DELETE", "n natting-table", "")
	t.Logf("they were deleted in %v", time.Since(began))
	wantSessions(t, tablesOf(t, l), 0, 0)
}

// pagerOf is a control plane on the maps of the cube `n`.
func pagerOf(t *testing.T, l *bpftest.Lab) *nat {
	return &nat{tables: *tablesOf(t, l), config: Config{Timeout: Timeout{UDP: 300}}}
}

func fillMillion(t *testing.T, tables *tables, many int) {
	t.Helper()
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	for i := range many {
		internal, external := [4]byte{10}, [4]byte{203, 0, 113, byte(i >> 16)}
		binary.BigEndian.PutUint16(internal[2:], uint16(i))
		is := session{Created: now, Seen: now, Rule: 1, Port: portOf(uint16(i)), Addr: inet.AddressOf(netip.AddrFrom4(external))}
		is.Key = keyOf(endpoint{netip.AddrFrom4(internal), uint16(i >> 16)}, endpoint{netip.AddrFrom4([4]byte{198, 51, 100, 1}), 53}, unix.IPPROTO_UDP)
		for _, s := range []session{is, is.outside()} {
			if err := tables.add(s); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d sessions are in the tables", many)
}
