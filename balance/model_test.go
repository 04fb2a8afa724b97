// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"slices"
	"testing"
)

func TestStatesOfServers(t *testing.T) {
	for _, tt := range []struct {
		admin                   AdminState
		drained, resolved, well bool
		want                    State
	}{
		{Enabled, false, true, true, Up},
		{Enabled, true, true, true, Up},
		{Enabled, false, true, false, Down},
		{Enabled, false, false, false, IsUnresolved},
		{Draining, false, false, false, IsDraining},
		{Draining, true, true, true, IsDrained},
		{Disabled, true, false, false, IsDisabled},
	} {
		conf := ServerConfig{AdminState: tt.admin}
		if got := conf.State(tt.drained, tt.resolved, tt.well); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
}

func TestTheLastServersOfAServiceThatIsDown(t *testing.T) {
	all := []Member{{Server: 1}, {Server: 2}, {Server: 3}}
	for _, tt := range []struct {
		had, want []uint32
	}{
		{[]uint32{2, 7}, []uint32{2}},
		{[]uint32{1, 3}, []uint32{1, 3}},
		{nil, []uint32{1, 2, 3}},
		{[]uint32{7}, []uint32{1, 2, 3}},
	} {
		var got []uint32
		for _, m := range Last(all, func(server uint32) bool { return slices.Contains(tt.had, server) }) {
			got = append(got, m.Server)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("after %v: %v, want %v", tt.had, got, tt.want)
		}
	}
}
