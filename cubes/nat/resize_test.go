// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"bytes"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// successor4 creates a table that could replace one of IPv4 sessions.
func (b *bench) successor4(name string) table.Table[key4, session4] {
	b.t.Helper()
	elf, err := files.ReadFile("nat.tc.o")
	if err != nil {
		b.t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		b.t.Fatal(err)
	}
	declared := spec.Maps[name] // with types, in which Linux 6.1 wants the maps inside to be alike
	declared.MaxEntries = 100
	m, err := ebpf.NewMap(declared)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = m.Close() })
	t, err := table.Of[key4, session4](name, m)
	if err != nil {
		b.t.Fatal(err)
	}
	return t
}

// TestSessionsAreWrittenToBothTables: while tables are replaced, a session and its mapping are in both, alike, and an external port
// that is allocated in the new table only is not allocated again.
func TestSessionsAreWrittenToBothTables(t *testing.T) {
	b := newBench(t, bpftest.New(t, bpftest.Options{Hosts: 2}),
		`{"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`)
	tables := tablesOf(t, b.Lab)
	outer, inner := b.successor4("egress4"), b.successor4("ingress4")
	if err := lead(tables.next4, nextIndex(false), outer, inner); err != nil {
		t.Fatal(err)
	}
	taken := key4{Local: netip.MustParseAddr("203.0.113.1").As4(), LocalPort: portOf(5000), Proto: unix.IPPROTO_UDP}
	if err := inner.Set(taken, session4{}); err != nil {
		t.Fatal(err)
	}
	opens := func(port uint16) (external [2]byte) {
		t.Helper()
		got, err := b.pass(false, out4("10.0.0.1", "198.51.100.1").UDP(port, 53).Data([]byte("x")).Bytes())
		if err != nil {
			t.Fatal(err)
		}
		return [2]byte(got[34:36])
	}
	if got := opens(4000); got != portOf(4000) {
		t.Errorf("the external port is % x", got)
	}
	if got := opens(5000); got == portOf(5000) {
		t.Error("an external port was allocated twice")
	}
	same := func(own, next table.Table[key4, session4], want int) {
		t.Helper()
		var err error
		entries := 0
		for k, v := range own.All(&err) {
			entries++
			if twin, ok, err := next.Get(k); err != nil || !ok || twin.Half.Port != v.Half.Port || twin.Half.Flags != v.Half.Flags || twin.Addr != v.Addr {
				t.Errorf("%+v: %+v in one table, %+v in the other (%v %v)", k, v, twin, ok, err)
			}
		}
		if err != nil || entries != want {
			t.Errorf("%d entries, want %d (%v)", entries, want, err)
		}
	}
	same(tables.v4.egress, outer, 4) // two sessions and their mappings
	same(tables.v4.ingress, inner, 2)
	if _, ok, err := tables.v4.ingress.Get(taken); ok || err != nil {
		t.Errorf("what is allocated in the new table is in the old one: %v %v", ok, err)
	}
	b.step(step{name: "from outside", in: true, send: in4("198.51.100.1", "203.0.113.1").UDP(53, 4000).Data([]byte("y")),
		want: in4("198.51.100.1", "10.0.0.1", pkt.IPv4Options{TTL: 64}).UDP(53, 4000).Data([]byte("y"))})

	n := &nat{tables: *tables}
	if _, err := n.forgetNext(false).Do(); err != nil {
		t.Fatal(err)
	}
	opens(6000)
	var err error
	for k := range outer.All(&err) {
		if k.LocalPort == portOf(6000) {
			t.Error("a session is in a table that is not used any more")
		}
	}
}
