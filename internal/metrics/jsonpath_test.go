// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

const pathDocument = `{"name":"r1","ports":[{"name":"p1","ip":"10.0.0.1/24","up":true},{"name":"p2","up":false}],
	"stats":[{"pkts":5},{"pkts":7},{"pkts":"9"}],"fdb":{"entry":[],"aging-time":300},"rules":[{"id":1,"act":"DROP"},{"id":2,"act":"PASS"},{"id":3,"act":"DROP"}]}`

// TestJSONPath: every form that models use, and what it selects.
func TestJSONPath(t *testing.T) {
	tests := []struct {
		path string
		want []string
	}{
		{"$.name", []string{"r1"}},
		{"$['name']", []string{"r1"}},
		{"$.ports.length()", []string{"2"}},
		{"$.ports[*].name", []string{"p1", "p2"}},
		{"$.ports[-1].name", []string{"p2"}},
		{"$.ports[5].name", nil},
		{"$.ports[?(@.ip)].name", []string{"p1"}},
		{"$.ports[?(@.up == true)].name", []string{"p1"}},
		{"$..ip", []string{"10.0.0.1/24"}},
		{"$..pkts", []string{"5", "7", "9"}},
		{"$.fdb.entry.length()", []string{"0"}},
		{"$.fdb.aging-time", []string{"300"}},
		{"$.rules[?(@.act == 'DROP')].id", []string{"1", "3"}},
		{`$.rules[?(@.act != "DROP")].id`, []string{"2"}},
		{"$.rules[?(@.id >= 2)].id", []string{"2", "3"}},
		{"$.rules[?(@.id < 2)].id", []string{"1"}},
		{"$.none.deeper[*]", nil},
		{"$.name.length()", []string{"2"}},
	}
	var root any
	if err := json.Unmarshal([]byte(pathDocument), &root); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			p, err := compilePath(tt.path)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range p.eval(root) {
				got = append(got, fmt.Sprint(v))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("selects %q, want %q", got, tt.want)
			}
		})
	}
	for _, wrong := range []string{"", "ports", "$.", "$.ports[", "$.ports[x]", "$[?(@.a == )]", "$[?(@.a == 'x)]", "$[?(a)]", "$ports"} {
		if _, err := compilePath(wrong); err == nil {
			t.Errorf("path %q is accepted", wrong)
		}
	}
}
