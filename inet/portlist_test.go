// SPDX-License-Identifier: Apache-2.0

package inet

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
)

func TestListsOfPortsAreSortedAndMerged(t *testing.T) {
	for _, tt := range []struct{ text, list, span, gaps string }{
		{`22`, "22", "22", "[]"},
		{`"22"`, "22", "22", "[]"},
		{`"80,22"`, "22,80", "22-80", "[23-79]"},
		{`"1-5,3-9,10,12"`, "1-10,12", "1-12", "[11]"},
		{`"1-9,2-3"`, "1-9", "1-9", "[]"},
		{`"0,65535,7-8"`, "0,7-8,65535", "0-65535", "[1-6 9-65534]"},
		{`"65535,0-65535"`, "0-65535", "0-65535", "[]"},
	} {
		var l PortList
		if err := json.Unmarshal([]byte(tt.text), &l); err != nil || l.String() != tt.list || l.Span().String() != tt.span || fmt.Sprint(l.Gaps()) != tt.gaps {
			t.Errorf("%s: %v, span %v, gaps %v, error %v; want %+v", tt.text, l, l.Span(), l.Gaps(), err, tt)
		}
	}
	for _, wrong := range []string{`"22,"`, `""`, `"9-8"`, `"1,65536"`, `"1--2"`, `"a"`} {
		l := PortList{{1, 2}}
		if err := json.Unmarshal([]byte(wrong), &l); !errors.Is(err, cube.ErrInvalid) || l.String() != "1-2" {
			t.Errorf("%s: error %v, and the list is %v", wrong, err, l)
		}
	}
}
