// SPDX-License-Identifier: Apache-2.0

package bpftest

// Datagrams from a host to a program on the machine: real packets, which take each part of their way themselves, the fast path,
// the slow path and the stack.

import (
	"fmt"
	"net"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// RouteMachine is the machine's address in the first network of a Route.
const RouteMachine = "10.0.1.254"

// OnTheWire are options of hosts whose programs send packets through cubes at XDP, which sees them without offloads.
func OnTheWire() []netns.Option { return []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()} }

// Datagrams go from the sender of a Route to a UDP port of the machine.
type Datagrams struct {
	l        *Lab
	from, at *net.UDPConn
	// sent is the number of the last one; it precedes the text.
	sent int
	// came and ended are those that have arrived, and those that a cube has dropped.
	came, ended map[int]bool
}

// Datagrams opens both ends: the first host becomes the sender.
func (r Route) Datagrams(port uint16) *Datagrams {
	r.l.t.Helper()
	d := &Datagrams{l: r.l, came: map[int]bool{}, ended: map[int]bool{}}
	r.l.Hosts[0].Run("ip", "addr", "add", RouteSender+"/24", "dev", netns.Inner)
	r.l.Must(func() (err error) {
		d.at, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.ParseIP(RouteMachine), Port: int(port)})
		return err
	})
	r.l.t.Cleanup(func() { _ = d.at.Close() })
	r.l.Hosts[0].Must(func() (err error) {
		d.from, err = net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(RouteSender)}, d.at.LocalAddr().(*net.UDPAddr))
		return err
	})
	r.l.t.Cleanup(func() { _ = d.from.Close() })
	return d
}

// Arrives sends a text until it arrives.
func (d *Datagrams) Arrives(text string) {
	d.l.t.Helper()
	netns.Eventually(d.l.t, Patience, func() error { return d.arrives(text) })
}

func (d *Datagrams) arrives(text string) error {
	d.l.t.Helper()
	d.send(text)
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		if d.receive(); d.came[d.sent] {
			return nil
		}
	}
	return fmt.Errorf("%q has not arrived; fates are %v", text, d.l.Fates(d.l.Newest()))
}

// Ends sends a text until a cube drops it for a reason, and it does not arrive.
func (d *Datagrams) Ends(text, cube, reason string) {
	d.l.t.Helper()
	netns.Eventually(d.l.t, Patience, func() error { return d.ends(text, cube, reason) })
}

func (d *Datagrams) ends(text, cube, reason string) error {
	d.l.t.Helper()
	before := d.l.Fates(cube)[reason]
	d.send(text)
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		if d.l.Fates(cube)[reason] > before {
			d.ended[d.sent] = true
			return nil
		}
		if d.receive(); d.came[d.sent] {
			return fmt.Errorf("%q has arrived", text)
		}
	}
	return fmt.Errorf("%q has not ended in %s as %s; fates are %v", text, cube, reason, d.l.Fates(cube))
}

func (d *Datagrams) send(text string) {
	d.l.t.Helper()
	d.sent++
	if _, err := fmt.Fprintf(d.from, "%d %s", d.sent, text); err != nil {
		d.l.t.Fatal(err)
	}
}

// receive takes those that have arrived or arrive in this moment: each of them once, and none that a cube has dropped.
func (d *Datagrams) receive() {
	d.l.t.Helper()
	for buffer := make([]byte, 2048); ; {
		_ = d.at.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
		n, err := d.at.Read(buffer)
		if err != nil {
			return
		}
		var number int
		if _, err := fmt.Sscan(string(buffer[:n]), &number); err != nil || d.came[number] || d.ended[number] {
			d.l.t.Errorf("%q has arrived twice, or although it was dropped: %v", buffer[:n], err)
		}
		d.came[number] = true
	}
}
