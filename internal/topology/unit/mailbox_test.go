// SPDX-License-Identifier: Apache-2.0

package unit

// What a packet of the slow path costs on its way into a cube's queue.

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
