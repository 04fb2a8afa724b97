// SPDX-License-Identifier: Apache-2.0

package ddosmitigator_test

import (
	"fmt"
	mathbits "math/bits"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// hosts is a list of addresses: every 16th from 16.0.0.0 on.
func hosts(from, count int) string {
	var b strings.Builder
	b.WriteString("[")
	for i := from; i < from+count; i++ {
		if i > from {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"ip":"%s"}`, host(i))
	}
	b.WriteString("]")
	return b.String()
}

func host(i int) netip.Addr {
	i *= 16
	return netip.AddrFrom4([4]byte{16 + byte(i>>24), byte(i >> 16), byte(i >> 8), byte(i)})
}

// large is the size of a list in a test: a million is for make soak.
func large() int {
	if os.Getenv("POLYCUBE_SOAK") != "" {
		return 1_000_000
	}
	return 50_000
}

// fill adds entries to a list, in several requests: a body is limited to 8 MiB.
func fill(l *bpftest.Lab, name string, count int) {
	const step = 200_000
	for at := 0; at < count; at += step {
		l.Set("POST", name+" blacklist-src", hosts(at, min(step, count-at)))
	}
}

// TestALargeList is filled, found by packets, changed and emptied.
func TestALargeList(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	l.Create("ddosmitigator", "d", `{}`)
	l.Attach("d", "veth1")
	count, begin := large(), time.Now()
	fill(l, "d", count)
	t.Logf("%d entries were added in %v", count, time.Since(begin))
	for _, i := range []int{0, 1, count / 2, count - 1} {
		expect(t, l, "a listed address", frame(host(i).String(), "10.0.0.1"), src)
		expect(t, l, "the one after it", frame(host(i).Next().String(), "10.0.0.1"), "pass")
	}
	if got := state[counts](t, l, "d blacklist-src "+host(count/2).String()); got.Packets != 1 {
		t.Errorf("the entry has %d packets, want 1", got.Packets)
	}
	begin = time.Now()
	l.Restart(nil)
	t.Logf("a restart takes %v", time.Since(begin))
	expect(t, l, "after a restart", frame(host(count/2).String(), "10.0.0.1"), src)
	if got := state[counts](t, l, "d blacklist-src "+host(count/2).String()); got.Packets != 2 {
		t.Errorf("after a restart, the entry has %d packets, want 2", got.Packets)
	}
	l.Set("DELETE", "d blacklist-src", "")
	expect(t, l, "after the list", frame(host(count/2).String(), "10.0.0.1"), "pass")
}

// TestTimedALargeListChangesLikeASmallOne compares changes of one entry.
func TestTimedALargeListChangesLikeASmallOne(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	l.Create("ddosmitigator", "small", `{"blacklist-src":`+hosts(0, 10)+`}`)
	l.Create("ddosmitigator", "large", `{}`)
	fill(l, "large", large()-1) // with room for one
	l.Attach("large", "veth1")
	times := map[string][]time.Duration{}
	for i := range 100 {
		for _, name := range []string{"small", "large"} {
			method, body := "POST", "{}"
			if i%2 == 1 {
				method, body = "DELETE", ""
			}
			begin := time.Now()
			l.Set(method, fmt.Sprintf("%s blacklist-src 9.0.0.%d", name, i/2), body)
			times[name] = append(times[name], time.Since(begin))
		}
	}
	median := func(name string) time.Duration { return slices.Sorted(slices.Values(times[name]))[len(times[name])/2] }
	t.Logf("a change takes %v, with 10 entries %v", median("large"), median("small"))
	if median("large") > 3*median("small")+5*time.Millisecond {
		t.Errorf("a change of a large list takes %v, of a small one %v", median("large"), median("small"))
	}
}

// BenchmarkPacket times a packet that is in no list, with 1,000 and 1,000,000 entries, of one length and of several, and with
// rates.
func BenchmarkPacket(b *testing.B) {
	l := bpftest.New(b, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	l.Create("ddosmitigator", "d", `{}`)
	l.Attach("d", "veth1")
	run := func(name, from string) {
		b.Run(name, func(b *testing.B) { l.Time(b, "veth1", frame(from, "10.0.0.1")) })
	}
	run("empty", "192.0.2.1")
	for _, count := range []int{1000, 1_000_000} {
		l.Set("DELETE", "d blacklist-src", "")
		begin := time.Now()
		fill(l, "d", count)
		b.Logf("%d entries were added in %v", count, time.Since(begin))
		for i := range 4 { // for some, the filter cannot tell
			run(fmt.Sprintf("%d/other %d", count, i), fmt.Sprintf("192.0.2.%d", 1+16*i))
		}
		run(fmt.Sprintf("%d/listed", count), host(count/2).String())
	}
	l.Set("POST", "d blacklist-dst", `[{"ip":"192.0.3.0/24"},{"ip":"192.1.0.0/16"},{"ip":"192.2.3.64/26"},{"ip":"11.0.0.0/8"}]`)
	run("5 lengths", "192.0.2.1")
	l.Set("PATCH", "d auto-src-packets", "4000000000")
	run("a rate", "192.0.2.1")
	l.Set("PATCH", "d auto-dst-packets", "4000000000")
	run("two rates", "192.0.2.1")
}

// TestTheFilterForgets the bits of prefixes that were removed, and the maps have grown with the list.
func TestTheFilterForgets(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("ddosmitigator", "d", `{"blacklist-src":`+hosts(0, 10)+`}`)
	l.Attach("d", "veth1")
	bits := func() (n int) {
		m := l.Map("d", "filter")
		for i := uint32(1); i < m.MaxEntries(); i++ {
			var word uint64
			if err := m.Lookup(i, &word); err != nil {
				t.Fatal(err)
			}
			n += mathbits.OnesCount64(word)
		}
		return n
	}
	if n := bits(); n < 9 || n > 10 {
		t.Errorf("10 entries have %d bits", n)
	}
	l.Set("POST", "d blacklist-src", hosts(10, 3000))
	if n := bits(); n < 2900 || n > 3010 {
		t.Errorf("3010 entries have %d bits", n)
	}
	if got, want := [2]uint32{l.Map("d", "entries").MaxEntries(), l.Map("d", "filter").MaxEntries()}, [2]uint32{4096, 1 + 2048}; got != want {
		t.Errorf("the maps have %d entries, want %d", got, want)
	}
	l.Set("PUT", "d blacklist-src", hosts(0, 10))
	if n := bits(); n < 9 || n > 10 {
		t.Errorf("10 entries that are left have %d bits", n)
	}
	expect(t, l, "an entry that stays", frame(host(9).String(), "10.0.0.1"), src)
	expect(t, l, "one that was removed", frame(host(10).String(), "10.0.0.1"), "pass")
}
