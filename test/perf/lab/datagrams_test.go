// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// TestDatagramsArrive: the kernel forwards what the generator writes, which is what Packet says.
func TestDatagramsArrive(t *testing.T) {
	netns.NeedRoot(t)
	d := Datagrams{First: netip.MustParseAddr("100.64.0.250"), Flows: 256, Service: netip.MustParseAddr("10.128.0.254"), Services: 5, Port: 80}
	err := With(t.Context(), func(r *Rig) error {
		w, err := r.NewFiltered()
		if err != nil {
			return err
		}
		for _, err := range []error{w.Sinks(r), w.Route()} {
			if err != nil {
				return err
			}
		}
		s, err := w.Datagrams(d)
		if err != nil {
			return err
		}
		frames, err := w.Arrived(s, d.Flows)
		if err != nil {
			return err
		}
		want := map[string]bool{}
		for i := range d.Flows {
			ip := d.Packet(i)
			want[string(append(ip[12:20:20], ip[20:]...))] = true // without what a router changes
		}
		got := map[string]bool{}
		for _, f := range frames {
			if key := string(append(f[26:34:34], f[34:]...)); !want[key] {
				t.Fatalf("frame %x is not one of the flows", f)
			} else {
				got[key] = true
			}
		}
		if len(got) != d.Flows {
			t.Errorf("%d different datagrams arrive, want %d", len(got), d.Flows)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTheTemplateOfDatagrams: the programs add what differs between flows to what is 0.
func TestTheTemplateOfDatagrams(t *testing.T) {
	d := Datagrams{First: netip.MustParseAddr("100.64.0.0"), Flows: 1, Service: netip.MustParseAddr("10.128.0.0"), Services: 1, Port: 80}
	ip := d.template()
	for what, part := range map[string][]byte{"checksum": ip[10:12], "addresses and source port": ip[12:22], "checksum of UDP": ip[26:28]} {
		if !bytes.Equal(part, make([]byte, len(part))) {
			t.Errorf("%s of the template: %x, want zeros", what, part)
		}
	}
}

func TestTalkThroughARouter(t *testing.T) {
	netns.NeedRoot(t)
	err := With(t.Context(), func(r *Rig) error {
		w, err := r.NewFiltered()
		if err != nil {
			return err
		}
		client, server := "192.0.2.2", netip.MustParseAddrPort("198.51.100.2:80")
		w.Left.Run("ip", "addr", "add", client+"/24", "dev", netns.Inner)
		w.Right.Run("ip", "addr", "add", server.Addr().String()+"/24", "dev", netns.Inner)
		w.Left.Run("ip", "route", "add", "default", "via", "192.0.2.1")
		if _, err := r.Talk(w.Left, w.Right, server, server.Port(), 1, false, 50*time.Millisecond); err == nil {
			t.Error("requests were answered though nothing forwards them")
		}
		w.Right.Run("ip", "route", "add", "default", "via", "198.51.100.1")
		if err := w.Route(); err != nil {
			return err
		}
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error { // the router's address has to be resolved
			_, err := r.Talk(w.Left, w.Right, server, server.Port(), 1, false, 50*time.Millisecond)
			return err
		})
		for _, each := range []bool{false, true} {
			talk, err := r.Talk(w.Left, w.Right, server, server.Port(), 8, each, 200*time.Millisecond)
			if err != nil {
				return err
			}
			if talk.Requests < 8 || talk.NS <= 0 || talk.Took < 200*time.Millisecond {
				t.Errorf("a connection each: %t: %+v, want eight requests or more, and their time", each, talk)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
