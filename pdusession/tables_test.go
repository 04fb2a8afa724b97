// SPDX-License-Identifier: Apache-2.0

package pdusession

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sdf"
)

// maps are those of the cube, with few rows.
func maps(t *testing.T, sizes map[string]uint32) map[string]*ebpf.Map {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	spec, err := ebpf.LoadCollectionSpec("../cubes/upf/upf.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*ebpf.Map{}
	for _, name := range []string{"tunnels", "named_tunnels", "devices4", "devices6", "routes", "stations", "notices", "rules", "meters", "usages", "queues", "redirects", "lists"} {
		is := spec.Maps[name].Copy()
		is.Pinning = ebpf.PinNone
		if n := sizes[name]; n != 0 {
			is.MaxEntries = n
		}
		m, err := ebpf.NewMap(is)
		if err != nil {
			t.Fatalf("map %s: %v", name, err)
		}
		t.Cleanup(func() { _ = m.Close() })
		all[name] = m
	}
	return all
}

// opened are tables over maps.
func opened(t *testing.T, all map[string]*ebpf.Map) *Tables {
	t.Helper()
	tables, err := openFrom(func(name string) (*ebpf.Map, error) { return all[name].Clone() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tables.Close(); err != nil {
			t.Error(err)
		}
	})
	return tables
}

const (
	deviceIP = "10.1.0.1"
	gNB      = "192.0.2.10"
)

// simple is a session with a rule in each direction.
func simple(ip string, teid uint32) *Session {
	return &Session{
		IPv4: netip.MustParseAddr(ip),
		Rules: []Rule{
			{ID: 1, TEID: teid, Forward: Forward{Action: Pass}, Meters: []uint32{7}, Usages: []uint32{1}},
			{ID: 2, Forward: Forward{Action: Pass, Peer: netip.MustParseAddr(gNB), TEID: teid + 1000, QFI: 9}, Meters: []uint32{7}, Usages: []uint32{1}},
		},
		Meters: []Meter{{ID: 7, Up: Rate{Limited: true, BitsPerSecond: 1e6}, Down: Rate{Limited: true, BitsPerSecond: 2e6}}},
		Usages: []Usage{{ID: 1}},
	}
}

// put puts a session alone.
func put(t *testing.T, tables *Tables, was *Rows, s *Session) *Rows {
	t.Helper()
	b := tables.Begin()
	rows, err := b.Put(was, s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Commit(); err != nil {
		t.Fatal(err)
	}
	return rows
}

// contents are the entries of all tables with keys.
func contents(t *testing.T, tables *Tables) string {
	t.Helper()
	var errs [6]error
	text := ""
	for k, v := range tables.tunnels.All(&errs[0]) {
		text += fmt.Sprintln("tunnel", k, v)
	}
	if tables.openNamed() == nil {
		for k, v := range tables.named.All(&errs[5]) {
			text += fmt.Sprintln("tunnel", k, v)
		}
	}
	for k, v := range tables.devices4.All(&errs[1]) {
		text += fmt.Sprintln("device", k, v)
	}
	for k, v := range tables.devices6.All(&errs[2]) {
		text += fmt.Sprintln("device6", k, v)
	}
	for k, v := range tables.routes.All(&errs[4]) {
		text += fmt.Sprintln("route", k, v)
	}
	for k := range tables.stations.All(&errs[3]) {
		if tables.peers[k.Addr()] > 0 {
			text += fmt.Sprintln("peer", k)
		}
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	return text + fmt.Sprintln(tables.rules.space.count, tables.meters.space.count, tables.usages.space.count, tables.queues.space.count)
}

func TestASessionComesChangesAndGoes(t *testing.T) {
	tables := opened(t, maps(t, nil))
	empty := contents(t, tables)
	rows := put(t, tables, nil, simple(deviceIP, 100))
	one, ok, err := tables.tunnels.Get(100)
	if err != nil || !ok || one.Has != hasIPv4 || one.IPv4 != key4(netip.MustParseAddr(deviceIP)) || one.Rule != rows.Block || one.List != 0 {
		t.Fatalf("%+v, %v, %v", one, ok, err)
	}
	r := tables.rules.values[rows.Block+1]
	if r.TEID != 1100 || r.QFI != 9 || r.Flags != flagTunnel || r.Peer != inet.AddressOf(netip.MustParseAddr(gNB)) || r.Usages[0] != rows.Usages[1] || r.Index != 1 {
		t.Errorf("%+v", r)
	}

	moved := simple(deviceIP, 100)
	moved.Rules[1].Forward.Peer = netip.MustParseAddr("2001:db8::1")
	tables.usages.values[rows.Usages[1]].Bytes[1] = 1234
	after := put(t, tables, rows, moved)
	if after.Usages[1] != rows.Usages[1] || after.Meters[7] != rows.Meters[7] || after.Block == rows.Block {
		t.Errorf("%+v became %+v", rows, after)
	}
	if n, err := tables.Counts(after.Usages[1]); err != nil || n.Down != 1234 {
		t.Errorf("%+v, %v", n, err)
	}

	b := tables.Begin()
	if err := b.Remove(after); err != nil {
		t.Fatal(err)
	}
	final, err := b.Commit()
	if err != nil || final[after.Usages[1]].Down != 1234 {
		t.Errorf("%+v, %v", final, err)
	}
	if is := contents(t, tables); is != empty {
		t.Errorf("left:\n%s", is)
	}
}

func TestAMeterKeepsItsDebt(t *testing.T) {
	tables := opened(t, maps(t, nil))
	s := simple(deviceIP, 100)
	rows := put(t, tables, nil, s)
	m := &tables.meters.values[rows.Meters[7]]
	if !m.Limit[0].Take(&m.Bucket[0], m.Limit[0].Burst, now()) {
		t.Fatal("the bucket is not full")
	}
	s.Meters[0].Up.BitsPerSecond = 1e9
	rows = put(t, tables, rows, s)
	m = &tables.meters.values[rows.Meters[7]]
	if left := m.Limit[0].Left(m.Bucket[0], now()); left > m.Limit[0].Burst/2 {
		t.Errorf("%d of %d are there after the change of a rate", left, m.Limit[0].Burst)
	}
	if m.Limit[1].Left(m.Bucket[1], now()) != m.Limit[1].Burst {
		t.Error("the other direction is not full")
	}
}

func TestWhatCannotBeIsRefusedAndChangesNothing(t *testing.T) {
	tables := opened(t, maps(t, map[string]uint32{"rules": 8, "meters": 3, "usages": 3, "queues": 2}))
	put(t, tables, nil, simple(deviceIP, 100))
	before := contents(t, tables)
	many := simple("10.1.0.9", 900)
	for i := range 20 {
		many.Rules = append(many.Rules, Rule{ID: uint16(10 + i), TEID: 900})
	}
	waiting := simple("10.1.0.9", 900)
	waiting.Rules[0].Forward.Action, waiting.Rules[1].Forward.Action = Wait, Wait
	routed := simple("10.1.0.9", 900)
	routed.Routes = []netip.Prefix{netip.MustParsePrefix("10.9.0.1/16")}
	unknown := simple("10.1.0.9", 900)
	unknown.Rules[0].Meters = []uint32{99}
	for what, c := range map[string]struct {
		s    *Session
		want error
	}{
		"too many rules":       {many, cube.ErrFull},
		"too many queues":      {waiting, cube.ErrFull},
		"the address is taken": {simple(deviceIP, 900), cube.ErrExists},
		"the TEID is taken":    {simple("10.1.0.9", 100), cube.ErrExists},
		"no such meter":        {unknown, cube.ErrNotFound},
		"bits behind a prefix": {routed, cube.ErrInvalid},
		"no address":           {&Session{Rules: many.Rules[:1]}, cube.ErrInvalid},
		"no rules":             {&Session{IPv4: netip.MustParseAddr("10.1.0.9")}, cube.ErrInvalid},
	} {
		b := tables.Begin()
		if _, err := b.Put(nil, c.s); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", what, err, c.want)
		}
		if _, err := b.Commit(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	b := tables.Begin()
	if _, err := b.Put(nil, simple("10.1.0.2", 200)); err != nil {
		t.Fatal(err)
	}
	if err := b.Abort(); err != nil {
		t.Fatal(err)
	}
	if after := contents(t, tables); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

func TestATableThatIsFullRefusesTheBatch(t *testing.T) {
	all := maps(t, map[string]uint32{"devices4": 2})
	tables := opened(t, all)
	rows := put(t, tables, nil, simple(deviceIP, 100))
	before := contents(t, tables)
	changed := simple(deviceIP, 101)
	b := tables.Begin()
	for i, s := range []*Session{changed, simple("10.1.0.2", 200), simple("10.1.0.3", 300), simple("10.1.0.4", 400)} {
		was := rows
		if i > 0 {
			was = nil
		}
		if _, err := b.Put(was, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Commit(); !errors.Is(err, cube.ErrFull) {
		t.Fatalf("%v, want that it is full", err)
	}
	if after := contents(t, tables); after != before {
		t.Errorf("before:\n%safter:\n%s", before, after)
	}
}

func TestAQueueIsNeverBelowEmpty(t *testing.T) {
	tables := opened(t, maps(t, nil))
	q := &Queues{tables.queues.Mapped}
	tables.queues.values[3].Waiting = 5
	for _, step := range []struct{ done, left uint32 }{{2, 3}, {3, 0}, {1, 0}} {
		if q.Done(3, step.done); q.Waiting(3) != step.left {
			t.Errorf("%d wait after %d of them are done, want %d", q.Waiting(3), step.done, step.left)
		}
	}
}

func TestPeersThatWereLeftMakeRoom(t *testing.T) {
	tables := opened(t, maps(t, map[string]uint32{"stations": 2}))
	var rows *Rows
	for i := range 5 {
		s := simple(deviceIP, 100)
		s.Rules[1].Forward.Peer = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
		rows = put(t, tables, rows, s)
	}
	if len(tables.peers) > 2 {
		t.Errorf("%d peers are known", len(tables.peers))
	}
}

func TestFlowsOfSessionsThatAreAlikeAreShared(t *testing.T) {
	tables := opened(t, maps(t, map[string]uint32{"lists": 3}))
	udp := uint8(17)
	with := func(ip string, teid uint32) *Session {
		s := simple(ip, teid)
		s.Rules = append(s.Rules[:1:1], Rule{ID: 3, TEID: teid, Forward: Forward{Action: Drop}}, s.Rules[1])
		s.Rules[0].Flows = []sdf.Flow{{L4Proto: &udp}}
		return s
	}
	a, b := put(t, tables, nil, with(deviceIP, 100)), put(t, tables, nil, with("10.1.0.2", 200))
	if a.Tunnels[100].List == 0 || a.Tunnels[100].List != b.Tunnels[200].List || a.Device.List != 0 || a.Device.Rule != a.Block+2 {
		t.Errorf("%+v and %+v", a, b)
	}
	put(t, tables, a, simple(deviceIP, 100))
	c := with("10.1.0.3", 300)
	c.Rules[0].Flows = append(c.Rules[0].Flows, sdf.Flow{DSCP: &udp})
	put(t, tables, nil, c)
	batch := tables.Begin()
	other := with("10.1.0.4", 400)
	other.Rules[0].Flows = nil
	if _, err := batch.Put(nil, other); !errors.Is(err, cube.ErrFull) {
		t.Errorf("%v, want that all lists are in use", err)
	}
	if _, err := batch.Commit(); err != nil {
		t.Error(err)
	}
}

func TestSessionsAreFoundAgain(t *testing.T) {
	all := maps(t, nil)
	first := opened(t, all)
	six := simple("10.1.0.2", 200)
	six.IPv6 = netip.MustParsePrefix("2001:db8:0:1::/64")
	six.Rules[0].Flows = []sdf.Flow{{}}
	six.Rules[1].Forward.Action = Wait
	six.Routes = []netip.Prefix{netip.MustParsePrefix("10.9.0.0/16"), netip.MustParsePrefix("2001:db8:9::/48")}
	var kept []*Rows
	for _, s := range []*Session{simple(deviceIP, 100), six} {
		rows := put(t, first, nil, s)
		text, err := json.Marshal(rows)
		if err != nil {
			t.Fatal(err)
		}
		var again Rows
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		kept = append(kept, &again)
	}
	want := contents(t, first)
	put(t, first, nil, simple("10.1.0.3", 300)) // which was not stored

	second := opened(t, all)
	missing, removed, err := second.Adopt(kept)
	if err != nil || len(missing) != 0 || removed != 2 {
		t.Fatalf("%v are missing, %d keys removed, %v", missing, removed, err)
	}
	if is := contents(t, second); is != want {
		t.Errorf("before:\n%safter:\n%s", want, is)
	}
	for _, rows := range kept {
		b := second.Begin()
		if err := b.Remove(rows); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Commit(); err != nil {
			t.Fatal(err)
		}
	}
	// As after the cube was deleted and created again.
	third := opened(t, maps(t, nil))
	if missing, _, err = third.Adopt(kept); err != nil || len(missing) != len(kept) {
		t.Errorf("%d are missing, want all: %v", len(missing), err)
	}
	if third.rules.space.count != 0 || len(third.peers) != len(third.left) || len(third.owners) != 0 {
		t.Errorf("left: %s", contents(t, third))
	}
}

func TestRowsAreGivenAwayOnce(t *testing.T) {
	s := newSpace("rows", 1000)
	given := map[uint32]uint32{}
	used := map[uint32]bool{}
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		n := uint32(1 + r.IntN(32))
		row, err := s.take(n)
		if err == nil {
			for i := row; i < row+n; i++ {
				if i == 0 || i >= 1000 || used[i] {
					t.Fatalf("row %d of %d was given away", i, row)
				}
				used[i] = true
			}
			given[row] = n
		} else if !errors.Is(err, cube.ErrFull) {
			t.Fatal(err)
		}
		for row, n := range given {
			if err == nil && r.IntN(3) > 0 {
				break
			}
			for i := row; i < row+n; i++ {
				delete(used, i)
			}
			s.free(row, n)
			delete(given, row)
			break
		}
		if int(s.count) != len(used) {
			t.Fatalf("%d are in use, it says %d", len(used), s.count)
		}
	}
	for row, n := range given {
		s.free(row, n)
	}
	if _, err := s.take(64); err != nil {
		t.Error(err)
	}
}
