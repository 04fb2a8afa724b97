// SPDX-License-Identifier: Apache-2.0

package bpftest_test

// The helpers of pcn/time.h, fdb.h, address.h and counter.h against packages aging, fdb and inet.

import (
	_ "embed"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/entries.tc.o
	entriesTC []byte
	//go:embed testdata/entries.xdp.o
	entriesXDP []byte
)

// entriesAsked is struct entries_asked, entriesAnswer struct entries_answer.
type entriesAsked struct {
	Now, Seen, Limit uint64
	Fixed            uint32
	Address4         [4]byte
	Address6         inet.Address
	Other            inet.Address
}

type entriesAnswer struct {
	Age                             int64
	Aged, RefreshDue, FDBAged, Same uint32
	From4, From6, Copy              inet.Address
}

// truth is the value of a comparison in C.
func truth(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// answer returns the results of package aging and the others for a question.
func (q entriesAsked) answer() entriesAnswer {
	limit := time.Duration(q.Limit)
	return entriesAnswer{
		Age:        int64(q.Now - q.Seen),
		Aged:       truth(aging.Aged(q.Now, q.Seen, limit)),
		RefreshDue: truth(int64(q.Now-q.Seen) >= int64(q.Limit)),
		FDBAged:    truth(fdb.Entry{Seen: q.Seen, Fixed: uint8(q.Fixed)}.Aged(q.Now, limit)),
		Same:       truth(q.Address6 == q.Other),
		From4:      inet.AddressOf(netip.AddrFrom4(q.Address4)), From6: q.Address6, Copy: q.Other,
	}
}

func TestHelpersForEntriesAreThoseOfThePackages(t *testing.T) {
	one6, two6 := inet.AddressOf(netip.MustParseAddr("2001:db8::1")), inet.AddressOf(netip.MustParseAddr("2001:db8::2"))
	var asked []entriesAsked
	for _, limit := range []uint64{0, 1, 1000, uint64(time.Hour)} {
		for _, seen := range []uint64{1000, 999, 1001, 2000, 0, math.MaxUint64 - 9} {
			for fixed := range uint32(2) {
				asked = append(asked, entriesAsked{Now: 2000, Seen: seen, Limit: limit, Fixed: fixed, Address4: [4]byte{10, 0, 0, 1}, Address6: one6, Other: two6})
			}
		}
	}
	for i := range 16 { // each byte counts
		is := entriesAsked{Address4: [4]byte{byte(i), 255, 0, byte(i)}, Address6: one6, Other: one6}
		asked = append(asked, is)
		is.Other[i] ^= 1
		asked = append(asked, is)
	}
	frame := pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").Payload(50).Bytes()
	services := []cube.Service{bare("entries", entriesTC, entriesXDP)}
	bpftest.Each(t, bpftest.Options{Hosts: 1, Services: services}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("entries", "e", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
		bpftest.Layout(t, entriesTC, "asked", entriesAsked{})
		bpftest.Layout(t, entriesTC, "answer", entriesAnswer{})
		bpftest.Layout(t, entriesTC, "sizes", inet.Count{})
		question, err := table.Of[uint32, entriesAsked]("asked", l.Map("e", "asked"))
		if err != nil {
			t.Fatal(err)
		}
		answers, err := table.Of[uint32, entriesAnswer]("answer", l.Map("e", "answer"))
		if err != nil {
			t.Fatal(err)
		}
		same := uint64(0)
		for _, q := range asked {
			if err := question.Set(0, q); err != nil {
				t.Fatal(err)
			}
			l.Run("veth1", frame)
			got, _, err := answers.Get(0)
			if err != nil {
				t.Fatal(err)
			}
			want := q.answer()
			if same += uint64(want.Same); got != want {
				t.Errorf("%+v:\n got %+v\nwant %+v", q, got, want)
			}
		}
		counted(t, l, []uint64{uint64(len(asked)), same}, inet.Count{Packets: uint64(len(asked)), Bytes: uint64(len(asked) * len(frame))})
	})
}

// counted compares the counters of the cube with the expected ones.
func counted(t *testing.T, l *bpftest.Lab, want []uint64, size inet.Count) {
	t.Helper()
	counters, err := table.PerCPUOf[uint32, uint64]("counters", l.Map("e", "counters"))
	if err != nil {
		t.Fatal(err)
	}
	for i, n := range want {
		if got, err := table.Sum(counters, uint32(i)); got != n || err != nil {
			t.Errorf("counter %d is %d, error %v, want %d", i, got, err, n)
		}
	}
	sizes, err := table.PerCPUOf[uint32, inet.Count]("sizes", l.Map("e", "sizes"))
	if err != nil {
		t.Fatal(err)
	}
	values, _, err := sizes.Get(0)
	if got := inet.Sum(values); got != size || err != nil {
		t.Errorf("the packets are %+v, error %v, want %+v", got, err, size)
	}
}
