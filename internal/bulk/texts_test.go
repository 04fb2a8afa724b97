// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"strconv"
	"strings"
	"testing"
)

func TestTextsThatWereTakenAreBounded(t *testing.T) {
	var s Texts
	long := strings.Repeat("x", maxText+1)
	s.Add(long)
	s.Add("p1")
	if s.Has(long) || !s.Has("p1") {
		t.Errorf("it has %v", s.set)
	}
	for i := range 10 * maxTexts {
		s.Add(strconv.Itoa(i))
		if len(s.set) > maxTexts {
			t.Fatalf("it has %d texts, %d at most", len(s.set), maxTexts)
		}
	}
	if s.Has("p1") {
		t.Error("what came first is there after ten times as many as fit")
	}
}
