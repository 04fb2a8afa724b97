// SPDX-License-Identifier: Apache-2.0

package balance

import (
	"fmt"
	"strings"
	"testing"
)

func TestServersTakeTurnsByTheirWeights(t *testing.T) {
	for weights, want := range map[[3]uint32]string{
		{1, 1, 1}: "abcabcabcabc",
		{5, 1, 1}: "aabacaaaabac",
		{2, 1, 0}: "abaabaabaaba",
	} {
		var members []Member
		for i, w := range weights {
			members = append(members, Member{Key: Key{byte(i)}, Server: uint32(i), Weight: w})
		}
		slots := make([]uint16, 12)
		fillTurns(slots, sorted(members))
		var got strings.Builder
		for _, s := range slots {
			got.WriteByte('a' + byte(s))
		}
		if got.String() != want {
			t.Errorf("weights %v: %s, want %s", weights, got.String(), want)
		}
	}
	one := []Member{{Key: Key{1}, Server: 1, Weight: 1}}
	if a, b := identity(one, Spread), identity(one, Turns); a == b {
		t.Error(fmt.Sprint("the same table for both orders: ", a))
	}
}
