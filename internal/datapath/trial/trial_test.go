// SPDX-License-Identifier: Apache-2.0

package trial

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// Cases of enum picky_which.
const (
	never = iota
	always
	atValue
	atTrue
	atPair
	atMember
	atNumber
	atTrace
	onlyXDP
	onlyEgress
	onlyFurther
	onlyShadow
	onlyInline
)

// compiled are the programs of a file in the data plane's testdata.
func compiled(t testing.TB, file string) map[cube.Hook][]byte {
	t.Helper()
	out := map[cube.Hook][]byte{}
	for _, h := range abi.Hooks {
		elf, err := os.ReadFile("../testdata/" + file + "." + h.String() + ".o")
		if err != nil {
			t.Fatal(err)
		}
		out[h] = elf
	}
	return out
}

// picky are the objects of the service that is refused in a case.
func picky(t testing.TB, which uint32) map[cube.Hook][]byte {
	t.Helper()
	out := map[cube.Hook][]byte{}
	for h, object := range compiled(t, "picky") {
		f, err := elf.NewFile(bytes.NewReader(object))
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := f.Symbols()
		at := slices.IndexFunc(symbols, func(s elf.Symbol) bool { return s.Name == "which" })
		if err != nil || at < 0 {
			t.Fatalf("no constant which: %v", err)
		}
		s := symbols[at]
		out[h] = bytes.Clone(object)
		f.ByteOrder.PutUint32(out[h][f.Sections[s.Section].Offset+s.Value:], which)
	}
	return out
}

// TestRefusalsOnTrial: a program that the kernel refuses for one value of a constant is found, and the error says for
// which.
func TestRefusalsOnTrial(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	tc := []cube.Hook{cube.TC}
	for _, c := range []struct {
		name  string
		which uint32
		trial Trial
		want  Error
		says  string
	}{
		{"with defaults", always, Trial{}, Error{Hook: cube.TC, At: "a cube with netdevs as peers"}, "with the default constants"},
		{"at one value of an enum", atValue, Trial{}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "flavour=SOUR"}, "with flavour=SOUR"},
		{"at one value of a bool", atTrue, Trial{}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "strict=true"}, ""},
		{"at one pair", atPair, Trial{}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "deep=false, strict=true"}, ""},
		{"at a member of a struct", atMember, Trial{Hooks: tc}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "limits.hard=false"}, ""},
		{"at a number", atNumber, Trial{Hooks: tc}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "window=1500"}, ""},
		{"at a level of logs", atTrace, Trial{Hooks: tc}, Error{Hook: cube.TC, At: "a cube with netdevs as peers", Constants: "loglevel=TRACE"}, ""},
		{"at XDP", onlyXDP, Trial{}, Error{Hook: cube.XDP, At: "a cube with netdevs as peers"}, "at XDP of"},
		{"at XDP, transparent", onlyXDP, Trial{Transparent: true}, Error{Hook: cube.XDP, At: "a cube on a netdev"}, ""},
		{"on egress", onlyEgress, Trial{Transparent: true}, Error{Hook: cube.TC, At: "a cube on a netdev", Role: link.OnEgress}, "the egress program at TC"},
		{"on egress, standard", onlyEgress, Trial{}, Error{Hook: cube.TC, At: "a cube with netdevs as peers"}, ""},
		{"on egress, beside programs at XDP", onlyEgress, Trial{Transparent: true, Hooks: []cube.Hook{cube.XDP}},
			Error{Hook: cube.TC, At: "a cube on a netdev", Role: link.OnEgress}, ""},
		{"in a program that is added later", onlyFurther, Trial{Hooks: tc}, Error{Hook: cube.TC, At: "a cube with netdevs as peers"}, ""},
		{"with a namespace", onlyShadow, Trial{}, Error{Hook: cube.TC, At: "a cube with a namespace"}, ""},
		{"inline", onlyInline, Trial{Hooks: tc}, Error{Hook: cube.TC, At: "a cube with another one as peer", Mode: link.Inline}, "in inline mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.trial.Service, c.trial.Objects = "picky", picky(t, c.which)
			_, err := Try(context.Background(), c.trial)
			var is *Error
			if !errors.As(err, &is) || !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want a refusal that says %q", err, c.says)
			}
			got := *is
			c.want.Service, got.Err = "picky", nil
			if got != c.want {
				t.Errorf("refused is %+v, want %+v\n%v", got, c.want, err)
			}
		})
	}
}

// TestProgramsOnTrial: programs that the kernel accepts in all cases pass, and the report says what was tried.
func TestProgramsOnTrial(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	for _, c := range []struct {
		name  string
		which uint32
		trial Trial
		loads []string
	}{
		{"standard, of another process", never, Trial{External: true}, []string{
			"tc, a cube with another one as peer, call, in", "tc, a cube with another one as peer, call, resume",
			"tc, a cube with netdevs as peers, call, in", "tc, a cube with netdevs as peers, call, resume",
			"xdp, a cube with another one as peer, call, in", "xdp, a cube with another one as peer, call, resume",
			"xdp, a cube with netdevs as peers, call, in", "xdp, a cube with netdevs as peers, call, resume"}},
		{"transparent", never, Trial{Transparent: true}, []string{
			"tc, a cube on a netdev, call, in", "tc, a cube on a netdev, call, out", "tc, a cube on a netdev, call, resume",
			"tc, a cube on a netdev, inline, in", "tc, a cube on a netdev, inline, out",
			"tc, a cube on a port, call, in", "tc, a cube on a port, call, resume", "tc, a cube on a port, inline, in",
			"xdp, a cube on a netdev, call, in", "xdp, a cube on a netdev, call, resume", "xdp, a cube on a netdev, inline, in",
			"xdp, a cube on a port, call, in", "xdp, a cube on a port, call, resume", "xdp, a cube on a port, inline, in"}},
		// What is refused in a namespace or inline is never loaded for an external service.
		{"no namespace", onlyShadow, Trial{External: true, Hooks: []cube.Hook{cube.XDP}}, nil},
		{"not inline", onlyInline, Trial{External: true, Brief: true, Hooks: []cube.Hook{cube.TC}}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.trial.Service, c.trial.Objects = "picky", picky(t, c.which)
			r, err := Try(context.Background(), c.trial)
			if err != nil {
				t.Fatal(err)
			}
			var loads []string
			for _, l := range r.Loads {
				loads = append(loads, fmt.Sprintf("%s, %s, %s, %s", l.Hook, l.At, l.Mode, l.Role))
				if l.Instructions == 0 || l.Verified == 0 || l.Took == 0 {
					t.Errorf("no figures: %+v", l)
				}
			}
			slices.Sort(loads)
			if c.loads != nil && !slices.Equal(loads, c.loads) {
				t.Errorf("loaded:\n%s\nwant\n%s", strings.Join(loads, "\n"), strings.Join(c.loads, "\n"))
			}
			if c.trial.Brief != (r.Combinations == 2) || r.Programs < len(r.Loads) || r.Untried != 0 || r.Took == 0 || r.NotInlined != "" {
				t.Errorf("report %+v", r)
			}
		})
	}
}

// TestTheReportHasTheMostOfEachKind: the constants with the most instructions need not be those with the most stack.
func TestTheReportHasTheMostOfEachKind(t *testing.T) {
	var r Report
	for _, l := range []Load{
		{Constants: "a", Verified: 3, Stack: 64, Deepest: "a"},
		{Constants: "b", Verified: 4, Stack: 32, Deepest: "b"},
		{Constants: "c", Verified: 2, Stack: 96, Deepest: "c"},
		{Mode: link.Inline, Constants: "c", Verified: 1, Stack: 128, Deepest: "c"},
	} {
		r.heaviest(l)
	}
	want := []Load{{Constants: "b", Verified: 4, Stack: 96, Deepest: "c"}, {Mode: link.Inline, Constants: "c", Verified: 1, Stack: 128, Deepest: "c"}}
	if !slices.Equal(r.Loads, want) {
		t.Errorf("%+v, want %+v", r.Loads, want)
	}
}

// TestEachProgramIsTriedOnce: constants that a program does not read do not make it a different program.
func TestEachProgramIsTriedOnce(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	r, err := Try(context.Background(), Trial{Service: "resident", Objects: compiled(t, "resident")})
	if err != nil || r.Combinations < len(trialLevels) || r.Programs != len(r.Loads) || r.Same == 0 {
		t.Errorf("%+v, %v: the service has no switches and logs nothing", r, err)
	}
}

// TestSwitchesOfAnObject: types say which values constants have.
func TestSwitchesOfAnObject(t *testing.T) {
	o, err := link.ParseObject(cube.TC, compiled(t, "picky")[cube.TC])
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range o.Switches {
		got = append(got, s.Name+": "+strings.Join(s.Values, " "))
	}
	want := []string{"deep: true false", "flavour: BITTER SWEET SOUR", "limits.hard: true false", "limits.after: SWEET SOUR BITTER",
		"strict: false true", "window: 0 1500"}
	if !slices.Equal(got, want) {
		t.Errorf("switches %q, want %q", got, want)
	}
	values := o.Switched([]int{0, 1, 1, 1, 0, 1})
	wantValues := map[string]any{"flavour": raw(uint32(3)), "limits": append(append(raw(uint32(5)), 0, 0, 0, 0), raw(uint32(7))...), "window": raw(uint16(1500))}
	if !maps.EqualFunc(values, wantValues, func(a, b any) bool { return bytes.Equal(a.([]byte), b.([]byte)) }) {
		t.Errorf("constants %v, want %v", values, wantValues)
	}
	if _, err := o.Constants(values); err != nil {
		t.Error(err)
	}
}

func raw(v any) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.NativeEndian, v) // of fixed size
	return b.Bytes()
}

// TestATrialEndsWithItsRequest: the end of the request ends the trial, and it leaves nothing behind, which the end of
// the tests checks.
func TestATrialEndsWithItsRequest(t *testing.T) {
	netns.NeedRoot(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r, err := Try(ctx, Trial{Service: "picky", Objects: picky(t, never)}); !errors.Is(err, context.Canceled) || r.Programs > 0 {
		t.Errorf("a trial that nobody waits for: %+v, %v", r, err)
	}
}

// TestObjectsThatCannotBeTried: an object from which no cube could be made is an error of the service.
func TestObjectsThatCannotBeTried(t *testing.T) {
	netns.NeedRoot(t)
	for name, trial := range map[string]Trial{
		"read object":              {Objects: map[cube.Hook][]byte{cube.TC: []byte("no ELF")}},
		"has no tc egress program": {Objects: map[cube.Hook][]byte{cube.TC: compiled(t, "probe")[cube.TC]}, Transparent: true},
	} {
		trial.Service = "bad"
		if _, err := Try(context.Background(), trial); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %q", err, name)
		}
	}
}
