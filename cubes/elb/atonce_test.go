// SPDX-License-Identifier: Apache-2.0

package elb_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/pkt"
)

// entries returns how many entries the sessions have: two for each one. PCN_CONNTRACK_OWN counts them by zone.
func (r *rig) entries() uint32 {
	r.t.Helper()
	value, err := r.Map("e", "ct_zones").LookupBytes(uint32(0))
	if err != nil || len(value) < 4 {
		r.t.Fatalf("the zone of the sessions: %x, %v", value, err)
	}
	return binary.NativeEndian.Uint32(value)
}

// TestASessionIsOpenedOnce: two CPUs get the same SYN at the same moment. The session is opened once, and the port that the other CPU has
// claimed is free again.
func TestASessionIsOpenedOnce(t *testing.T) {
	const connections = 100
	each(t, fmt.Sprintf(`{"service":[%s]}`, v4.service(`,"select":"ROUND_ROBIN"`, v4.server, v4.other)), func(t *testing.T, r *rig) {
		var frames [][]byte
		for port := range uint16(connections) {
			frames = append(frames, r.segment(v4, 5000+port, syn))
		}
		ports := map[string]bool{} // of each server
		for n, got := range r.AtOnce("veth1", frames) {
			if !bytes.Equal(got[0], got[1]) || bytes.Equal(got[0], frames[n]) {
				t.Errorf("the SYN of connection %d left as\n%x and\n%x", n, got[0], got[1])
				continue
			}
			ports[fmt.Sprintf("%x %d", got[0][:6], source(got[0]))] = true
		}
		if len(ports) != connections {
			t.Errorf("%d source ports were used for %d connections", len(ports), connections)
		}
		if n, opened := len(r.list()), r.sessions("opened"); n != connections || opened != connections {
			t.Errorf("%d sessions, and %d were opened, want %d", n, opened, connections)
		}
		if n := r.entries(); n != 2*connections {
			t.Errorf("%d entries, want two for each of %d sessions", n, connections)
		}
		if a, b := r.server(v4.server).Active, r.server(v4.other).Active; a+b != connections {
			t.Errorf("the servers have %d and %d active sessions, want %d together", a, b, connections)
		}
		// Replies find the session, again on both at once.
		for i, one := range r.list()[:50] {
			mac := serverMAC
			if one.Backend == v4.other {
				mac = otherMAC
			}
			want := pkt.Hop(frame(r.mac, clientMAC, v4.vip, v4.client).TCP(80, one.ClientPort, synAck).Payload(8).Bytes())
			for _, got := range r.AtOnce("veth1", [][]byte{r.reply(v4, one.Backend, mac, one.SourcePort, synAck)})[0] {
				if !bytes.Equal(got, want) {
					t.Errorf("reply of connection %d\n got %x\nwant %x", i, got, want)
				}
			}
		}
		r.Set("DELETE", "e session", "")
		if n := r.entries(); n != 0 {
			t.Errorf("%d entries are left of no session", n)
		}
	})
}
