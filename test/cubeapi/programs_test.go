// SPDX-License-Identifier: Apache-2.0

package cubeapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const twoPorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`

// bench is a lab with one cube of twelve programs.
type bench struct {
	*bpftest.Lab
	*twelve
	t testing.TB
}

// each runs a test at each hook and in each mode.
func each(t *testing.T, test func(t *testing.T, b *bench)) {
	for _, o := range everywhere {
		t.Run(o.name, func(t *testing.T) {
			t.Parallel()
			test(t, newBench(t, o.Options))
		})
	}
}

func newBench(t testing.TB, o bpftest.Options) *bench {
	b := &bench{t: t}
	o.Hosts = 2
	o.Services = []cube.Service{service(func(c *twelve) { b.twelve = c })}
	b.Lab = bpftest.New(t, o)
	b.Create("twelve", "tw", twoPorts)
	return b
}

// frame is a frame into which the cube writes its letters; n is in it too.
func frame(n uint32) []byte {
	data := binary.BigEndian.AppendUint32(nil, n)
	return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").Data(append(data, make([]byte, 42)...)).Bytes()
}

// way returns the letters that the programs wrote into a frame.
func way(f []byte) string { return string(bytes.TrimRight(f[30:46], "\x00")) }

// goes fails the test unless a frame takes that path, and is sent.
func (b *bench) goes(step, want string) {
	b.t.Helper()
	out, got := b.RunBytes("veth1", frame(0))
	if way(got) != want || out.Verdict != "send" || out.Sent != "tw:p2" {
		b.t.Errorf("%s: the frame went %q and was %+v, want %q", step, way(got), out, want)
	}
}

// ends fails the test unless a frame gets as far and is dropped there.
func (b *bench) ends(step, want, fate string) {
	b.t.Helper()
	out, got := b.RunBytes("veth1", frame(0))
	if way(got) != want || out.Verdict != "drop" || out.Fate != fate {
		b.t.Errorf("%s: the frame went %q and was %+v, want %q and %s", step, way(got), out, want, fate)
	}
}

func in(i int) cube.ProgramSlot  { return cube.ProgramSlot{Index: i} }
func out(i int) cube.ProgramSlot { return cube.ProgramSlot{Direction: cube.Egress, Index: i} }

const whole = "abcdefghABCD"

func TestProgramsCallEachOtherByIndex(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.goes("all twelve", whole)
		list := b.env.Programs().List()
		if len(list) != 12 || list[in(0)].Function != "pcn_ingress" || list[out(3)].Function != "out3" {
			t.Errorf("the programs are %v", list)
		}
		visits := b.Map("tw", "visits")
		for _, letter := range whole {
			var n uint64
			if err := visits.Lookup(uint32(letter), &n); err != nil || n != 1 {
				t.Errorf("program %c ran %d times (%v), want once", letter, n, err)
			}
		}
	})
}

func TestProgramsChangeAtRunTime(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		p := b.env.Programs()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(p.Reload(in(3), cube.Program{Function: "other3"}))
		b.goes("one is replaced", "abc3efghABCD")
		must(p.ReloadAll(slots(cube.Ingress, others...)))
		b.goes("all are replaced", "01234567ABCD")
		must(p.DelProgram(in(5)))
		b.ends("one is taken away", "01234", "tw no-program")
		must(p.DelProgram(out(0)))
		must(p.Reload(in(4), cube.Program{Function: "other7"}))
		b.goes("no way out", "01237")
		index, err := p.AddProgram(cube.Ingress, cube.Program{Function: "stage5"})
		if err != nil || index != 5 {
			t.Errorf("added at %d (%v), want 5, the lowest that is free", index, err)
		}
		index, err = p.AddProgram(cube.Egress, cube.Program{Function: "out3"})
		if err != nil || index != 0 {
			t.Errorf("added at %d (%v), want 0", index, err)
		}
		must(p.Reload(in(4), cube.Program{Function: "other4"}))
		b.goes("both are back", "01234f67D")
		must(p.Reload(in(31), cube.Program{Function: "leave"}))
		must(p.Reload(in(0), cube.Program{Function: "again"}))
		b.goes("a program that calls itself", "*****D")
	})
}

func TestProgramsThatCannotBe(t *testing.T) {
	b := newBench(t, bpftest.Options{})
	p := b.env.Programs()
	before := p.List()
	for _, c := range []struct {
		what string
		err  error
		do   func() error
	}{
		{"an unknown function", cube.ErrNotFound, func() error { return p.Reload(in(3), cube.Program{Function: "nonesuch"}) }},
		{"a function that is no program", cube.ErrNotFound, func() error { return p.Reload(in(3), cube.Program{Function: "mark"}) }},
		{"no function", cube.ErrInvalid, func() error { return p.Reload(in(3), cube.Program{}) }},
		{"index 32", cube.ErrInvalid, func() error { return p.Reload(in(32), cube.Program{Function: "leave"}) }},
		{"index -1", cube.ErrInvalid, func() error { return p.Reload(in(-1), cube.Program{Function: "leave"}) }},
		{"a third direction", cube.ErrInvalid, func() error {
			return p.Reload(cube.ProgramSlot{Direction: 2}, cube.Program{Function: "leave"})
		}},
		{"no entrance", cube.ErrInvalid, func() error { return p.DelProgram(in(0)) }},
		{"none there", cube.ErrNotFound, func() error { return p.DelProgram(in(20)) }},
		{"an object for another hook", cube.ErrUnsupported, func() error {
			return p.Reload(in(3), cube.Program{Function: "late", Objects: map[cube.Hook][]byte{cube.XDP: lateXDP}})
		}},
		{"one of several", cube.ErrNotFound, func() error {
			set := slots(cube.Ingress, others...)
			set[in(6)].Function = "nonesuch"
			return p.ReloadAll(set)
		}},
		{"too many", cube.ErrFull, func() error {
			for i := range cube.MaxPrograms {
				if index, err := p.AddProgram(cube.Ingress, cube.Program{Function: "leave"}); err != nil {
					if i != cube.MaxPrograms-len(ingress) {
						t.Errorf("%d programs could be added", i)
					}
					return err
				} else if index != len(ingress)+i {
					t.Errorf("added at %d, want %d", index, len(ingress)+i)
				}
			}
			return nil
		}},
	} {
		err := c.do()
		if !errors.Is(err, c.err) || !strings.HasPrefix(fmt.Sprint(err), "tw: ") {
			t.Errorf("%s: %v, want %v", c.what, err, c.err)
		}
		b.goes("after "+c.what, whole)
	}
	for i := len(ingress); i < cube.MaxPrograms; i++ {
		if err := p.DelProgram(in(i)); err != nil {
			t.Error(err)
		}
	}
	if after := p.List(); !maps.EqualFunc(before, after, func(a, b cube.Program) bool { return a.Function == b.Function }) {
		t.Errorf("the programs are %v, want %v", after, before)
	}
}

func TestAnObjectGivenAtRunTime(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		late := cube.Program{Function: "late", Objects: map[cube.Hook][]byte{cube.TC: lateTC, cube.XDP: lateXDP}}
		if err := b.env.Programs().Reload(in(3), late); err != nil {
			t.Fatal(err)
		}
		b.goes("a program from elsewhere", "abc~efghABCD")
		shared, err := b.env.Map("visits")
		if err != nil {
			t.Fatal(err)
		}
		own, err := b.env.Map("late_bytes")
		if err != nil {
			t.Fatal(err)
		}
		var visits, bytes uint64
		if err := errors.Join(shared.Lookup(uint32('~'), &visits), own.Lookup(uint32(0), &bytes)); err != nil || visits != 1 || bytes != 60 {
			t.Errorf("%d visits and %d bytes (%v), want 1 and 60", visits, bytes, err)
		}
	})
}

func TestProgramsFollowTheConfiguration(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		b.Set("PATCH", "tw stages", "3")
		b.goes("three stages", "abhABCD")
		if err := b.env.Programs().Reload(in(1), cube.Program{Function: "other1"}); err != nil {
			t.Fatal(err)
		}
		b.goes("changed at run time", "a1hABCD")
		b.Set("PATCH", "tw what", `"FORWARD"`)
		b.goes("a change elsewhere keeps it", "a1hABCD")
		b.Restart(func() { // the programs continue without the daemon
			wires := b.Wires()
			wires[0].Puts(frame(1))
			got, err := wires[1].Recv(func(f []byte) bool { return len(f) >= 44 && f[12] == 0x88 && f[13] == 0xb5 }, bpftest.Patience)
			if err != nil || way(got) != "a1hABCD" {
				t.Errorf("while no daemon runs the frame went %q (%v)", way(append(got, make([]byte, 64)...)), err)
			}
		})
		b.goes("after a restart the plan of creation counts", "abhABCD")
		if err := b.Try("PATCH", "tw stages", "9"); err == nil {
			t.Error("nine stages were accepted")
		}
		b.Set("PATCH", "tw stages", "8")
		b.goes("eight stages", whole)
	})
}

// Frames cross the cube all the time while its programs change back and forth: none is lost, and none meets a mixture.
func TestProgramsChangeUnderTraffic(t *testing.T) {
	each(t, func(t *testing.T, b *bench) {
		wires := b.Wires()
		const changes, ahead = 12, 64
		var sent atomic.Uint32
		done, result := make(chan struct{}), make(chan error, 1)
		go func() {
			p := b.env.Programs()
			for i := range changes {
				set := others
				if i%2 == 1 {
					set = ingress
				}
				if err := p.ReloadAll(slots(cube.Ingress, set...)); err != nil {
					result <- err
					break
				}
			}
			close(done)
		}()
		ways, missing := map[string]int{}, 0
		for running := true; running; {
			select {
			case <-done:
				running = false
			default:
			}
			first := sent.Load()
			for range ahead {
				wires[0].Puts(frame(sent.Add(1)))
			}
			for n := first + 1; n <= first+ahead; n++ {
				got, err := wires[1].Recv(func(f []byte) bool {
					return len(f) >= 44 && f[12] == 0x88 && binary.BigEndian.Uint32(f[14:]) == n
				}, bpftest.Patience)
				if err != nil {
					missing++
					continue
				}
				ways[way(got)]++
			}
			if missing > 0 {
				break
			}
		}
		<-done
		select {
		case err := <-result:
			t.Fatal(err)
		default:
		}
		delete(ways, whole)
		digits := ways["01234567ABCD"]
		delete(ways, "01234567ABCD")
		if missing > 0 || len(ways) > 0 || digits == 0 {
			t.Errorf("of %d frames %d are missing, %d met the others, and some met mixtures: %v", sent.Load(), missing, digits, ways)
		}
	})
}
