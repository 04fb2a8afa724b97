// SPDX-License-Identifier: Apache-2.0

package balance

// Tables and services as programs see them.

import (
	"bytes"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/internal/expedite"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/repeat"
)

//go:embed testdata/balance.xdp.o
var object []byte

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// env has the maps of the test's program, as a cube's Env has.
type env struct {
	cube.Env
	spec *ebpf.CollectionSpec
	coll *ebpf.Collection
}

func (e *env) Map(name string) (*ebpf.Map, error) { return e.coll.Maps[name], nil }
func (e *env) Inner(name string) (*ebpf.MapSpec, error) {
	return e.spec.Maps[name].InnerMap.Copy(), nil
}
func (e *env) Origin(string) (origins.Origin, error) { return origins.Created, nil }

// run is struct balance_case.
type run struct {
	Source, Destination inet.Address
	SourcePort, Port    [2]byte
	Protocol, Confirms  uint8
	Found, Refused      uint8
	Now                 uint32
	Chosen, Pinned      uint32
	Zero                uint32
	Hash                uint64
}

// newEnv loads the maps with room for a number of flows.
func newEnv(t testing.TB, flows uint32) *env {
	t.Helper()
	netns.NeedRoot(t)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	spec.Maps["pins"].MaxEntries = Buckets(flows)
	spec.Maps["server_keys"].MaxEntries = 1 << 17
	if err := spec.Variables["pins_mask"].Set(Buckets(flows) - 1); err != nil {
		t.Fatal(err)
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(coll.Close)
	return &env{spec: spec, coll: coll}
}

// flowTo is a packet of TCP.
func flowTo(from uint32, to netip.Addr, port uint16) run {
	return run{
		Source:      inet.AddressOf(netip.AddrFrom4([4]byte{10, byte(from >> 16), byte(from >> 8), byte(from)})),
		Destination: inet.AddressOf(to), SourcePort: [2]byte{3, 232}, Port: [2]byte{byte(port >> 8), byte(port)}, Protocol: 6,
	}
}

// packet runs the program on a packet of TCP.
func (e *env) packet(t testing.TB, from uint32, to netip.Addr, port uint16, now uint32, confirms bool) run {
	t.Helper()
	r := flowTo(from, to, port)
	r.Now = now
	if confirms {
		r.Confirms = 1
	}
	bpftest.Exchange(t, e.coll.Programs["balance_run"], &r)
	return r
}

// begin opens the tables and services of an env.
func (e *env) begin(t testing.TB, size Size) (*Tables, *Services) {
	t.Helper()
	tables := NewTables(e, size)
	services := NewServices(e, tables, 1<<14)
	if _, err := tables.Begin(); err != nil {
		t.Fatal(err)
	}
	if err := services.Begin(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tables.Close(); err != nil {
			t.Error(err)
		}
	})
	return tables, services
}

// serviceNumber is a service by its number.
func serviceNumber(n int) ServiceID {
	return ServiceID{VIP: netip.AddrFrom4([4]byte{172, 16, byte(n >> 8), byte(n)}), Port: 80, Proto: TCP}
}

func TestProgramsChooseAsTablesSay(t *testing.T) {
	r := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	for _, size := range []Size{Large, Fitting} {
		for _, count := range []int{1, 3, 32, 33, 256, 257, 1000} {
			e := newEnv(t, 1000)
			_, services := e.begin(t, size)
			members := randomMembers(r, count, 5)
			if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: members}); err != nil {
				t.Fatal(err)
			}
			if size == Fitting && count <= fewMembers {
				continue // TestProgramsChooseTheFirstServer
			}
			slots := largeSlots
			owner := owners(members, slots)
			for from := range uint32(200) {
				is := e.packet(t, from, serviceNumber(7).VIP, 80, 1, true)
				if want := owner[is.Hash>>32*uint64(slots)>>32]; is.Chosen != want {
					t.Fatalf("%d servers: a flow went to %d, the table says %d", count, is.Chosen, want)
				}
			}
		}
	}
}

func TestEqualPoolsShareATable(t *testing.T) {
	e := newEnv(t, 1000)
	tables, services := e.begin(t, Large)
	r := rand.New(rand.NewPCG(repeat.Seed(t), 4))
	members := randomMembers(r, 100, 5)
	for n := range 1000 {
		r.Shuffle(len(members), func(a, b int) { members[a], members[b] = members[b], members[a] })
		if _, err := services.Set(serviceNumber(n), Wanted{Members: members}); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, count := tables.Memory(); count != 1 || bytes != partSize {
		t.Errorf("1,000 equal pools have %d tables in %d bytes", count, bytes)
	}
	start := time.Now()
	for n := range 1000 {
		if _, err := services.Set(serviceNumber(n), Wanted{Members: members[1:]}); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("one server left 1,000 services in %v", time.Since(start))
	for n := range 1000 {
		if err := services.Remove(serviceNumber(n)); err != nil {
			t.Fatal(err)
		}
	}
	if _, count := tables.Memory(); count != 0 {
		t.Errorf("%d tables are left without a service", count)
	}
}

// TestTimedTablesOfManyPools: the budgets of 1,000 different pools of 100 servers each, and of one server that leaves 1,000
// equal pools.
func TestTimedTablesOfManyPools(t *testing.T) {
	e := newEnv(t, 1000)
	tables, services := e.begin(t, Large)
	members := randomMembers(rand.New(rand.NewPCG(1, 2)), 100, 1)
	defer expedite.Begin()() // as the daemon does while it makes a change
	start := time.Now()
	for n := 0; n < 1000; n += 20 {
		var pools [][]Member
		for i := range 20 {
			members[0].Key = Key{byte(n + i), byte((n + i) >> 8), 9}
			pools = append(pools, slices.Clone(members))
		}
		tables.Prepare(pools)
		for i, pool := range pools {
			if _, err := services.Set(serviceNumber(n+i), Wanted{Members: pool}); err != nil {
				t.Fatal(err)
			}
		}
	}
	took := time.Since(start)
	bytes, count := tables.Memory()
	t.Logf("1,000 different pools: %v, %d bytes", took, bytes)
	if count != 1000 || bytes > 64<<20 || took > 2*time.Second {
		t.Errorf("1,000 different pools of 100 servers: %d tables, %d bytes, %v", count, bytes, took)
	}
	for n := range 1000 {
		if _, err := services.Set(serviceNumber(n), Wanted{Members: members}); err != nil {
			t.Fatal(err)
		}
	}
	start = time.Now()
	for n := range 1000 {
		if _, err := services.Set(serviceNumber(n), Wanted{Members: members[1:]}); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took > 200*time.Millisecond {
		t.Errorf("one server left 1,000 services in %v, want 200 ms", took)
	}
}

func TestMemoryIsNotUsedAgainAtOnce(t *testing.T) {
	e := newEnv(t, 1000)
	tables, _ := e.begin(t, Large)
	now := time.Unix(1, 0)
	tables.now = func() time.Time { return now }
	get := func(server byte) uint64 {
		t.Helper()
		pool, err := tables.Get([]Member{{Key: Key{server}, Server: uint32(server), Weight: 1}}, Spread)
		if err != nil {
			t.Fatal(err)
		}
		return pool
	}
	first := get(1)
	tables.Release(first)
	if second := get(2); second == first {
		t.Error("a table was overwritten while packets may read it")
	}
	now = now.Add(rest)
	if third := get(3); third != first {
		t.Error("the memory of a table is never used again")
	}
}

func TestAServerKeepsItsNumber(t *testing.T) {
	e := newEnv(t, 1000)
	n := NewNumbers(e)
	if err := n.Begin(); err != nil {
		t.Fatal(err)
	}
	var want []uint32
	for i := range 10 {
		number, isNew, err := n.Take(Key{byte(i)})
		if err != nil || !isNew || number == 0 || slices.Contains(want, number) {
			t.Fatalf("server %d got %d, %v, %v", i, number, isNew, err)
		}
		want = append(want, number)
	}
	if err := n.Free(Key{3}); err != nil {
		t.Fatal(err)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	next := NewNumbers(e)
	defer func() {
		if err := next.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := next.Begin(); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		number, ok := next.Of(Key{byte(i)})
		if ok != (i != 3) || ok && number != want[i] {
			t.Errorf("server %d has %d after a restart, %v, want %d", i, number, ok, want[i])
		}
	}
}

func TestServicesKeepTheirNumbers(t *testing.T) {
	e := newEnv(t, 1000)
	_, services := e.begin(t, Fitting)
	numbers := map[int]uint32{}
	for n := range 20 {
		if !services.IsNew(serviceNumber(n)) {
			t.Errorf("service %d was there before", n)
		}
		number, err := services.Set(serviceNumber(n), Wanted{})
		if err != nil {
			t.Fatal(err)
		}
		numbers[n] = number
	}
	_, again := e.begin(t, Fitting)
	for n := range 19 { // the last one is gone
		if again.IsNew(serviceNumber(n)) {
			t.Errorf("service %d is new after a restart", n)
		}
		number, err := again.Set(serviceNumber(n), Wanted{})
		if err != nil || number != numbers[n] {
			t.Fatalf("service %d is %d after a restart, %v, want %d", n, number, err, numbers[n])
		}
	}
	if err := again.SetEcho(map[netip.Addr]bool{serviceNumber(1).VIP: true}); err != nil {
		t.Fatal(err)
	}
	if err := again.Prune(); err != nil {
		t.Fatal(err)
	}
	if is := e.packet(t, 1, serviceNumber(19).VIP, 80, 0, true); is.Found != 0 {
		t.Error("a service that is not configured any more is still there")
	}
	if is := e.packet(t, 1, serviceNumber(18).VIP, 80, 0, true); is.Found != 1 {
		t.Error("a service is gone after a restart")
	}
	other, err := again.Set(serviceNumber(30), Wanted{})
	if err != nil || other == numbers[19] {
		t.Errorf("a new service has the number of a removed one before its pins are gone: %d, %v", other, err)
	}
}

func TestKeysOfServices(t *testing.T) {
	for text, want := range map[string]int{"10.0.0.1 80 TCP": 1, "10.0.0.1 80 ALL": 2, "10.0.0.1 0 ALL": 1, "2001:db8::1 53 UDP": 1} {
		var vip, port, proto string
		if _, err := fmt.Sscan(text, &vip, &port, &proto); err != nil {
			t.Fatal(err)
		}
		id, err := ServiceOf([]string{vip, port, proto})
		if err != nil || id.String() != text || id.Check() != nil || len(id.keys()) != want {
			t.Errorf("%s is %v with %d keys, %v, %v", text, id, len(id.keys()), err, id.Check())
		}
	}
	for _, text := range [][]string{{"10.0.0.1", "0", "TCP"}, {"224.0.0.1", "80", "TCP"}, {"::", "80", "TCP"}} {
		if id, err := ServiceOf(text); err != nil || id.Check() == nil {
			t.Errorf("%v is allowed as a service", text)
		}
	}
	if _, err := ServiceOf([]string{"10.0.0.1", "80"}); err == nil {
		t.Error("a service without a protocol")
	}
}
