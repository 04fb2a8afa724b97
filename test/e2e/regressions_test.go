// SPDX-License-Identifier: Apache-2.0

// Sequences with which random operations once failed.

package e2e

import (
	"testing"

	"github.com/polycube/polycube/test/e2e/model"
)

func TestSequencesThatOnceFailed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		ops  []model.Op
	}{
		{"a bridge forgets what is behind a device that went down while no daemon ran", []model.Op{
			{Verb: model.AddCube, Cube: "c6", To: model.Bridge, Value: "XDP_DRV"}, {Verb: model.AddPort, At: "c6:p4"},
			{Verb: model.Connect, At: "c6:p4", To: "d2"}, {Verb: model.Stop}, {Verb: model.NetdevDown, To: "d2"}, {Verb: model.Start}}},
		{"what generic XDP loses behind a device that went down while no daemon ran is not asked for", []model.Op{
			{Verb: model.AddCube, Cube: "c3", To: model.Forwarder, Value: "XDP_SKB"}, {Verb: model.AddCube, Cube: "c6", To: model.Bridge, Value: "XDP_SKB"},
			{Verb: model.AddPort, At: "c6:p2"}, {Verb: model.AddPort, At: "c3:p4"}, {Verb: model.Connect, At: "c6:p2", To: "c3:p4"},
			{Verb: model.AddPort, At: "c6:p1"}, {Verb: model.Connect, At: "c6:p1", To: "d4"}, {Verb: model.AddPort, At: "c6:p4"},
			{Verb: model.Connect, At: "c6:p4", To: "d2"}, {Verb: model.Stop}, {Verb: model.NetdevDown, To: "d2"}, {Verb: model.Start}}},
		{"a copy that a device's own cube takes has one fate", []model.Op{
			{Verb: model.AddCube, Cube: "c1", To: model.Bridge, Value: "TC"}, {Verb: model.AddPort, At: "c1:p1"}, {Verb: model.AddPort, At: "c1:p2"},
			{Verb: model.Connect, At: "c1:p1", To: "d1"}, {Verb: model.Connect, At: "c1:p2", To: "d2"},
			{Verb: model.AddCube, Cube: "t1", To: model.Transparent, Value: "TC"}, {Verb: model.Attach, Cube: "t1", To: "d2", Value: "first"},
			{Verb: model.Set, Cube: "t1", To: "egress-action", Value: "SLOWPATH"}}},
		{"a device that is down takes no copies from others", []model.Op{
			{Verb: model.AddCube, Cube: "c1", To: model.Bridge, Value: "XDP_SKB"}, {Verb: model.AddPort, At: "c1:p1"}, {Verb: model.AddPort, At: "c1:p2"},
			{Verb: model.AddPort, At: "c1:p3"}, {Verb: model.Connect, At: "c1:p1", To: "d1"}, {Verb: model.Connect, At: "c1:p2", To: "d2"},
			{Verb: model.Connect, At: "c1:p3", To: "d3"}, {Verb: model.NetdevDown, To: "d1"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if err := (&sequence{ops: c.ops}).try(t); err != nil {
				t.Error(err)
			}
		})
	}
}
