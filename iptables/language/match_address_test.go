// SPDX-License-Identifier: Apache-2.0

package language

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestARangeOfAddressesIsThesePrefixes(t *testing.T) {
	for text, want := range map[[2]string]string{
		{"10.0.0.0", "10.0.0.255"}:                        "[10.0.0.0/24]",
		{"10.0.0.1", "10.0.0.6"}:                          "[10.0.0.1/32 10.0.0.2/31 10.0.0.4/31 10.0.0.6/32]",
		{"10.0.0.7", "10.0.0.7"}:                          "[10.0.0.7/32]",
		{"0.0.0.0", "255.255.255.255"}:                    "[0.0.0.0/0]",
		{"255.255.255.254", "255.255.255.255"}:            "[255.255.255.254/31]",
		{"10.0.0.7", "10.0.0.6"}:                          "[]",
		{"fd00::ffff", "fd00::1:0"}:                       "[fd00::ffff/128 fd00::1:0/128]",
		{"::", "7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"}: "[::/1]",
	} {
		r := AddressRange{First: netip.MustParseAddr(text[0]), Last: netip.MustParseAddr(text[1])}
		if got := fmt.Sprint(r.Prefixes()); got != want {
			t.Errorf("%v: got %s, want %s", text, got, want)
		}
	}
	if got := (AddressRange{}).Prefixes(); got != nil {
		t.Errorf("any address: got %v", got)
	}
}
