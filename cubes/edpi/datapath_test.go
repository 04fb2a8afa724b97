// SPDX-License-Identifier: Apache-2.0

package edpi_test

// Frames through the programs, with decisions that are written as polycube-ndpi does.

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // a cube to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// Classes that the classifier of these tests knows.
const (
	dns, tls, video = 5, 91, 124
	media           = 1 // a category
)

// rig is a forwarder with a cube c on its first port, and the tables of that.
type rig struct {
	*bpftest.Lab
	t      testing.TB
	tables *dpi.Tables
}

func newRig(t testing.TB, l *bpftest.Lab, conf string) *rig {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("edpi", "c", conf)
	l.Attach("c", "f:p1")
	r := &rig{Lab: l, t: t}
	var err error
	if r.tables, err = dpi.Open(l.PinsOf("c")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.tables.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func each(t *testing.T, conf string, test func(t *testing.T, r *rig)) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) { test(t, newRig(t, l, conf)) })
}

// announce writes the names of the classes.
func (r *rig) announce() {
	r.t.Helper()
	var names [dpi.Names]dpi.Name
	for row, name := range map[int]string{0: "Unknown", dns: "DNS", tls: "TLS", video: "YouTube", dpi.Protocols + media: "Media", dpi.Rows + 1: "Weak Cipher"} {
		names[row] = dpi.NameOf(name)
	}
	if err := r.tables.Announce("4.2 of a test", &names); err != nil {
		r.t.Fatal(err)
	}
	netns.Eventually(r.t, bpftest.Patience, func() error {
		if is := r.Read("c protocol"); !strings.Contains(is, "YouTube") {
			return fmt.Errorf("protocols are %s", is)
		}
		return nil
	})
}

// alive says that the classifier has seen everything until now, or that it ended.
func (r *rig) alive(is bool) {
	r.t.Helper()
	now, err := cube.Time()
	if err != nil {
		r.t.Fatal(err)
	}
	if !is {
		now -= 3600e9
	}
	r.tables.Beat(now + map[bool]uint64{true: 3600e9}[is]) // for the whole test, however slow
}

// run checks what becomes of a frame that comes in at a host's end.
func (r *rig) run(what, dev string, frame []byte, want string) {
	r.t.Helper()
	is := bpftest.Outcome{Verdict: "drop", Fate: "c " + want}
	if want == "" {
		is = bpftest.Outcome{Verdict: "send", Sent: map[string]string{"veth1": "f:p2", "veth2": "f:p1"}[dev]}
	}
	if got := r.Run(dev, frame); got != is {
		r.t.Errorf("%s: %+v, want %+v", what, got, is)
	}
}

// packets returns those that are in the ring.
func (r *rig) packets() (all []ring.Packet) {
	r.tables.Packets.Read(func(p *ring.Packet) {
		c := *p
		c.Data = slices.Clone(p.Data)
		all = append(all, c)
	})
	return all
}

// decide classifies the flow of a frame.
func (r *rig) decide(frame []byte, class dpi.Class) {
	r.t.Helper()
	f, _ := flow.Read(frame)
	key, _ := dpi.KeyOf(&f)
	is, ok, err := r.tables.Flow(key)
	if err == nil && ok {
		err = r.tables.Decide(key, dpi.Decision{ID: is.ID, Class: class})
	}
	if err != nil || !ok {
		r.t.Fatalf("decide: found %v, error %v", ok, err)
	}
}

const (
	clientMAC, serverMAC = "02:00:00:00:00:01", "02:00:00:00:00:02"
	client, server       = "10.0.0.1", "10.0.0.2"
)

func udp(sport, dport uint16) []byte {
	return pkt.Eth(clientMAC, serverMAC).IPv4(client, server).UDP(sport, dport).Payload(30).Bytes()
}

func answer(sport, dport uint16) []byte {
	return pkt.Eth(serverMAC, clientMAC).IPv4(server, client).UDP(dport, sport).Payload(50).Bytes()
}

// entry is what tests look at of a flow.
type entry struct {
	Source          string `json:"source"`
	Destination     string `json:"destination"`
	L4              string `json:"l4-protocol"`
	SourcePort      int    `json:"source-port"`
	DestinationPort int    `json:"destination-port"`
	Application     string `json:"application"`
	State           string `json:"state"`
	Elephant        bool   `json:"elephant"`
	Packets         int    `json:"packets"`
	Bytes           int    `json:"bytes"`
	ReplyPackets    int    `json:"reply-packets"`
	ReplyBytes      int    `json:"reply-bytes"`
}

func (r *rig) entries() (all []entry) {
	r.t.Helper()
	for raw := range r.Entries("c flow") {
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b entry) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return all
}

// class is a row of the lists `protocol` and `category`.
type class struct {
	Name           string
	Flows, Packets uint64
	Bytes          uint64
}

func (r *rig) classes(list string) map[string]class {
	r.t.Helper()
	var all []class
	if err := json.Unmarshal([]byte(r.Read("c "+list)), &all); err != nil {
		r.t.Fatal(err)
	}
	by := map[string]class{}
	for _, c := range all {
		by[c.Name] = c
	}
	return by
}

func TestBothDirectionsAreOneFlow(t *testing.T) {
	each(t, "", func(t *testing.T, r *rig) {
		frames := []struct {
			dev   string
			frame []byte
		}{
			{"veth1", udp(4000, 53)}, {"veth2", answer(4000, 53)}, {"veth1", udp(4000, 53)},
			{"veth2", pkt.Eth(serverMAC, clientMAC).VLAN(7).IPv6("2001:db8::9", "2001:db8::1").UDP(9, 10).Payload(10).Bytes()},
			{"veth1", pkt.Eth(clientMAC, serverMAC).IPv6("2001:db8::1", "2001:db8::9").UDP(10, 9).Payload(10).Bytes()},
			{"veth1", pkt.Eth(clientMAC, serverMAC).ARPRequest(clientMAC, client, server).Bytes()},
		}
		var bytes uint64
		for _, f := range frames {
			r.run("through", f.dev, f.frame, "")
			bytes += uint64(len(f.frame))
		}
		want := []entry{
			{client, server, "UDP", 4000, 53, "", "INSPECTED", false, 2, 144, 1, 92},
			{"2001:db8::9", "2001:db8::1", "UDP", 9, 10, "", "INSPECTED", false, 1, 76, 1, 72},
		}
		slices.SortFunc(want, func(a, b entry) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		if got := r.entries(); !slices.Equal(got, want) {
			t.Errorf("flows:\n got %+v\nwant %+v", got, want)
		}
		if got := r.Read("c flow 10.0.0.1 10.0.0.2 UDP 4000 53 reply-packets"); got != "1" {
			t.Errorf("packets of the answer: %s, want 1", got)
		}
		sum := r.classes("protocol")
		if sum["undecided"].Packets != 5 || sum["undecided"].Flows != 2 || sum["not-ip"].Packets != 1 || sum["undecided"].Bytes+sum["not-ip"].Bytes != bytes {
			t.Errorf("packets by protocol: %+v, want 5 undecided, 1 not-ip, %d bytes", sum, bytes)
		}
	})
}

func TestTheFirstPacketsAreInspectedThenASample(t *testing.T) {
	each(t, `{"inspect-packets":3,"snap-length":128,"sample-interval":64}`, func(t *testing.T, r *rig) {
		long := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).UDP(1, 2).Payload(300).Bytes()
		for range 5 {
			r.run("through", "veth1", long, "")
		}
		got := r.packets()
		if len(got) != 3 || len(got[0].Data) != 128 || got[0].Length != len(long) || got[0].Metadata[3] != 0 {
			t.Fatalf("%d packets in the ring, want 3 of 128 bytes: %+v", len(got), got)
		}
		syn := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).TCP(1, 80, pkt.TCPFlags{SYN: true}).Bytes()
		r.run("a segment without payload", "veth1", syn, "")
		r.run("and one padded to the shortest frame", "veth1", append(slices.Clone(syn), make([]byte, 6)...), "")
		if got := r.packets(); len(got) != 0 {
			t.Errorf("segments without payload are in the ring: %+v", got)
		}
		r.decide(long, dpi.Class{Protocol: dns})
		for range 123 { // to the 128th
			r.run("through", "veth1", long, "")
		}
		if got := r.packets(); len(got) != 2 || got[0].Metadata[3] == 0 {
			t.Errorf("%d packets of a decided flow in the ring, want 2: %+v", len(got), got)
		}
	})
}

func TestPoliciesFollowTheDecision(t *testing.T) {
	each(t, `{"policy":[{"kind":"PROTOCOL","name":"dns","action":"DROP"},{"kind":"CATEGORY","name":"Media","action":"MARK","mark":7},
		{"kind":"PROTOCOL","name":"TLS","action":"LIMIT","rate":8}]}`, func(t *testing.T, r *rig) {
		if got := r.Read("c policy PROTOCOL dns in-effect"); got != "false" {
			t.Errorf("before names are known, in-effect is %s", got)
		}
		r.announce()
		r.run("undecided", "veth1", udp(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns})
		r.run("DNS", "veth1", udp(1, 53), "policy")
		r.run("the answer", "veth2", answer(1, 53), "policy")
		sum := r.classes("protocol")["DNS"]
		if sum.Packets != 3 || sum.Flows != 1 {
			t.Errorf("DNS has %+v, want all 3 packets of 1 flow", sum)
		}
		if got := r.Read("c policy PROTOCOL dns dropped-packets"); got != `2` && got != `"2"` {
			t.Errorf("dropped-packets is %s, want 2", got)
		}

		r.run("undecided", "veth1", udp(2, 443), "")
		r.decide(udp(2, 443), dpi.Class{Protocol: video, Master: tls, Category: media})
		large := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).UDP(2, 443).Payload(1400).Bytes()
		dropped, begun := 0, time.Now()
		for range 100 {
			if r.Run("veth1", large).Fate == "c exceeded" {
				dropped++
			}
		}
		// The burst has 131,072 bytes, a packet 1,442; 1,000 bytes more pass in each second.
		least := max(5-int(time.Since(begun).Seconds()*1000/1442), 0)
		if dropped < least || dropped > 12 {
			t.Errorf("%d of 100 packets exceed the rate of the protocol that carries it, want %d to 12", dropped, least)
		}
		r.Set("DELETE", "c policy PROTOCOL TLS", "")
		r.run("of the category", "veth1", large, "")
		if got := r.Read("c policy CATEGORY Media passed-packets"); strings.Trim(got, `"`) != "1" {
			t.Errorf("passed-packets of the category is %s, want 1", got)
		}
		r.Set("PATCH", "c policy CATEGORY Media", `{"action":"DROP"}`)
		r.run("of the category", "veth1", large, "policy")
		r.Set("PATCH", "c mode", `"MIRROR"`)
		r.run("in MIRROR", "veth1", large, "")
		r.Set("PATCH", "c mode", `"INLINE"`)
		r.Set("POST", "c policy PROTOCOL YouTube", `{"action":"PASS"}`)
		r.run("the protocol comes before its category", "veth1", large, "")
		r.Set("DELETE", "c policy", "")
		r.run("without policies", "veth1", udp(1, 53), "")
	})
}

func TestWrongPoliciesAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `{"policy":[{"kind":"PROTOCOL","name":"Nonsense","action":"DROP"}]}`)
	r.announce()
	for _, tt := range []struct{ words, body, want string }{
		{"c policy PROTOCOL DNS", `{"action":"MARK"}`, "needs a mark"},
		{"c policy PROTOCOL DNS", `{"action":"LIMIT"}`, "needs a rate"},
		{"c policy PROTOCOL DNS", `{"action":"REDIRECT"}`, "needs an output"},
		{"c policy PROTOCOL DNS", `{"action":"REDIRECT","output":3}`, "has no output 3"},
		{"c policy PROTOCOL DNS", `{"action":"MIRROR","output":3}`, "has no output 3"},
		{"c policy ELEPHANT DNS", `{"action":"DROP"}`, "must be any"},
		{"c policy PROTOCOL Nonsens", `{"action":"DROP"}`, "unknown to polycube-ndpi"},
		{"c policy CATEGORY DNS", `{"action":"DROP"}`, "unknown to polycube-ndpi"},
		{"c policy PROTOCOL nonsense", `{"action":"DROP"}`, "names are case-insensitive"},
	} {
		if err := l.Try("POST", tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.words, tt.body, err, tt.want)
		}
	}
	if got := l.Read("c policy"); strings.Count(got, "action") != 1 {
		t.Errorf("after refusals the policies are %s", got)
	}
}

func TestFailureOfTheClassifierConcernsUndecidedFlows(t *testing.T) {
	each(t, "", func(t *testing.T, r *rig) {
		r.run("open", "veth1", udp(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns})
		r.Set("PATCH", "c on-failure", `"CLOSED"`)
		r.run("closed, and none has run", "veth1", udp(2, 53), "no-classifier")
		r.run("but the flow is decided", "veth1", udp(1, 53), "")
		r.alive(true)
		r.run("it runs", "veth1", udp(2, 53), "")
		r.Set("PATCH", "c undecided", `"DROP"`)
		r.run("undecided", "veth1", udp(2, 53), "undecided")
		if got := r.Read("c classifier status"); got != `"UP"` {
			t.Errorf("the classifier is %s", got)
		}
		r.alive(false)
		if got := r.Read("c classifier status"); got != `"DOWN"` {
			t.Errorf("the classifier is %s", got)
		}
		r.run("it is behind", "veth1", udp(2, 53), "no-classifier")
		r.Set("PATCH", "c on-failure", `"OPEN"`)
		r.run("open", "veth1", udp(2, 53), "")
	})
}

func TestElephants(t *testing.T) {
	each(t, `{"elephant-bytes":500,"policy":[{"kind":"ELEPHANT","name":"any","action":"DROP"}]}`, func(t *testing.T, r *rig) {
		for i := range 7 { // of 72 bytes
			want := ""
			if i == 6 {
				want = "policy"
			}
			r.run(fmt.Sprintf("packet %d", i), "veth1", udp(1, 53), want)
		}
		r.Set("PATCH", "c elephant-bytes", "0")
		r.run("once an elephant", "veth1", udp(1, 53), "policy")
		r.run("a mouse", "veth1", udp(2, 53), "")
		r.announce()
		r.Set("POST", "c policy PROTOCOL DNS", `{"action":"PASS","elephant":true}`)
		r.decide(udp(2, 53), dpi.Class{Protocol: dns})
		r.run("by its protocol", "veth1", udp(2, 53), "")
		r.Set("PATCH", "c elephant-rate", "16") // 2,147 bytes in a window
		large := pkt.Eth(clientMAC, serverMAC).IPv4(client, server).UDP(3, 4).Payload(1400).Bytes()
		dropped := false
		for range 50 {
			dropped = dropped || r.Run("veth1", large).Fate == "c policy"
		}
		if !dropped {
			t.Error("50 packets of 1,442 bytes at once are not too fast for 16 kbit/s")
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if got := r.Events("cube"); strings.Count(strings.Join(got, "\n"), "is an elephant") != 3 || !strings.Contains(strings.Join(got, "\n"), "from 10.0.0.1 port 2 to 10.0.0.2 port 53") {
				return fmt.Errorf("events are %q, want three elephants", got)
			}
			return nil
		})
		var n int
		for _, e := range r.entries() {
			if e.Elephant {
				n++
			}
		}
		if got := r.Read("c statistics elephant-flows"); n != 3 || strings.Trim(got, `"`) != "3" {
			t.Errorf("%d elephants, counted as %s, want 3", n, got)
		}
	})
}

func TestFlowsWithoutRoomAreCountedAndElephantsAmongThemFound(t *testing.T) {
	each(t, `{"max-flows":16,"elephant-bytes":500,"policy":[{"kind":"ELEPHANT","name":"any","action":"DROP"}]}`, func(t *testing.T, r *rig) {
		for port := range uint16(16) {
			r.run("fits", "veth1", udp(1000+port, 53), "")
		}
		for range 6 {
			r.run("no room", "veth1", udp(2000, 53), "")
		}
		r.run("an elephant without room", "veth1", udp(2000, 53), "policy")
		if sum := r.classes("protocol"); sum["no-room"].Packets != 7 || sum["undecided"].Packets != 16 {
			t.Errorf("sums are %+v, want 7 without room and 16 undecided", sum)
		}
		if got := len(r.entries()); got != 16 {
			t.Errorf("%d flows, want 16", got)
		}
		if got := strings.Trim(r.Read("c statistics no-room-elephants"), `"`); got != "1" {
			t.Errorf("no-room-elephants is %s, want 1", got)
		}
	})
}
