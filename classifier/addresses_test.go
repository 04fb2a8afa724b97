// SPDX-License-Identifier: Apache-2.0

package classifier

// Sets of addresses in the maps that programs read.

import (
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/repeat"
)

// mapEnv has the maps that cubes share, and nothing else.
type mapEnv struct {
	cube.Env
	maps map[string]*ebpf.Map
}

func (e *mapEnv) Map(name string) (*ebpf.Map, error) { return e.maps[name], nil }

func (e *mapEnv) Inner(string) (*ebpf.MapSpec, error) {
	return &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: partBlocks * blockSize, MaxEntries: 1, Flags: unix.BPF_F_MMAPABLE}, nil
}

// addressLab is a set in these maps, and its expected content.
type addressLab struct {
	t        *testing.T
	env      *mapEnv
	set      *Addresses
	prefixes map[netip.Prefix]bool
	after    []cube.Step
}

func newAddressLab(t *testing.T) *addressLab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	env := &mapEnv{maps: map[string]*ebpf.Map{}}
	inner, _ := env.Inner("")
	for name, spec := range map[string]*ebpf.MapSpec{
		memoryMap:    {Type: ebpf.ArrayOfMaps, KeySize: 4, MaxEntries: 16, InnerMap: inner},
		setsMap:      {Type: ebpf.Array, KeySize: 4, ValueSize: rootSize, MaxEntries: 9, Flags: unix.BPF_F_MMAPABLE},
		addressesMap: {Type: ebpf.Array, KeySize: 4, ValueSize: addressesSize, MaxEntries: addressSets, Flags: unix.BPF_F_MMAPABLE},
	} {
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatalf("map %s: %v", name, err)
		}
		t.Cleanup(func() { _ = m.Close() })
		env.maps[name] = m
	}
	l := &addressLab{t: t, env: env, set: NewAddresses(env, "s"), prefixes: map[netip.Prefix]bool{}}
	t.Cleanup(func() {
		if err := l.set.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// changes adds prefixes that are not in the set, and removes those that are.
func (l *addressLab) changes(all []netip.Prefix) []AddressChange {
	out := make([]AddressChange, 0, len(all))
	for _, p := range all {
		out = append(out, AddressChange{p, l.prefixes[p]})
	}
	return out
}

// prepare prepares a change, after the last steps of the one before, as the framework does.
func (l *addressLab) prepare(all ...netip.Prefix) (cube.Plan, error) {
	l.t.Helper()
	if err := cube.Carry(l.after, nil); err != nil {
		l.t.Fatal(err)
	}
	l.after = nil
	return l.set.Prepare(l.changes(all))
}

func (l *addressLab) change(all ...netip.Prefix) {
	l.t.Helper()
	plan, err := l.prepare(all...)
	if err == nil {
		err = cube.Carry(plan.Before, nil)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.after = plan.After
	for _, p := range all {
		if l.prefixes[p] {
			delete(l.prefixes, p)
		} else {
			l.prefixes[p] = true
		}
	}
}

// contains is what programs find.
func (l *addressLab) contains(a netip.Addr) bool {
	at := l.set.pool.addressesAt(l.set.number)
	if at == 0 {
		return false
	}
	mem := l.set.pool.parts[partOf(at)].mem
	block := func(reference uint32) []byte { return mem[reference%partBlocks*blockSize:][:blockSize] }
	p, six, _ := prefixOf(netip.PrefixFrom(a, a.BitLen()))
	reference := native.Uint32(block(uint32(at))[map[bool]int{true: 4}[six]:])
	for reference&nodeReference != 0 {
		reference = native.Uint32(block(reference)[4*p.value(uint8(reference>>nibbleShift&31)):])
	}
	b := block(reference)
	return reference != 0 && p.high&native.Uint64(b[16:]) == native.Uint64(b) && p.low&native.Uint64(b[24:]) == native.Uint64(b[8:])
}

// check looks up an address of each prefix, and one that no prefix has.
func (l *addressLab) check(when string) {
	l.t.Helper()
	for p := range l.prefixes {
		if !l.contains(p.Addr()) {
			l.t.Fatalf("%s: %s is not in the set of %d prefixes", when, p.Addr(), len(l.prefixes))
		}
	}
	for _, a := range []string{"192.0.2.1", "3fff::1"} {
		if l.contains(netip.MustParseAddr(a)) {
			l.t.Fatalf("%s: %s is in the set", when, a)
		}
	}
	if got := l.set.Len(); got != len(l.prefixes) {
		l.t.Fatalf("%s: the set has %d prefixes, want %d", when, got, len(l.prefixes))
	}
}

// hosts are random hosts of 10.0.0.0/8 and 2001:db8::/32.
func hosts(rng *rand.Rand, count int) []netip.Prefix {
	all := map[netip.Prefix]bool{}
	for len(all) < count {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(rng.Uint32()), byte(rng.Uint32()), byte(rng.Uint32())}), 32)
		if rng.IntN(2) == 0 {
			b := netip.MustParseAddr("2001:db8::").As16()
			native.PutUint64(b[8:], rng.Uint64())
			p = netip.PrefixFrom(netip.AddrFrom16(b), 128)
		}
		all[p] = true
	}
	return slices.Collect(maps.Keys(all))
}

func TestASetGrowsAndShrinks(t *testing.T) {
	l := newAddressLab(t)
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 4))
	all := hosts(rng, 3000)
	for i, p := range all {
		if l.change(p); i%500 == 0 {
			l.check("growing one by one")
		}
	}
	l.check("one by one")
	grown := l.set.area.count
	if grown > 4*(l.set.nodes+64) {
		t.Errorf("%d blocks are allocated for %d", grown, l.set.nodes)
	}
	for range 20 { // prefixes of which a half stays
		fresh := slices.DeleteFunc(hosts(rng, 2000), func(p netip.Prefix) bool { return l.prefixes[p] })
		l.change(append(fresh, all[:1000]...)...)
		l.check("many at once")
		l.change(slices.Collect(maps.Keys(l.prefixes))...)
		l.change(all...)
	}
	if most := 8 * grown; l.set.area.count > most {
		t.Errorf("after 20 swaps, %d blocks are allocated, want at most %d", l.set.area.count, most)
	}
	l.change(all[10:]...)
	l.check("few are left")
	l.change(all[:5]...)
	l.check("fewer are left")
	if l.set.area.count > sparseBlocks {
		t.Errorf("%d blocks are allocated for %d", l.set.area.count, l.set.nodes)
	}
}

func TestAChangeThatIsUndoneLeavesTheSet(t *testing.T) {
	l := newAddressLab(t)
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 5))
	for _, size := range []int{1, 50, 9000, 20} { // the first, in place, and to other memory
		plan, err := l.prepare(hosts(rng, size)...)
		var done cube.Undo
		if err == nil {
			err = cube.Carry(plan.Before, &done)
		}
		if err == nil {
			err = done.Run()
		}
		if err != nil {
			t.Fatal(err)
		}
		l.check("after an undone change")
		l.change(hosts(rng, 40)...)
		l.check("after another change")
	}
}

func TestASetThatDoesNotFitIsRefused(t *testing.T) {
	l := newAddressLab(t)
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 6))
	l.change(hosts(rng, 100)...)
	if _, err := l.prepare(hosts(rng, maxBlocks)...); !errors.Is(err, cube.ErrFull) {
		t.Errorf("the error of %d prefixes is %v, want %v", maxBlocks, err, cube.ErrFull)
	}
	l.check("after a refusal")
	l.change(hosts(rng, 130000)...)
	l.check("as many as the documentation says")
	some := slices.Collect(maps.Keys(l.prefixes))
	if _, err := l.set.Prepare([]AddressChange{{Prefix: some[0]}}); !errors.Is(err, cube.ErrExists) {
		t.Errorf("a prefix that is in the set: the error is %v, want %v", err, cube.ErrExists)
	}
	if _, err := l.set.Prepare([]AddressChange{{Prefix: netip.MustParsePrefix("10.0.0.0/9"), Remove: true}}); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a prefix that is not in the set: the error is %v, want %v", err, cube.ErrNotFound)
	}
	for i := range 1000 {
		some = append(some, netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), 32))
	}
	l.change(some...)
	l.check("swapped")
}

func TestADeletedSetGivesItsMemoryBack(t *testing.T) {
	l := newAddressLab(t)
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 7))
	other := NewAddresses(l.env, "other") // keeps the pool
	plan, err := other.Prepare([]AddressChange{{Prefix: netip.MustParsePrefix("10.0.0.0/8")}})
	if err == nil {
		err = cube.Carry(plan.Before, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	left := func() (units int) {
		for _, x := range other.pool.parts {
			units += x.space.left
		}
		return units
	}
	before := left()
	l.change(hosts(rng, 5000)...)
	if left() == before {
		t.Error("5000 prefixes take no memory")
	}
	l.set.Empty()
	if err := l.set.Close(); err != nil {
		t.Fatal(err)
	}
	if got := left(); got != before {
		t.Errorf("%d units are free after the set was deleted, want %d", got, before)
	}
	if at := other.pool.addressesAt(l.set.number); at != 0 {
		t.Errorf("packets find the set at %x", at)
	}
}
