// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestAFullTableEvictsNobody: while new sessions flood the full table, an established connection continues and refused
// ones are counted; once the flood has expired, there is room for others.
func TestAFullTableEvictsNobody(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, typ cube.Type) {
		e := newEdge(t, typ, `{"max-sessions":1024,"timeout":{"udp":3600},"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
		e.serve(e.outside, ":7000")
		meet(e.Lab.Lab.Namespace, e.Hosts)
		c := e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000")
		e.wantSeenAs(c, edgeIP)
		port := e.Read(sessionWords(c))
		m := newMachine(t, "ours", e.Hosts)
		from := strangers(0)[inside][0]
		send := func(n int) {
			err := m.wire[inside].Send(m.frame(inside).IPv4(from, strangers(n % strangerCount)[outside][0]).UDP(uint16(1024+n), 53).Payload(20).Bytes())
			if err != nil {
				t.Fatal(err)
			}
		}
		for n := range 6000 {
			send(n)
			if n%1000 == 0 {
				e.wantSeenAs(c, edgeIP)
			}
		}
		e.wantSeenAs(c, edgeIP)
		var numbers struct {
			Created   uint64
			TableFull uint64 `json:"table-full"`
		}
		if err := json.Unmarshal([]byte(e.Read("n sessions")), &numbers); err != nil {
			t.Fatal(err)
		}
		if numbers.TableFull == 0 || numbers.Created < 1024 || numbers.Created > 2048 || numbers.Created+numbers.TableFull < 6001 {
			t.Errorf("of 6,001 sessions %d were made, and %d refused", numbers.Created, numbers.TableFull)
		}
		if fates := e.Fates("n"); fates["session-table-full"] != numbers.TableFull {
			t.Errorf("%d were refused, the fates are %v", numbers.TableFull, fates)
		}
		if got := e.Read(sessionWords(c)); got != port {
			t.Errorf("the external port of the connection is %s, and was %s", got, port)
		}
		e.Set("PATCH", "n timeout udp", "1")
		netns.Eventually(t, 4*bpftest.Patience, func() error {
			if got := e.Read("n sessions"); !strings.HasPrefix(got, `{"active":1,"tcp":1,`) || !strings.Contains(got, `"mappings":1,`) {
				return fmt.Errorf("left are %s", got)
			}
			return nil
		})
		e.wantSeenAs(e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000"), edgeIP)
		e.wantSeenAs(c, edgeIP)
	})
}

// TestMaxSessionsChanges: connections continue if the size grows or shrinks, and a size that is too small for them is
// refused.
func TestMaxSessionsChanges(t *testing.T) {
	t.Parallel()
	e := newEdge(t, cube.TypeTC, `{"max-sessions":1024,"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
	e.serve(e.outside, ":7000")
	meet(e.Lab.Lab.Namespace, e.Hosts)
	c := e.dial(e.inside.Namespace, "tcp4", outsideIP+":7000")
	for _, size := range []uint32{200000, 1024, 4096} {
		e.Set("PATCH", "n max-sessions", fmt.Sprint(size))
		e.wantSeenAs(c, edgeIP)
		if n := tablesOf(t, e.Lab).sessions.Size(); n != entriesFor(size) {
			t.Errorf("there is room for %d entries, want %d", n, entriesFor(size))
		}
	}
	m := newMachine(t, "ours", e.Hosts)
	for n := range 1500 {
		if err := m.wire[inside].Send(m.frame(inside).IPv4(strangers(0)[inside][0], strangers(1)[outside][0]).UDP(uint16(1024+n), 53).Payload(20).Bytes()); err != nil {
			t.Fatal(err)
		}
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := e.Read("n sessions created"); got != "1501" {
			return fmt.Errorf("%s were made", got)
		}
		return nil
	})
	if err := e.Try("PATCH", "n max-sessions", "1024"); err == nil {
		t.Error("tables of 2,048 entries take 3,000")
	}
	e.wantSeenAs(c, edgeIP)
	if got := e.Read("n max-sessions"); got != "4096" {
		t.Errorf("after a refusal it is %s", got)
	}
}
