// SPDX-License-Identifier: Apache-2.0

// A full session table, in a control group with little more memory than the table takes.

package e2e

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// numbers are the numbers of the NAT's sessions.
type numbers struct {
	Active, UDP json.Number
	TableFull   json.Number `json:"table-full"`
}

func (n *tightNAT) numbers() (is numbers) {
	n.t.Helper()
	n.Get("/nat/n/sessions", &is)
	return is
}

// ports are the ports of a UDP flow from the host.
type ports struct{ from, to int }

// flowOf is the flow of a number; ports are used again with another remote port.
func flowOf(number int) ports { return ports{1024 + number%60000, 9 + number/60000} }

// session returns the external port of the session of a flow, "" if there is none.
func (n *tightNAT) session(f ports) string {
	n.t.Helper()
	status, text, err := n.Request(http.MethodGet, fmt.Sprintf("/nat/n/natting-table/10.0.0.2/203.0.113.2/%d/%d/udp/external-port", f.from, f.to), "")
	if err != nil || status != http.StatusOK && status != http.StatusNotFound {
		n.t.Fatalf("session of %v: status %d, %v: %s", f, status, err, text)
	}
	if status == http.StatusNotFound {
		return ""
	}
	return text
}

// flood sends a datagram of each flow from one number to before another.
func (n *tightNAT) flood(first, end int) {
	n.t.Helper()
	raw := netns.OpenRaw(n.t, n.lan, netns.Inner)
	frame := pkt.Eth(n.lan.MAC.String(), n.lan.OuterMAC.String()).IPv4("10.0.0.2", "203.0.113.2").UDP(1, 9).Payload(8).Bytes()
	frame[40], frame[41] = 0, 0 // no checksum
	for number := first; number < end; number++ {
		f := flowOf(number)
		binary.BigEndian.PutUint16(frame[34:], uint16(f.from))
		binary.BigEndian.PutUint16(frame[36:], uint16(f.to))
		if err := raw.Send(frame); err != nil {
			n.t.Fatal(err)
		}
	}
}

// counted waits until there is a number of sessions.
func (n *tightNAT) counted(want int) {
	n.t.Helper()
	netns.Eventually(n.t, patience, func() error {
		if is := n.numbers(); is.Active.String() != fmt.Sprint(want) {
			return fmt.Errorf("%s sessions, want %d", is.Active, want)
		}
		return nil
	})
}

// TestAFullTableInLittleMemory: a table is filled to its last entry with little more memory than it takes. Its sessions
// stay, others are refused and counted, and ended sessions make room.
func TestAFullTableInLittleMemory(t *testing.T) {
	t.Parallel()
	const room, early, all = 131072, 50000, 150000 // and the connection is in it
	n := newTightNAT(t, room, `"mapping":"address-and-port-dependent"`)
	c := connectTo(t, n.lan, "203.0.113.2:7000")
	as := c.seenAs()
	n.leave(64 * megabyte) // less than the table takes; a change takes the daemon and the verifier up to 50 on a busy machine
	n.flood(0, early)
	n.counted(1 + early)
	samples := map[ports]string{}
	for number := 0; number < early; number += early / 50 {
		f := flowOf(number)
		if samples[f] = n.session(f); samples[f] == "" {
			t.Errorf("%v has no session", f)
		}
	}
	n.flood(early, all)
	n.counted(room)
	if is := n.numbers().TableFull.String(); is != fmt.Sprint(1+all-room) {
		t.Errorf("%s sessions were refused, want %d", is, 1+all-room)
	}
	n.alive()
	// All flows send again: those that have a session keep it, the others get none.
	n.flood(0, all)
	for f, external := range samples {
		if got := n.session(f); got != external {
			t.Errorf("the session of %v had the external port %s, and has %q", f, external, got)
		}
	}
	if got := n.session(flowOf(all - 1)); got != "" {
		t.Errorf("%v has a session with the external port %s", flowOf(all-1), got)
	}
	if now := c.seenAs(); now != as {
		t.Errorf("the other side saw %s and sees %s", as, now)
	}
	n.alive()
	n.Must(http.StatusOK, http.MethodPatch, "/nat/n/timeout/udp", "1")
	n.counted(1)
	if now := c.seenAs(); now != as {
		t.Errorf("the other side saw %s and sees %s", as, now)
	}
	if now := connectTo(t, n.lan, "203.0.113.2:7000").seenAs(); !strings.HasPrefix(now, "203.0.113.1:") {
		t.Errorf("where there is room again, a new connection is seen as %s", now)
	}
	n.alive()
}
