// SPDX-License-Identifier: Apache-2.0

package external

// What the way to another process costs: a call, an entry of a map, a packet there and back. By loopback, so a Unix socket
// does a little better.

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/extservice"
	"github.com/polycube/polycube/test/netns"
)

func benchCube(b *testing.B, maps map[string]*ebpf.Map) (*extservice.Cube, *instance, *fakeEnv) {
	b.Helper()
	s := &extservice.Server{Description: describe(b), Packet: func(_ *extservice.Cube, p *pb.PacketIn) []*pb.PacketOut {
		return []*pb.PacketOut{{Cube: p.GetCube(), Direction: pb.Direction_DIRECTION_EGRESS, Data: p.GetData()}}
	}}
	l, err := begin(b, Options{}, s)
	if err != nil {
		b.Fatal(err)
	}
	env := newEnv(b, "c1", maps)
	i := open(b, l, env)
	return s.Cubes()["c1"], i, env
}

func BenchmarkPrepare(b *testing.B) {
	_, i, _ := benchCube(b, nil)
	for b.Loop() {
		if _, err := i.Prepare(b.Context(), cube.Change{Old: json.RawMessage(`{}`), New: json.RawMessage(`{}`)}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEntries writes 1000 entries in a request.
func BenchmarkEntries(b *testing.B) {
	netns.NeedRoot(b)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 4096})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	c, _, _ := benchCube(b, map[string]*ebpf.Map{"hash": m})
	var list []*pb.Entry
	for n := range uint32(1000) {
		list = append(list, entry(n, n))
	}
	for b.Loop() {
		if _, err := c.Map(update("hash", 0, list...)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/entry")
}

// BenchmarkPackets sends packets up and waits until they are back.
func BenchmarkPackets(b *testing.B) {
	_, i, env := benchCube(b, nil)
	p := &cube.PacketIn{Data: make([]byte, 100)}
	back := func() int {
		env.mu.Lock()
		defer env.mu.Unlock()
		return len(env.sent)
	}
	sent := 0
	for b.Loop() {
		for sent-back() > 1000 {
			<-time.After(10 * time.Microsecond)
		}
		i.PacketIn(p)
		sent++
	}
	for back() < sent {
		<-time.After(10 * time.Microsecond)
	}
}
