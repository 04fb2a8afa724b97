// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	corebpf "github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pace"
)

// Objects come from services, which may be malicious: none, however malformed, may take the daemon down.

// read parses an object and does with it what happens to each one before it is linked. It goes around ParseObject, which
// would hide a panic.
func read(t *testing.T, data []byte) {
	t.Helper()
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		o, err := parse(hook, data)
		if err != nil {
			if !errors.Is(err, ErrObject) {
				t.Errorf("%v, want an ErrObject", err)
			}
			continue
		}
		for _, f := range o.Functions {
			f.IsProgram()
		}
		last := make([]int, len(o.Switches))
		for i, s := range o.Switches {
			last[i] = len(s.Values) - 1
		}
		o.Switched(last)
	}
}

// objects are those that are damaged: the smallest of the framework's, and those of the tests, which have all that an
// object can have.
func objects(t testing.TB) [][]byte {
	t.Helper()
	root, err := corebpf.Objects.ReadFile("root.xdp.o")
	if err != nil {
		t.Fatal(err)
	}
	all := [][]byte{root}
	names, err := filepath.Glob("../testdata/*.tc.o")
	if err != nil || len(names) == 0 {
		t.Fatalf("%d objects in ../testdata: %v (run make generate)", len(names), err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	return all
}

func FuzzParseObject(f *testing.F) {
	for _, data := range objects(f) {
		f.Add(data, uint32(0), byte(0))
		f.Add(data[:len(data)/2], uint32(0), byte(0))
		f.Add(data, uint32(60), byte(0xff)) // the number of sections
	}
	f.Add([]byte{}, uint32(0), byte(0))
	f.Fuzz(func(t *testing.T, data []byte, at uint32, bits byte) {
		data = bytes.Clone(data)
		if int(at) < len(data) {
			data[at] ^= bits
		}
		read(t, data)
	})
}

// damage changes a few numbers of an object, half of them in its type information: that is read first, and believed most.
func damage(r *rand.Rand, good []byte) []byte {
	data := bytes.Clone(good)
	from, to := 0, len(data)
	if file, err := elf.NewFile(bytes.NewReader(good)); err == nil && r.IntN(2) == 0 {
		if s := file.Section(".BTF"); s != nil && s.Size > 8 {
			from, to = int(s.Offset), int(s.Offset+s.Size)
		}
	}
	for range 1 + r.IntN(4) {
		at := from + r.IntN(to-from-4)
		switch r.IntN(5) {
		case 0:
			data[at] ^= 1 << r.IntN(8)
		case 1:
			data[at] = byte(r.Uint32())
		case 2: // the number of a type, of a string, of a section
			binary.LittleEndian.PutUint32(data[at&^3:], r.Uint32N(64))
		case 3:
			binary.LittleEndian.PutUint32(data[at&^3:], []uint32{0, 1, 1 << 31, ^uint32(0), 1 << 24, 1 << 16}[r.IntN(6)])
		case 4: // a piece of it again, elsewhere
			n := min(1+r.IntN(64), to-at)
			copy(data[at:at+n], data[from+r.IntN(to-from-n):])
		}
	}
	if r.IntN(20) == 0 {
		data = data[:r.IntN(len(data))]
	}
	return data
}

// TestNoObjectTakesTheDaemonDown reads objects that are damaged at random, for a minute or, in the long form, an hour.
func TestNoObjectTakesTheDaemonDown(t *testing.T) {
	t.Parallel()
	long := time.Minute
	if os.Getenv("POLYCUBE_SOAK") != "" {
		long = time.Hour
	}
	all := objects(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	n := 0
	for end := time.Now().Add(long); time.Now().Before(end) && !t.Failed(); n++ {
		data := damage(r, all[r.IntN(len(all))])
		func() {
			defer func() {
				if v := recover(); v != nil {
					kept := filepath.Join(os.TempDir(), "polycube-damaged-object")
					t.Errorf("object %d, kept in %s (%v): %v\n%s", n, kept, os.WriteFile(kept, data, 0o600), v, debug.Stack())
				}
			}()
			read(t, data)
		}()
	}
	t.Logf("%d objects", n)
}

// TestACycleOfTypesEnds: an object can have a const of a typedef of that const.
func TestACycleOfTypesEnds(t *testing.T) {
	alias := &btf.Typedef{Name: "alias"}
	alias.Type = &btf.Const{Type: alias}
	ended := make(chan bool, 1)
	itself := &btf.Struct{Name: "itself", Size: 4}
	itself.Members = []btf.Member{{Name: "again", Type: itself}}
	go func() {
		ended <- isVolatile(alias) || len(switchesIn("constant", itself, 0, make([]byte, 4), nil, maxNesting)) > 0
	}()
	select {
	case volatile := <-ended:
		if volatile {
			t.Error("it is volatile, or has switches")
		}
	case <-time.After(pace.Stretch(10 * time.Second)):
		t.Fatal("it does not end")
	}
}

func TestWhatIsNoObjectIsRefused(t *testing.T) {
	good := coreBytes(t, cube.TC)
	for name, data := range map[string][]byte{
		"nothing": nil, "text": []byte("#!/bin/sh\n"), "a header alone": good[:64], "half": good[:len(good)/2],
		"zeros": make([]byte, 4096),
	} {
		if _, err := ParseObject(cube.TC, data); !errors.Is(err, ErrObject) {
			t.Errorf("%s: %v, want ErrObject", name, err)
		}
	}
	if _, err := ParseObject(cube.XDP, good); !errors.Is(err, ErrObject) {
		t.Errorf("an object for TC as one for XDP: %v, want ErrObject", err)
	}
	if !errors.Is(ErrObject, cube.ErrInvalid) {
		t.Error("a malformed object is not invalid input")
	}
}

func TestVariablesWithoutATypeAreRefused(t *testing.T) {
	good, err := os.ReadFile("../testdata/probe.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range spec.Variables {
		v.Type = nil
	}
	o := &Object{Maps: map[string]*ebpf.MapSpec{}}
	if err := o.addMaps(spec); !errors.Is(err, ErrObject) {
		t.Errorf("%v, want ErrObject", err)
	}
}

func TestTypesThatDoNotEndAreRefused(t *testing.T) {
	self := &btf.Struct{Name: "self", Size: 8}
	self.Members = []btf.Member{{Name: "inner", Type: &btf.Array{Index: &btf.Int{Size: 4}, Type: self, Nelems: 1}}}
	circle := &btf.Const{}
	circle.Type = &btf.Typedef{Name: "circle", Type: circle}
	var deep btf.Type = &btf.Int{Name: "int", Size: 4}
	for range 40 {
		deep = &btf.Struct{Name: "deep", Size: 4, Members: []btf.Member{{Name: "m", Type: deep}}}
	}
	wide := &btf.Struct{Name: "wide", Members: slices.Repeat([]btf.Member{{Type: &btf.Int{}}}, 100)}
	var power btf.Type = &btf.Int{Name: "int", Size: 0}
	for range 20 {
		power = &btf.Struct{Name: "power", Members: []btf.Member{{Type: power}, {Type: power}}}
	}
	list := &btf.Struct{Name: "list", Size: 8}
	list.Members = []btf.Member{{Name: "next", Type: &btf.Pointer{Target: list}}}
	for _, test := range []struct {
		name string
		t    btf.Type
		ok   bool
	}{
		{"a struct that contains itself", self, false},
		{"a constant of its own type", circle, false},
		{"40 structs in one another", deep, false},
		{"2^20 members", power, false},
		{"a hundred members", wide, true},
		{"a list", list, true},
		{"a member beyond the end", &btf.Struct{Size: 4, Members: []btf.Member{{Offset: 8, Type: &btf.Int{Size: 4}}}}, false},
	} {
		if _, err := (typeWalk{}).measure(test.t, 0); test.ok != (err == nil) || err != nil && !errors.Is(err, ErrObject) {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
