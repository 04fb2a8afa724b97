// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// Two access ports of VLAN 10, a trunk with native VLAN 20, and one without a native VLAN.
const fourPorts = `{"ports":[
	{"name":"a","peer":"veth1","access":{"vlanid":10}},
	{"name":"b","peer":"veth2","access":{"vlanid":10}},
	{"name":"t","peer":"veth3","mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":30}],"native-vlan":20}},
	{"name":"n","peer":"veth4","mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":20}],"native-vlan-enabled":false}}]}`

func priority(vlan uint16, class uint8, from, to string) []byte {
	return pkt.Eth(from, to).PriorityVLAN(vlan, class).Payload(46).Bytes()
}

func service(f *pkt.Frame) []byte { return f.VLAN(77).Payload(46).Bytes() }

func TestFramesStayInTheirVLAN(t *testing.T) {
	const four = "02:00:00:00:00:04"
	bpftest.Each(t, bpftest.Options{Hosts: 4}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", fourPorts)
		walk(t, l, []step{
			{"to all ports of the VLAN", "veth1", frame(one, pkt.Broadcast), flood("br:b br:n br:t"), nil},
			{"from a trunk", "veth3", tagged(10, three, pkt.Broadcast), flood("br:a br:b br:n"), nil},
			{"the native VLAN", "veth3", frame(three, pkt.Broadcast), flood("br:n"), nil},
			{"the same with a tag", "veth4", tagged(20, four, pkt.Broadcast), flood("br:t"), nil},
			{"VLAN 1 is in each trunk", "veth4", tagged(1, four, pkt.Broadcast), flood("br:t"), nil},
			{"a VLAN with one port", "veth3", tagged(30, three, pkt.Broadcast), drop("no-peer"), nil},
			{"access to trunk gets a tag", "veth1", frame(one, three), send("br:t"), tagged(10, one, three)},
			{"trunk to access loses it", "veth3", tagged(10, three, one), send("br:a"), frame(three, one)},
			{"and its priority", "veth3", priority(10, 7, three, one), send("br:a"), frame(three, one)},
			{"a native one gets a tag where it is not native", "veth3", frame(three, four), send("br:n"), tagged(20, three, four)},
			{"and loses it where it is", "veth4", priority(20, 3, four, three), send("br:t"), frame(four, three)},
			{"the native VLAN may have a tag on the way in", "veth3", tagged(20, three, four), send("br:n"), nil},
			{"priority without a VLAN becomes one of the VLAN", "veth1", priority(0, 5, one, three), send("br:t"), priority(10, 5, one, three)},
			{"the same on the way to an access port", "veth2", priority(0, 5, two, one), send("br:a"), frame(two, one)},
			{"tags are not for access ports", "veth1", tagged(10, one, three), drop("tagged"), nil},
			{"a trunk without a native VLAN wants them", "veth4", frame(four, one), drop("untagged"), nil},
			{"even with a priority", "veth4", priority(0, 5, four, one), drop("untagged"), nil},
			{"a VLAN that is not allowed", "veth3", tagged(40, three, one), drop("not-allowed"), nil},
			{"a VLAN that there is not", "veth3", tagged(4095, three, one), drop("not-allowed"), nil},
			{"a station of another VLAN is not known", "veth4", tagged(20, four, one), flood("br:t"), nil},
			{"a tag in a service tag is payload", "veth1", service(pkt.Eth(one, two).ServiceVLAN(10)), send("br:b"), nil},
			{"a service tag gets a tag around it", "veth1", service(pkt.Eth(one, three).ServiceVLAN(5)), send("br:t"),
				service(pkt.Eth(one, three).VLAN(10).ServiceVLAN(5))},
			{"and keeps what is in it", "veth3", service(pkt.Eth(three, one).VLAN(10).ServiceVLAN(5)), send("br:a"),
				service(pkt.Eth(three, one).ServiceVLAN(5))},
			{"two tags, the outer counts", "veth3", service(pkt.Eth(three, one).VLAN(10)), send("br:a"), service(pkt.Eth(three, one))},
		})
		want := []string{"1 " + four, "10 " + one, "10 " + two, "10 " + three, "20 " + three, "20 " + four, "30 " + three}
		if got := fmt.Sprint(known(t, l)); got != fmt.Sprint(want) {
			t.Errorf("known are %v, want %v", got, want)
		}
	})
}

// An address in two VLANs is two stations, in the cache too.
func TestAnAddressInTwoVLANs(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 4}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", fourPorts)
		walk(t, l, []step{
			{"in one", "veth2", frame(two, pkt.Broadcast), flood("br:a br:n br:t"), nil},
			{"in another", "veth4", tagged(20, two, pkt.Broadcast), flood("br:t"), nil},
		})
		round := func(ten, twenty bpftest.Outcome, taggedAs []byte) {
			for range 3 {
				walk(t, l, []step{
					{"VLAN 10", "veth1", frame(one, two), ten, taggedAs},
					{"VLAN 20", "veth3", tagged(20, three, two), twenty, nil},
				})
			}
		}
		round(send("br:b"), send("br:n"), nil)
		walk(t, l, []step{{"moves in one", "veth4", tagged(10, two, pkt.Broadcast), flood("br:a br:b br:t"), nil}})
		round(send("br:n"), send("br:n"), tagged(10, one, two))
		l.Action("br fdb flush", `{"vlan":20}`)
		round(send("br:n"), flood("br:n"), tagged(10, one, two))
	})
}

// A change of each leaf, and a frame that shows it.
func TestLeavesOfPorts(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("bridge", "br", threePorts)
		for _, s := range []struct {
			name, method, words, body string
			dev                       string
			frame                     []byte
			want                      bpftest.Outcome
		}{
			{"all in VLAN 1", "", "", "", "veth1", frame(one, two), flood("br:p2 br:p3")},
			{"another VLAN", "PATCH", "br ports p1 access vlanid", "7", "veth1", frame(one, two), drop("no-peer")},
			{"the others are left alone", "", "", "", "veth2", frame(two, one), flood("br:p3")},
			{"all in VLAN 7", "PATCH", "br", `{"ports":[{"name":"p2","access":{"vlanid":7}},{"name":"p3","access":{"vlanid":7}}]}`,
				"veth2", frame(two, three), flood("br:p1 br:p3")},
			{"a trunk", "PATCH", "br ports p3 mode", `"trunk"`, "veth3", frame(three, one), drop("no-peer")},
			{"does not have the VLAN", "", "", "", "veth1", frame(one, two), send("br:p2")},
			{"nor takes it", "", "", "", "veth3", tagged(7, three, one), drop("not-allowed")},
			{"until it is allowed", "POST", "br ports p3 trunk allowed 7", "{}", "veth3", tagged(7, three, one), send("br:p1")},
			{"native", "PATCH", "br ports p3 trunk native-vlan", "7", "veth3", frame(three, two), send("br:p2")},
			{"which need not be allowed", "DELETE", "br ports p3 trunk allowed 7", "", "veth3", frame(three, two), send("br:p2")},
			{"none is native", "PATCH", "br ports p3 trunk native-vlan-enabled", "false", "veth3", frame(three, two), drop("untagged")},
			{"VLAN 1 is allowed", "", "", "", "veth3", tagged(1, three, two), drop("no-peer")},
			{"unless it is said otherwise", "PATCH", "br ports p3 trunk default-vlan", "false", "veth3", tagged(1, three, two), drop("not-allowed")},
			{"a change of mode", "PATCH", "br ports p2 mode", `"trunk"`, "veth2", tagged(7, two, one), drop("not-allowed")},
			{"and back ends in VLAN 1", "PATCH", "br ports p2 mode", `"access"`, "veth2", frame(two, one), drop("no-peer")},
		} {
			if s.method != "" {
				l.Set(s.method, s.words, s.body)
			}
			if got, _ := l.RunBytes(s.dev, s.frame); got != s.want {
				t.Errorf("%s: got %+v, want %+v", s.name, got, s.want)
			}
		}
	})
}

func TestMistakesWithPortsChangeNothing(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 4})
	l.Create("bridge", "br", fourPorts)
	before := l.Read("br")
	for _, tt := range []struct{ name, method, words, body, says string }{
		{"VLAN 0", "PATCH", "br ports a access vlanid", "0", "1 to 4094"},
		{"VLAN 4095", "PATCH", "br ports a access vlanid", "4095", "1 to 4094"},
		{"VLAN 4095 allowed", "POST", "br ports t trunk allowed 4095", "{}", "1 to 4094"},
		{"VLAN 4095 native", "PATCH", "br ports t trunk native-vlan", "4095", "1 to 4094"},
		{"a mode that there is not", "PATCH", "br ports a mode", `"hybrid"`, "mode"},
		{"the access VLAN of a trunk", "PATCH", "br ports t access vlanid", "10", "access"},
		{"a VLAN of an access port's trunk", "POST", "br ports a trunk allowed 10", "{}", "trunk"},
		{"a VLAN twice", "POST", "br ports t trunk allowed 10", "{}", "10"},
		{"a VLAN that is not listed", "DELETE", "br ports t trunk allowed 11", "", "11"},
		{"VLAN 1, which needs no listing", "DELETE", "br ports t trunk allowed 1", "", "default-vlan=false"},
		{"another address of a port", "PATCH", "br ports a mac", `"02:00:00:00:00:99"`, "creation"},
		{"a group address", "POST", "br ports z", `{"mac":"01:00:5e:00:00:01"}`, "group address"},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v, it should say %s", tt.name, err, tt.says)
		}
		if after := l.Read("br"); after != before {
			t.Errorf("%s: the bridge became %s", tt.name, after)
		}
	}
	for _, words := range []string{"br ports t access", "br ports t access vlanid", "br ports a trunk", "br ports a trunk native-vlan"} {
		if text, err := l.TryRead(words); err == nil {
			t.Errorf("show %s: %s", words, text)
		}
	}
	if got := l.Read("br ports a access vlanid"); got != "10" {
		t.Errorf("vlanid is %s", got)
	}
}

func TestATrunkShowsWhatItLetsPass(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("bridge", "br", `{"ports":[{"name":"t","mode":"trunk","trunk":{"allowed":[{"vlanid":10}]}},{"name":"a"}]}`)
	const rest = `"default-vlan":true,"native-vlan-enabled":true,"native-vlan":1}`
	for _, step := range []struct{ method, words, body, want string }{
		{"POST", "br ports t trunk allowed 5", "{}", `{"allowed":[{"vlanid":10},{"vlanid":5},{"vlanid":1}],` + rest},
		{"POST", "br ports t trunk allowed 1", "{}", `{"allowed":[{"vlanid":10},{"vlanid":5},{"vlanid":1}],` + rest},
		{"DELETE", "br ports t trunk allowed", "", `{"allowed":[{"vlanid":1}],` + rest},
		{"PATCH", "br ports t trunk default-vlan", "false", `{"default-vlan":false,"native-vlan-enabled":true,"native-vlan":1}`},
		{"DELETE", "br ports t trunk", "", `{"allowed":[{"vlanid":1}],` + rest},
	} {
		l.Set(step.method, step.words, step.body)
		if got := l.Read("br ports t trunk"); got != step.want {
			t.Errorf("%s %s: the trunk reads %s, want %s", step.method, step.words, got, step.want)
		}
	}
}

// The kernel's own form of tags is seen on the wire only.
func TestTagsOnTheWire(t *testing.T) {
	const four = "02:00:00:00:00:04"
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 4, Host: []netns.Option{netns.WithMTU(1600)}})
			l.Create("bridge", "br", fourPorts)
			w := l.Wires()
			steps := []struct {
				name string
				from int
				put  []byte
				get  [4][]byte
			}{
				{"broadcast from access", 0, frame(one, pkt.Broadcast), [4][]byte{nil, frame(one, pkt.Broadcast), tagged(10, one, pkt.Broadcast), tagged(10, one, pkt.Broadcast)}},
				{"broadcast from a trunk", 2, priority(10, 3, three, pkt.Broadcast), [4][]byte{frame(three, pkt.Broadcast), frame(three, pkt.Broadcast), nil, priority(10, 3, three, pkt.Broadcast)}},
				{"native broadcast", 2, frame(three, pkt.Broadcast), [4][]byte{3: tagged(20, three, pkt.Broadcast)}},
				{"broadcast to native", 3, priority(20, 4, four, pkt.Broadcast), [4][]byte{2: frame(four, pkt.Broadcast)}},
				{"access to trunk", 0, frame(one, three), [4][]byte{2: tagged(10, one, three)}},
				{"trunk to access", 2, priority(10, 3, three, one), [4][]byte{frame(three, one)}},
				{"trunk to trunk", 2, frame(three, four), [4][]byte{3: tagged(20, three, four)}},
				{"trunk to native", 3, tagged(20, four, three), [4][]byte{2: frame(four, three)}},
				{"a service tag to a trunk", 0, service(pkt.Eth(one, three).ServiceVLAN(5)), [4][]byte{2: service(pkt.Eth(one, three).VLAN(10).ServiceVLAN(5))}},
				{"a service tag from a trunk", 2, service(pkt.Eth(three, one).VLAN(10).ServiceVLAN(5)), [4][]byte{service(pkt.Eth(three, one).ServiceVLAN(5))}},
				{"a service tag that is flooded", 0, service(pkt.Eth(one, pkt.Broadcast).ServiceVLAN(5)), [4][]byte{
					nil, service(pkt.Eth(one, pkt.Broadcast).ServiceVLAN(5)),
					service(pkt.Eth(one, pkt.Broadcast).VLAN(10).ServiceVLAN(5)), service(pkt.Eth(one, pkt.Broadcast).VLAN(10).ServiceVLAN(5))}},
				{"priority to a trunk", 0, priority(0, 6, one, three), [4][]byte{2: priority(10, 6, one, three)}},
				{"priority to all", 0, priority(0, 6, one, pkt.Broadcast), [4][]byte{nil, frame(one, pkt.Broadcast), priority(10, 6, one, pkt.Broadcast), priority(10, 6, one, pkt.Broadcast)}},
				{"a frame as long as may be", 0, pkt.Eth(one, three).Payload(1586).Bytes(), [4][]byte{2: pkt.Eth(one, three).VLAN(10).Payload(1586).Bytes()}},
			}
			for _, s := range steps {
				t.Run(s.name, func(t *testing.T) {
					w[s.from].Puts(s.put)
					for i, want := range s.get {
						if want != nil {
							w[i].Gets(want)
						}
					}
				})
			}
		})
	}
}
