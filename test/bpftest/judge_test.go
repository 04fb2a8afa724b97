// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

func TestVerdictsAreHeldAgainstTheCounters(t *testing.T) {
	tests := []struct {
		name    string
		typ     cube.Type
		raw     uint32
		outcome Outcome
		want    string
		wrong   bool
	}{
		{"sent at TC", cube.TypeTC, 7, Outcome{Sent: "br:p1"}, "send", false},
		{"sent at XDP", cube.TypeXDPDRV, 4, Outcome{Sent: "br:p1"}, "send", false},
		{"sent back by a cube on the netdev", cube.TypeXDPDRV, 4, Outcome{Fate: "s pass"}, "send", false},
		{"sent and not counted", cube.TypeTC, 7, Outcome{}, "send", true},
		{"dropped", cube.TypeTC, 2, Outcome{Fate: "br same-port"}, "drop", false},
		{"dropped without a reason", cube.TypeXDPSKB, 1, Outcome{}, "drop", true},
		{"passed", cube.TypeXDPDRV, 2, Outcome{Fate: "th pass"}, "pass", false},
		{"passed at TC", cube.TypeTC, 0xffffffff, Outcome{Fate: "th pass"}, "pass", false},
		{"leaked to the stack", cube.TypeTC, 0xffffffff, Outcome{Fate: "br same-port"}, "pass", true},
		{"flooded at TC", cube.TypeTC, 2, Outcome{Sent: "br:p1 br:p2", Fate: "br flood"}, "flood", false},
		{"flooded at XDP", cube.TypeXDPDRV, 4, Outcome{Sent: "br:p1 br:p2", Fate: "br flood"}, "flood", false},
		{"aborted", cube.TypeXDPDRV, 0, Outcome{}, "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := (&Lab{Type: tt.typ}).judge(tt.raw, tt.outcome)
			if got != tt.want || (err != nil) != tt.wrong {
				t.Errorf("got %q and error %v, want %q and an error: %v", got, err, tt.want, tt.wrong)
			}
		})
	}
}

func TestWhatGrewIsListed(t *testing.T) {
	got := grown(map[string]uint64{"a": 1, "b": 5, "c": 2}, map[string]uint64{"a": 1, "b": 6, "c": 4, "d": 1})
	if want := []string{"b", "c x2", "d"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLayoutsThatDifferAreSeen(t *testing.T) {
	number := func(size uint32) btf.Type { return &btf.Int{Size: size} }
	c := &btf.Struct{Name: "entry", Size: 8, Members: []btf.Member{
		{Name: "seen_at", Type: number(4)}, {Name: "port", Type: number(2), Offset: 32}, {Name: "pad", Type: number(2), Offset: 48},
	}}
	for _, tt := range []struct {
		name  string
		value any
		says  string
	}{
		{"the same", struct {
			SeenAt uint32
			Port   uint16
			_      uint16
		}{}, ""},
		{"another order", struct {
			Port   uint16
			_      uint16
			SeenAt uint32
		}{}, "seen_at is 4 bytes at 0"},
		{"a member too few", struct{ SeenAt, Port uint32 }{}, "2"},
		{"another name", struct {
			LastSeen uint32
			Port     uint16
			_        uint16
		}{}, "member 0 is seen_at in C and LastSeen in Go"},
		{"another size", struct {
			SeenAt uint64
			Port   uint16
			_      uint16
		}{}, "has 8 bytes"},
		{"no struct", uint64(0), "two structs"},
	} {
		got := strings.Join(differences(c, reflect.TypeOf(tt.value)), "; ")
		if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.says)
		}
	}
}
