// SPDX-License-Identifier: Apache-2.0

package unit

// The cost of queueing a packet of the slow path for a cube.

import (
	"context"
	"testing"

	"github.com/polycube/polycube/cube"
)

func BenchmarkPacketIn(b *testing.B) {
	box := newMailbox(func(context.Context, []letter) {}, nil)
	defer box.close()
	p := cube.PacketIn{Data: make([]byte, 64)}
	for b.Loop() {
		box.offer(&p, false)
	}
	b.ReportMetric(float64(box.count())/float64(b.N), "shed/op")
}
