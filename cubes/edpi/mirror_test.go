// SPDX-License-Identifier: Apache-2.0

package edpi_test

// Copies of packets for an output, on wires: test runs send none.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const mirrors = `{"outputs":[{"number":1,"to":"veth3"},{"number":2,"to":"gone1"}],"policy":[{"kind":"PROTOCOL","name":"TLS","action":"MIRROR","output":1},
	{"kind":"PROTOCOL","name":"DNS","action":"MIRROR","output":2}]}`

// counts waits until a counter has a value.
func (r *rig) counts(words, want string) {
	r.t.Helper()
	netns.Eventually(r.t, bpftest.Patience, func() error {
		if got := strings.Trim(r.Read("c "+words), `"`); got != want {
			return fmt.Errorf("%s is %s, want %s", words, got, want)
		}
		return nil
	})
}

func TestMirrorSendsCopiesAndThePacketContinues(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 3}, func(t *testing.T, l *bpftest.Lab) {
		if l.Type.Hook() != cube.TC {
			return // it is refused: the next test
		}
		l.Lab.Run("ip", "link", "add", "gone1", "type", "veth", "peer", "name", "gone2")
		l.Lab.Run("ip", "link", "set", "gone1", "up")
		r := newRig(t, l, mirrors)
		r.announce()
		l.Lab.Run("ip", "link", "del", "gone1")
		w := r.Wires()
		v6 := pkt.Eth(clientMAC, serverMAC).VLAN(7).IPv6(client6, server6).UDP(3, 443).Payload(600).Bytes()
		for port, protocol := range map[uint16]uint16{1: tls, 2: dns} {
			w[0].Puts(udp(port, 53))
			w[1].Gets(udp(port, 53))
			r.decide(udp(port, 53), dpi.Class{Protocol: protocol})
		}
		w[0].Puts(v6)
		w[1].Gets(v6)
		r.decide(v6, dpi.Class{Protocol: tls})
		if w[2].Got(udp(1, 53)) {
			t.Error("there is a copy before the decision")
		}
		for _, f := range [][]byte{udp(1, 53), v6} {
			w[0].Puts(f)
			w[1].Gets(f)
			w[2].Gets(f)
		}
		back := answer(1, 53)
		w[1].Puts(back)
		w[0].Gets(back)
		w[2].Gets(back)
		r.counts("policy PROTOCOL TLS passed-packets", "3")

		w[0].Puts(udp(2, 53))
		w[1].Gets(udp(2, 53))
		r.counts("statistics not-mirrored", "1")
		r.Set("PATCH", "c mode", `"MIRROR"`)
		w[0].Puts(udp(1, 53))
		w[1].Gets(udp(1, 53))
		r.Set("PATCH", "c mode", `"INLINE"`)
		r.Set("PATCH", "c policy PROTOCOL DNS", `{"output":1}`)
		w[0].Puts(udp(2, 53))
		w[1].Gets(udp(2, 53))
		w[2].Gets(udp(2, 53))
		if w[2].Got(udp(1, 53)) {
			t.Error("in MIRROR mode there is a copy")
		}
	})
}

func TestMirrorsOfMirrorsEnd(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 3})
	const all = `{"outputs":[{"number":1,"to":"veth3"}],"policy":[{"kind":"ELEPHANT","name":"any","action":"MIRROR","output":1}],"elephant-bytes":1}`
	r := newRig(t, l, all)
	l.Create("edpi", "out", all)
	l.Attach("out", "veth3") // its own copies leave through it
	w := r.Wires()
	w[0].Puts(udp(1, 53))
	w[1].Gets(udp(1, 53))
	w[2].Gets(udp(1, 53))
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := strings.Trim(l.Read("out statistics not-mirrored"), `"`); got == "0" {
			return fmt.Errorf("not-mirrored is %s, want the copy of copies that was refused", got)
		}
		return nil
	})
	if got := len(r.entries()); got != 1 {
		t.Errorf("%d flows, want one", got)
	}
}

func TestMirrorIsRefusedWhereItCannotBe(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l, `{"outputs":[{"number":1,"to":"f:p2"},{"number":2,"to":"veth1"}]}`)
		refused := func(words, body, want string) {
			t.Helper()
			if err := l.Try("POST", words, body); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s %s: %v, want %q", words, body, err, want)
			}
		}
		refused("c policy PROTOCOL TLS", `{"action":"MIRROR"}`, "needs an output")
		if l.Type.Hook() == cube.XDP {
			refused("c policy PROTOCOL TLS", `{"action":"MIRROR","output":2}`, "needs a cube of type TC")
			return
		}
		refused("c policy PROTOCOL TLS", `{"action":"MIRROR","output":1}`, "output 1 leads to port f:p2")
		r.Set("POST", "c policy PROTOCOL TLS", `{"action":"MIRROR","output":2}`)
		if err := l.Try("PATCH", "c outputs 2", `{"to":"f:p2"}`); err == nil || !strings.Contains(err.Error(), "output 2 leads to port") {
			t.Errorf("the output is led to a port: %v", err)
		}
		if got := l.Read("c outputs 2 to"); got != `"veth1"` {
			t.Errorf("after the refusal, the output leads to %s", got)
		}
	})
}
