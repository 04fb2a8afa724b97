// SPDX-License-Identifier: Apache-2.0

package inet

// Lists of ports and ranges of ports.

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
)

// PortList is a list of ranges of ports: the type `port-list-match`. The ranges are sorted, and neither overlap nor touch.
type PortList []Ports

// UnmarshalJSON parses ports and ranges of ports that commas separate.
func (l *PortList) UnmarshalJSON(data []byte) error {
	var is PortList
	for part := range bytes.SplitSeq(bytes.Trim(data, `"`), []byte(",")) {
		var p Ports
		if err := p.UnmarshalJSON(part); err != nil {
			return fmt.Errorf("ports %s: %w", data, cube.ErrInvalid)
		}
		is = append(is, p)
	}
	slices.SortFunc(is, func(a, b Ports) int { return cmp.Compare(a.First, b.First) })
	merged := is[:1]
	for _, p := range is[1:] {
		if last := &merged[len(merged)-1]; int(p.First) <= int(last.Last)+1 {
			last.Last = max(last.Last, p.Last)
		} else {
			merged = append(merged, p)
		}
	}
	*l = merged
	return nil
}

// String returns the form of the models.
func (l PortList) String() string {
	words := make([]string, len(l))
	for i, p := range l {
		words[i] = p.String()
	}
	return strings.Join(words, ",")
}

// Span returns the range from the first to the last port of a list that is not empty.
func (l PortList) Span() Ports { return Ports{l[0].First, l[len(l)-1].Last} }

// Gaps returns the ranges between the first and the last port that are not in the list.
func (l PortList) Gaps() []Ports {
	var gaps []Ports
	for i := 1; i < len(l); i++ {
		gaps = append(gaps, Ports{l[i-1].Last + 1, l[i].First - 1})
	}
	return gaps
}
