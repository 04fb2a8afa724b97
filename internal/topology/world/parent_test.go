// SPDX-License-Identifier: Apache-2.0

package world

// What transparent cubes inherit from ports.

import (
	"net/netip"
	"reflect"
	"testing"
)

func TestAddressesOfAPort(t *testing.T) {
	for _, c := range []struct {
		entry string
		want  []netip.Prefix
	}{
		{`{"ip":"10.0.1.1/24"}`, prefixList("10.0.1.1/24")},
		{`{"ip":"10.0.1.1/24","secondaryip":[{"ip":"10.0.2.1/24"},{"ip":"nonsense"},{"ip":"10.0.3.1"}]}`,
			prefixList("10.0.1.1/24", "10.0.2.1/24", "10.0.3.1/32")},
		{`{"ip":"fd00::1","secondaryip":["fd00:1::1/64"]}`, prefixList("fd00::1/128", "fd00:1::1/64")},
		{`{"ip":""}`, nil}, {`{"ip":7}`, nil}, {`{}`, nil},
	} {
		entry, err := DecodeObject([]byte(c.entry))
		if err != nil {
			t.Fatal(err)
		}
		if got := addressesOf(entry); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", c.entry, got, c.want)
		}
	}
}

func prefixList(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}
