// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"strconv"
	"strings"
	"testing"
)

func TestTextsThatWereTakenAreBounded(t *testing.T) {
	var s texts
	long := strings.Repeat("x", maxText+1)
	s.add(long)
	s.add("p1")
	if s.has(long) || !s.has("p1") {
		t.Errorf("it has %v", s.set)
	}
	for i := range 10 * maxTexts {
		s.add(strconv.Itoa(i))
		if len(s.set) > maxTexts {
			t.Fatalf("it has %d texts, %d at most", len(s.set), maxTexts)
		}
	}
	if s.has("p1") {
		t.Error("what came first is there after ten times as many as fit")
	}
}
