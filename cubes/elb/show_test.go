// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// listed is an entry of the list `session`.
type listed struct {
	Client, VIP, Backend, Source, State string
	ClientPort                          uint16 `json:"client-port"`
	VPort                               uint16
	BackendPort                         uint16 `json:"backend-port"`
	SourcePort                          uint16 `json:"source-port"`
	Age, Expires, Duration              uint32
}

// list reads the list.
func (r *rig) list() (all []listed) {
	r.t.Helper()
	for raw := range r.Entries("e session") {
		var one listed
		if err := json.Unmarshal(raw, &one); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b listed) int { return int(a.ClientPort) - int(b.ClientPort) })
	return all
}

func TestSessionsAreListedAndDeleted(t *testing.T) {
	r := newRig(t, cube.TypeTC, fmt.Sprintf(`{"timeout":{"tcp-established":1000,"tcp-transitory":100},"service":[%s,%s]}`, v4.service("", v4.server), v6.service("", v6.server)))
	port := source(r.open(v4, 5000))
	r.judged(r.reply(v4, v4.server, serverMAC, port, synAck))
	r.judged(r.segment(v4, 5000, ack))
	six := source(r.open(v6, 5001))
	all := r.list()
	want := []listed{
		{Client: v4.client, ClientPort: 5000, VIP: v4.vip, VPort: 80, Backend: v4.server, BackendPort: 8080, Source: v4.vip, SourcePort: port, State: "ESTABLISHED"},
		{Client: v6.client, ClientPort: 5001, VIP: v6.vip, VPort: 80, Backend: v6.server, BackendPort: 8080, Source: v6.vip, SourcePort: six, State: "SYN_SENT"},
	}
	for i, most := range []uint32{1000, 100} {
		if i >= len(all) || all[i].Expires > most || all[i].Expires+all[i].Age < most-1 || all[i].Duration < all[i].Age {
			t.Fatalf("session %d of %+v: want one that expires in up to %d s", i, all, most)
		}
		all[i].Age, all[i].Expires, all[i].Duration = 0, 0, 0
	}
	if !slices.Equal(all, want) {
		t.Errorf("sessions\n got %+v\nwant %+v", all, want)
	}
	const path = "e session 10.0.0.2 5000 10.0.0.1 80"
	var one listed
	if err := json.Unmarshal([]byte(r.Read(path+" source-port")), &one.SourcePort); err != nil || one.SourcePort != port {
		t.Errorf("source-port of one: %d, %v, want %d", one.SourcePort, err, port)
	}
	r.Set("DELETE", path, "")
	if err := r.Try("DELETE", path, ""); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("deleted twice: %v, want not found", err)
	}
	if out, _ := r.judged(r.segment(v4, 5000, ack)); out != passes {
		t.Errorf("a segment of a session that was deleted: %+v, want %+v", out, passes)
	}
	if out, _ := r.judged(r.reply(v4, v4.server, serverMAC, port, ack)); out != passes {
		t.Errorf("a reply of a session that was deleted: %+v, want %+v", out, passes)
	}
	if is := r.server(v4.server); is.Active != 0 {
		t.Errorf("the server is %+v, want no active session", is)
	}
	r.Set("DELETE", "e session", "")
	if all := r.list(); len(all) != 0 {
		t.Errorf("all were deleted, and there are %+v", all)
	}
}

func TestPagesOfSessionsShowEachOnce(t *testing.T) {
	r := newRig(t, cube.TypeXDPDRV, fmt.Sprintf(`{"service":[%s]}`, v4.service("", v4.server)))
	var frames [][]byte
	for i := range 2500 {
		frames = append(frames, r.segment(v4, uint16(6000+i), syn))
	}
	r.RunAll("veth1", frames)
	for i, one := range r.list() {
		if one.ClientPort != uint16(6000+i) {
			t.Fatalf("session %d is of port %d", i, one.ClientPort)
		}
	}
	if n := len(r.list()); n != len(frames) {
		t.Errorf("%d sessions are listed, want %d", n, len(frames))
	}
	if _, err := r.TryRead("e session 10.0.0.2 1 10.0.0.1 80"); err == nil {
		t.Error("a session that does not exist is shown")
	}
}
