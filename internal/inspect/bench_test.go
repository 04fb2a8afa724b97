// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/netns"
)

// kernelTable is a table of decisions in the kernel.
type kernelTable struct {
	memory
	decisions table.Table[dpi.Key, dpi.Decision]
}

func (t *kernelTable) DecideAll(k []dpi.Key, d []dpi.Decision) (int, error) {
	return t.decisions.SetAll(k, d)
}

// BenchmarkMice is a packet of 1,514 bytes of a flow that nDPI has to see 16 packets of. They come as from a full ring.
func BenchmarkMice(b *testing.B) {
	netns.NeedRoot(b)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 40, ValueSize: 24, MaxEntries: 1 << 18})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	t := &kernelTable{}
	if t.decisions, err = table.Of[dpi.Key, dpi.Decision]("decisions", m); err != nil {
		b.Fatal(err)
	}
	w := newBench(b, 16, 65536)
	w.tables = t
	const together, perBatch = 64, 15
	esp := append([]byte{0xc4, 0x1e, 0x33, 0xa7, 0, 0, 0, 1, 0x9b, 0x04, 0xd2, 0x6f, 0x8e, 0x55, 0xe1, 0x3a, 0xb0, 0x72}, make([]byte, 1454)...)
	f := (&talk{protocol: udp, port: 4500}).framer(1)
	for range together {
		f.datagram(false, esp)
	}
	b.ResetTimer()
	for n := range b.N {
		at, id := n%together, n/(16*together)*together+n%together
		p := packet(f.out[at].bytes, uint64(id)+1, time.Second+time.Duration(n))
		binary.BigEndian.PutUint16(p.Data[28:], uint16(id)) // of the client's address
		if w.take(&p); n%perBatch == perBatch-1 {
			w.work()
		}
	}
}
