// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestPortsThatGoTakeTheirAddressesAlong(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", threePorts)
	l.Run("veth2", frame(two, one))
	l.Run("veth3", frame(three, one))
	l.Set("PATCH", "br ports p2 peer", `""`)
	wantShown(t, l, "1 "+three+" p3 dynamic")
	walk(t, l, []step{{"a station behind a port without peer is looked for", "veth1", frame(one, two), flood("br:p3"), nil}})
	l.Set("DELETE", "br ports p3", "")
	wantShown(t, l, "1 "+one+" p1 dynamic")
	if err := fdbOf(l).Set(key(t, three), fdb.Entry{Seen: look(t, l, one).Seen, Port: 2}); err != nil {
		t.Fatal(err) // like a frame that was in flight when the port was deleted
	}
	l.Set("POST", "br ports p4", `{"peer":"veth3"}`)
	wantShown(t, l, "1 "+one+" p1 dynamic")
}

func TestALinkThatGoesDownTakesItsAddressesAlong(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Follow: true})
	l.Create("bridge", "br", threePorts)
	l.Set("POST", "br fdb entry 1 "+one, `{"port":"p2"}`)
	l.Run("veth2", frame(two, one))
	l.Run("veth3", frame(three, one))
	wantShown(t, l, "1 "+one+" p2 static", "1 "+two+" p2 dynamic", "1 "+three+" p3 dynamic")
	l.Hosts[1].Run("ip", "link", "set", netns.Inner, "down")
	netns.Eventually(t, 2*bpftest.Patience, func() error {
		if got := known(t, l); len(got) != 2 {
			return fmt.Errorf("known are %v", got)
		}
		return nil
	})
	wantShown(t, l, "1 "+one+" p2 static", "1 "+three+" p3 dynamic")
}

func TestLeavingAVLANForgetsItsAddresses(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", `{"ports":[{"name":"p1","peer":"veth1","mode":"trunk","trunk":{"allowed":[{"vlanid":2},{"vlanid":3}]}},{"name":"p2","peer":"veth2"}]}`)
	for vlan := range uint16(3) {
		l.RunBytes("veth1", tagged(vlan+1, one, two))
	}
	wantShown(t, l, "1 "+one+" p1 dynamic", "2 "+one+" p1 dynamic", "3 "+one+" p1 dynamic")
	l.Set("DELETE", "br ports p1 trunk allowed 2", "")
	wantShown(t, l, "1 "+one+" p1 dynamic", "3 "+one+" p1 dynamic")
	l.Set("PATCH", "br ports p1 mode", `"access"`)
	wantShown(t, l, "1 "+one+" p1 dynamic")
}

func TestAddressesOfPortsAndOfTheBridge(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{})
	l.Create("bridge", "br", `{"mac":"02:00:00:00:0B:00","ports":[{"name":"p1","peer":"veth1","mac":"02:00:00:00:0b:01"},{"name":"p2","peer":"veth2"}]}`)
	read := func() []string {
		return []string{l.Read("br mac"), l.Read("br ports p1 mac"), l.Read("br ports p2 mac")}
	}
	first := read()
	if first[0] != `"02:00:00:00:0b:00"` || first[1] != `"02:00:00:00:0b:01"` {
		t.Errorf("configured addresses read %v", first)
	}
	if a, err := inet.ParseMAC(strings.Trim(first[2], `"`)); err != nil || a&3 != 2 {
		t.Errorf("the address that was made up is %s, error %v: want a local one of a station", first[2], err)
	}
	l.Set("DELETE", "br mac", "")
	l.Set("POST", "br ports p3", `{"peer":"veth3"}`)
	second, third := read(), l.Read("br ports p3 mac")
	if second[0] == first[0] || second[2] != first[2] || third == second[2] {
		t.Errorf("addresses are %v and %s, they were %v", second, third, first)
	}
	l.Restart(nil)
	if got := append(read(), l.Read("br ports p3 mac")); fmt.Sprint(got) != fmt.Sprint(append(second, third)) {
		t.Errorf("a restart made %v of %v and %s", got, second, third)
	}
}

// A port that its spanning tree has not opened.
func TestClosedPorts(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", threePorts)
		table, err := table.Of[uint32, portEntry]("ports", l.Map("br", "ports"))
		if err != nil {
			t.Fatal(err)
		}
		l.Set("PATCH", "br ports p3 access vlanid", "2") // there are VLANs
		l.RunBytes("veth2", frame(two, pkt.Broadcast))
		for _, tt := range []struct {
			name           string
			learn, forward bool
			known          int
			in, out        bpftest.Outcome
		}{
			{"blocked", false, false, 1, drop("stp-blocked"), drop("out-blocked")},
			{"learning", true, false, 2, drop("stp-blocked"), drop("out-blocked")},
			{"forwarding", true, true, 2, send("br:p2"), send("br:p1")},
		} {
			e, _, err := table.Get(0)
			if err != nil {
				t.Fatal(err)
			}
			e.Learn, e.Forward = vlanSet{}, vlanSet{}
			if tt.learn {
				e.Learn.add(1)
			}
			if tt.forward {
				e.Forward.add(1)
			}
			if err := table.Set(0, e); err != nil {
				t.Fatal(err)
			}
			if got := l.Run("veth1", frame(one, two)); got != tt.in {
				t.Errorf("%s: from the port: got %+v, want %+v", tt.name, got, tt.in)
			}
			if got := len(known(t, l)); got != tt.known {
				t.Errorf("%s: %d addresses are known, want %d", tt.name, got, tt.known)
			}
			if tt.known == 2 {
				if got := l.Run("veth2", frame(two, one)); got != tt.out {
					t.Errorf("%s: to the port: got %+v, want %+v", tt.name, got, tt.out)
				}
			}
		}
	})
}

func TestARestartKeepsWhatIsKnown(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 4}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", fourPorts)
		l.Set("POST", "br fdb entry 10 "+three, `{"port":"t"}`)
		walk(t, l, []step{{"learn", "veth2", frame(two, one), flood("br:a br:n br:t"), nil}})
		l.Restart(func() {
			w := l.Wires() // the last daemon's programs forward without it
			w[0].Puts(frame(one, two))
			w[1].Gets(frame(one, two))
			w[0].Puts(frame(one, pkt.Broadcast))
			w[3].Gets(tagged(10, one, pkt.Broadcast))
		})
		wantShown(t, l, "10 "+one+" a dynamic", "10 "+two+" b dynamic", "10 "+three+" t static")
		walk(t, l, []step{
			{"the learned address", "veth1", frame(one, two), send("br:b"), nil},
			{"the configured address", "veth1", frame(one, three), send("br:t"), tagged(10, one, three)},
			{"the sets of ports", "veth1", frame(one, pkt.Broadcast), flood("br:b br:n br:t"), nil},
		})
		l.Set("DELETE", "br fdb entry 10 "+three, "")
		walk(t, l, []step{{"the configuration is in force", "veth1", frame(one, three), flood("br:b br:n br:t"), nil}})
	})
}

// Ports are added and removed while frames pass between two others: none of them is lost.
func TestPortsFlapUnderTraffic(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 4})
	l.Create("bridge", "br", fourPorts)
	w := l.Wires()
	w[1].Puts(frame(two, pkt.Broadcast))
	w[0].Gets(frame(two, pkt.Broadcast))
	rounds := 6
	for i := range rounds {
		numbered := pkt.Eth(one, two).Data([]byte(fmt.Sprintf("frame number %40d", i))).Bytes()
		w[0].Puts(numbered)
		if i%2 == 0 {
			l.Set("DELETE", "br ports n", "")
		} else {
			l.Set("POST", "br ports n", `{"peer":"veth4","mode":"trunk","trunk":{"allowed":[{"vlanid":10}]}}`)
		}
		w[1].Gets(numbered)
	}
	w[0].Puts(frame(one, pkt.Broadcast))
	w[3].Gets(tagged(10, one, pkt.Broadcast))
}

func TestManyPortsAndNotOneMore(t *testing.T) {
	var list []string
	for i := range maxPorts {
		list = append(list, fmt.Sprintf(`{"name":"p%d","access":{"vlanid":%d}}`, i, i%4094+1))
	}
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	start := time.Now()
	l.Create("bridge", "br", `{"ports":[`+strings.Join(list, ",")+`]}`)
	t.Logf("%d ports: %v", maxPorts, time.Since(start))
	if err := l.Try("POST", "br ports more", "{}"); err == nil {
		t.Errorf("port %d was made", maxPorts+1)
	}
	l.Set("PATCH", "br ports p200 peer", `"veth1"`)
	if got, want := l.Run("veth1", frame(one, two)), drop("no-peer"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	wantShown(t, l, "201 "+one+" p200 dynamic")
}

// A trunk between two bridges carries the VLANs that access ports of both have.
func TestATrunkBetweenBridges(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 4})
			for i, name := range []string{"br", "far"} {
				l.Create("bridge", name, fmt.Sprintf(`{"ports":[{"name":"p10","peer":"veth%d","access":{"vlanid":10}},{"name":"p20","peer":"veth%d","access":{"vlanid":20}},
					{"name":"up","mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":20}]}}]}`, 2*i+1, 2*i+2))
			}
			l.Connect("br:up", "far:up")
			w := l.Wires()
			ask := pkt.Eth(one, pkt.Broadcast).Data([]byte("who is in VLAN 10, please, on either side")).Bytes()
			w[0].Puts(ask)
			w[2].Gets(ask)
			other := pkt.Eth(two, pkt.Broadcast).Data([]byte("who is in VLAN 20, please, on either side")).Bytes()
			w[3].Puts(other)
			w[1].Gets(other)
			for i, f := range map[int][]byte{0: other, 1: ask, 2: other, 3: ask} {
				if w[i].Got(f) {
					t.Errorf("host %d got a frame of the other VLAN", i+1)
				}
			}
			answer := pkt.Eth(three, one).Data([]byte("I am in VLAN 10, on the far side of the trunk")).Bytes()
			w[2].Puts(answer)
			w[0].Gets(answer)
			if got, want := l.Run("veth1", frame(one, three)), (bpftest.Outcome{Verdict: "send", Sent: "br:up far:p10"}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			wantShown(t, l, "10 "+one+" p10 dynamic", "10 "+three+" up dynamic", "20 "+two+" up dynamic")
		})
	}
}
