// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/test/pkt"
)

// addressed is a bridge whose ports have addresses. It refuses those that begin with 192.0.2.
type addressed struct{ toyBridge }

type addressedConfig struct {
	Ports []struct {
		Name, MAC string
		IP        []struct{ Address netip.Prefix }
	}
	Note string
}

// Alignment is what ports share with netdevs. The note says what ports have to do with netdevs.
func (c *addressed) Alignment(conf json.RawMessage) (map[string]cube.Alignment, error) {
	if err := c.b.call(c.env.Name(), "Alignment"); err != nil {
		return nil, err
	}
	var decoded addressedConfig
	if err := json.Unmarshal(conf, &decoded); err != nil {
		return nil, err
	}
	out := map[string]cube.Alignment{}
	for _, p := range decoded.Ports {
		a := cube.Alignment{ReadOnly: decoded.Note == "follow"}
		if p.MAC != "" {
			a.MAC = pkt.MAC(p.MAC)
		}
		for _, ip := range p.IP {
			a.Addresses = append(a.Addresses, ip.Address)
		}
		if decoded.Note != "off" {
			out[p.Name] = a
		}
	}
	return out, nil
}

// NetdevChanged makes a port follow its netdev.
func (c *addressed) NetdevChanged(port string, was, is cube.Interface) ([]cube.Edit, error) {
	var edits []cube.Edit
	for _, a := range world.Without(was.Addresses, is.Addresses) {
		edits = append(edits, cube.Edit{Delete: true, Path: []string{"ports", port, "ip", a.String()}})
	}
	for _, a := range world.Without(is.Addresses, was.Addresses) {
		if strings.HasPrefix(a.String(), "192.0.2.") {
			return nil, fmt.Errorf("%s is for documents: %w", a, cube.ErrInvalid)
		}
		edits = append(edits, cube.Edit{Path: []string{"ports", port, "ip", a.String()}, Value: map[string]any{}})
	}
	if is.MAC.String() != was.MAC.String() {
		edits = append(edits, cube.Edit{Path: []string{"ports", port, "mac"}, Value: is.MAC.String()})
	}
	return edits, nil
}

func newAlignLab(t *testing.T) *lab {
	l := newLab(t, "veth1", "veth2", "eth0")
	model := strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "addressed")
	model = strings.Replace(model, "leaf mac { type string; }", `leaf mac { type string; } list ip { key "address"; leaf address { type string; } }`, 1)
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, WholeLists: true, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&addressed{toyBridge{toy{e, l.b}}}), nil
	}}}
	l.restart()
	for i, name := range []string{"veth1", "veth2", "eth0"} {
		info, _ := l.devs.Get(name)
		info.MAC = pkt.MAC(fmt.Sprintf("02:00:00:00:00:1%d", i))
		l.devs.set(info)
		l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: info})
	}
	l.NetdevEvent(netdev.Event{Kind: netdev.Synced})
	return l
}

// happens changes a device, as a user might, and reports the event.
func (l *lab) happens(name string, change func(*netdev.Info)) {
	old, _ := l.devs.Get(name)
	now := old
	change(&now)
	l.devs.set(now)
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: now, Old: &old})
}

func (l *lab) wantNetdev(step, name, mac string, addresses ...string) {
	l.t.Helper()
	info, err := l.devs.Get(name)
	var got []string
	for _, a := range info.Addresses {
		got = append(got, a.String())
	}
	slices.Sort(got)
	slices.Sort(addresses)
	if err != nil || info.MAC.String() != mac || !slices.Equal(got, addresses) {
		l.t.Errorf("%s: %s has %s %v, %v; want %s %v", step, name, info.MAC, got, err, mac, addresses)
	}
}

func (l *lab) wantPort(step, port, mac string, addresses ...string) {
	l.t.Helper()
	raw, err := l.read("h1", "ports", port)
	var p struct {
		MAC string
		IP  []struct{ Address string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(raw), &p)
	}
	var got []string
	for _, a := range p.IP {
		got = append(got, a.Address)
	}
	slices.Sort(got)
	slices.Sort(addresses)
	if err != nil || p.MAC != mac || !slices.Equal(got, addresses) {
		l.t.Errorf("%s: port %s has %q %v, %v; want %q %v", step, port, p.MAC, got, err, mac, addresses)
	}
}

const (
	vethMAC = "02:00:00:00:00:10"
	portMAC = "02:00:00:00:01:01"
	sysMAC  = "02:00:00:00:0a:0a"
)

func TestWhatChangesAtANetdevChangesAtItsPort(t *testing.T) {
	l := newAlignLab(t)
	l.happens("veth1", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24") })
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
	l.wantPort("at the beginning", "p1", "", "10.0.0.1/24")
	for _, tt := range []struct {
		step   string
		change func(*netdev.Info)
		want   []string
	}{
		{"another one", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24", "10.1.0.1/24") }, []string{"10.0.0.1/24", "10.1.0.1/24"}},
		{"one that the cube refuses", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24", "10.1.0.1/24", "192.0.2.1/24") }, []string{"10.0.0.1/24", "10.1.0.1/24"}},
		{"the next one, and one less", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24", "10.2.0.1/24", "192.0.2.1/24") }, []string{"10.0.0.1/24", "10.2.0.1/24"}},
		{"down, which takes some away", func(i *netdev.Info) { i.Up, i.Addresses = false, nil }, []string{"10.0.0.1/24", "10.2.0.1/24"}},
		{"up again", func(i *netdev.Info) { i.Up = true }, []string{"10.0.0.1/24", "10.2.0.1/24"}},
	} {
		l.happens("veth1", tt.change)
		l.wantPort(tt.step, "p1", "", tt.want...)
	}
	l.wantNetdev("after it was down", "veth1", vethMAC, "10.0.0.1/24", "10.2.0.1/24")
	l.devs.flaps[10]++
	l.happens("veth1", func(i *netdev.Info) { i.Addresses = nil })
	l.wantPort("down and up again in a moment", "p1", "", "10.0.0.1/24", "10.2.0.1/24")

	// The kernel reports what we write; that is not a change.
	puts := l.devs.puts
	before := l.view.Load()
	l.happens("veth1", func(i *netdev.Info) {})
	if l.devs.puts != puts || l.view.Load() != before {
		t.Errorf("%d changes of netdevs, want none, and no change of the configuration", l.devs.puts-puts)
	}
	gone := l.devs.remove("veth1")
	l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: gone})
	l.wantPort("the netdev is gone", "p1", "", "10.0.0.1/24", "10.2.0.1/24")
	l.devs.set(netdev.Info{Name: "veth1", Index: 20, Up: true, Carrier: true, Kind: "veth", MAC: pkt.MAC(vethMAC), Addresses: pkt.Prefixes("10.3.0.1/24")})
	back, _ := l.devs.Get("veth1")
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: back})
	l.wantPort("another one by its name", "p1", "", "10.0.0.1/24", "10.2.0.1/24")
	l.wantNetdev("another one by its name", "veth1", vethMAC, "10.0.0.1/24", "10.2.0.1/24", "10.3.0.1/24")
}

func TestANetdevIsGivenWhatItsPortHasAndGivesItBack(t *testing.T) {
	l := newAlignLab(t)
	l.happens("veth1", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.9.0.1/24") })
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","mac":"` + portMAC + `","ip":[{"address":"10.0.0.1/24"},{"address":"10.9.0.1/24"}]},{"name":"p2"}]}`)
	l.wantNetdev("without a peer", "veth1", vethMAC, "10.9.0.1/24")
	for _, tt := range []struct {
		do, mac string
		want    []string
	}{
		{`connect h1:p1 veth1`, portMAC, []string{"10.0.0.1/24", "10.9.0.1/24"}},
		{`post h1 ports p1 ip 10.1.0.1/24 <<< {}`, portMAC, []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`del h1 ports p1 ip 10.9.0.1/24`, portMAC, []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`patch h1 ports p1 mac <<< "02:00:00:00:01:02"`, "02:00:00:00:01:02", []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`patch h1 note <<< "follow"`, vethMAC, []string{"10.9.0.1/24"}},
		{`patch h1 note <<< "both"`, "02:00:00:00:01:02", []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`patch h1 note <<< "off"`, vethMAC, []string{"10.9.0.1/24"}},
		{`patch h1 note <<< "both"`, "02:00:00:00:01:02", []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`del h1 ports p1 mac`, vethMAC, []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`patch h1 ports p1 mac <<< "` + portMAC + `"`, portMAC, []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`disconnect h1:p1 veth1`, vethMAC, []string{"10.9.0.1/24"}},
		{`connect h1:p1 veth1`, portMAC, []string{"10.0.0.1/24", "10.1.0.1/24", "10.9.0.1/24"}},
		{`del h1 ports p1`, vethMAC, []string{"10.9.0.1/24"}},
		{`post h1 ports p1 <<< {"peer":"veth1","mac":"` + portMAC + `","ip":[{"address":"10.0.0.1/24"}]}`, portMAC, []string{"10.0.0.1/24", "10.9.0.1/24"}},
	} {
		l.must(tt.do)
		l.wantNetdev(tt.do, "veth1", tt.mac, tt.want...)
	}
	l.restart()
	l.wantNetdev("after a restart", "veth1", portMAC, "10.0.0.1/24", "10.9.0.1/24")
	l.must(`delete h1`)
	l.wantNetdev("without the cube", "veth1", vethMAC, "10.9.0.1/24")
}

func TestTheOperatorsMACAddressStays(t *testing.T) {
	l := newAlignLab(t)
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","mac":"`+portMAC+`","peer":"veth1"}]}`, `patch h1 note <<< "both"`)
	l.happens("veth1", func(i *netdev.Info) { i.MAC = pkt.MAC(sysMAC) })
	l.wantPort("changed at the netdev", "p1", sysMAC)
	l.must(`disconnect h1:p1 veth1`)
	l.wantNetdev("without the port", "veth1", sysMAC)
}

// TestAFailureAnywhereLeavesNetdevsAsTheyWere fails each step in turn.
func TestAFailureAnywhereLeavesNetdevsAsTheyWere(t *testing.T) {
	l := newAlignLab(t)
	l.happens("veth2", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.7.0.1/24") })
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","mac":"` + portMAC + `","peer":"veth1","ip":[{"address":"10.0.0.1/24"}]},{"name":"p2"}]}`)
	for _, line := range []string{
		`patch h1 ports p1 mac <<< "02:00:00:00:01:02"`, `post h1 ports p1 ip 10.1.0.1/24 <<< {}`, `connect h1:p2 veth2`,
		`disconnect h1:p1 veth1`, `del h1 ports p1`, `delete h1`, `del h1 ports p1 ip 10.0.0.1/24`,
	} {
		for _, step := range []string{"Prepare", "Commit", "store", "Alignment", "Put"} {
			before, devs := l.state(), fmt.Sprint(l.devs.infos, l.devs.ours)
			failed := false
			fail := func(what string) error {
				if what == step || strings.HasSuffix(what, " "+step) {
					failed = true
					return errInjected
				}
				return nil
			}
			l.plane.setFail(fail)
			l.b.setFail(fail)
			l.devs.refuse = func(netdev.Settings) error { return fail("Put") }
			err := l.do(line)
			l.plane.setFail(nil)
			l.b.setFail(nil)
			l.devs.refuse = nil
			if !failed {
				if err == nil { // this change has no such step
					_ = l.do(`delete h1`) // the change may have deleted it
					l.must(`create addressed h1 <<< {"ports":[{"name":"p1","mac":"` + portMAC + `","peer":"veth1","ip":[{"address":"10.0.0.1/24"}]},{"name":"p2"}]}`)
				}
				continue
			}
			if step == "Put" && err == nil {
				continue // leaving is not refused by a netdev that keeps what it has
			}
			if !errors.Is(err, errInjected) {
				t.Errorf("%s, %s fails: %v", line, step, err)
			}
			l.wantState(before)
			if after := fmt.Sprint(l.devs.infos, l.devs.ours); after != devs {
				t.Errorf("%s, %s fails: netdevs are\n%s\nwere\n%s", line, step, after, devs)
			}
		}
	}
}

func TestANetdevThatKeepsItsMACAddressIsNoReasonToRefuse(t *testing.T) {
	l := newAlignLab(t)
	l.devs.refuse = func(d netdev.Settings) error {
		if d.MAC != nil {
			return fmt.Errorf("MAC address: %w", unix.EBUSY)
		}
		return nil
	}
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","mac":"` + portMAC + `","peer":"veth1","ip":[{"address":"10.0.0.1/24"}]}]}`)
	l.wantNetdev("connected", "veth1", vethMAC, "10.0.0.1/24")
	l.wantPort("connected", "p1", portMAC, "10.0.0.1/24")
	l.must(`disconnect h1:p1 veth1`)
	l.wantNetdev("disconnected", "veth1", vethMAC)
}

// TestWhatTheHostReachesElsewhereIsNotTakenFromIt: the address of a port is in a network of another netdev.
func TestWhatTheHostReachesElsewhereIsNotTakenFromIt(t *testing.T) {
	l := newAlignLab(t)
	l.happens("eth0", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.77/24") })
	l.must(`create addressed h1 <<< {"ports":[{"name":"p1","peer":"veth1","ip":[{"address":"10.0.0.1/24"},{"address":"10.1.0.1/24"}]},
		{"name":"p2","peer":"veth2","ip":[{"address":"10.1.0.1/24"}]}]}`)
	l.wantNetdev("the network of eth0 is left out, that of another port is not", "veth1", vethMAC, "10.1.0.1/24")
	l.wantNetdev("the network of eth0 is left out, that of another port is not", "veth2", "02:00:00:00:00:11", "10.1.0.1/24")
	l.happens("eth0", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.77/24", "10.1.0.77/16") })
	l.wantNetdev("eth0 is there later", "veth1", vethMAC)
	l.wantPort("eth0 is there later", "p1", "", "10.0.0.1/24", "10.1.0.1/24")
}

func TestWhatAPortTakesIsAppliedTwice(t *testing.T) {
	l := newAlignLab(t)
	l.happens("veth1", func(i *netdev.Info) { i.Addresses = pkt.Prefixes("10.0.0.1/24") })
	doc := `[{"name":"h1","service-name":"addressed","ports":[{"name":"p1","peer":"veth1"}]}]`
	var first *Applied
	for i := range 2 {
		a, err := l.Apply(t.Context(), []byte(doc), ApplyOptions{})
		if err != nil || a.Changed != (i == 0) {
			t.Fatalf("time %d: changed %v, %v", i+1, a, err)
		}
		if first == nil {
			first = a
		}
		l.wantPort("applied", "p1", "", "10.0.0.1/24")
	}
	if text := string(document.Encode(first.Difference)); !strings.Contains(text, "10.0.0.1/24") {
		t.Errorf("the difference does not show what the port takes: %s", text)
	}
	l.must(`put h1 ports <<< [{"name":"p1","peer":"veth1"}]`)
	l.wantPort("put without", "p1", "", "10.0.0.1/24")
}
