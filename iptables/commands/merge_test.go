// SPDX-License-Identifier: Apache-2.0

package commands

import (
	"errors"
	"testing"
)

// hostListing is what iptables-nft has printed.
const hostListing = `Chain INPUT (policy ACCEPT 0 packets, 0 bytes)
    pkts      bytes target     prot opt in     out     source               destination         

Chain FORWARD (policy DROP 7 packets, 588 bytes)
    pkts      bytes target     prot opt in     out     source               destination         
       5      420 web        6    --  *      *       0.0.0.0/0            0.0.0.0/0           
99999999 9999999999 DROP       17   --  *      *       0.0.0.0/0            0.0.0.0/0           

Chain web (1 references)
    pkts      bytes target     prot opt in     out     source               destination         
       1       84 ACCEPT     6    --  *      *       0.0.0.0/0            0.0.0.0/0            tcp dpt:80 /* a  b */
       0        0            0    --  *      *       10.0.0.0/8           0.0.0.0/0           
`

const mergedListing = `Chain INPUT (policy ACCEPT 0 packets, 0 bytes)
 pkts bytes target     prot opt in     out     source               destination         

Chain FORWARD (policy DROP 100K packets, 589 bytes)
 pkts bytes target     prot opt in     out     source               destination         
    5   420 web        6    --  *      *       0.0.0.0/0            0.0.0.0/0           
 100M   10G DROP       17   --  *      *       0.0.0.0/0            0.0.0.0/0           

Chain web (1 references)
 pkts bytes target     prot opt in     out     source               destination         
    3   184 ACCEPT     6    --  *      *       0.0.0.0/0            0.0.0.0/0            tcp dpt:80 /* a  b */
    0     0            0    --  *      *       10.0.0.0/8           0.0.0.0/0           
`

func TestCountersAreAddedToAListing(t *testing.T) {
	nothing := func(string, int) Counts { return Counts{} }
	l, err := Merge(hostListing, nothing)
	if err != nil || l.Exact != hostListing {
		t.Errorf("without further counters: %v\n%s", err, l.Exact)
	}
	if l.Rules["FORWARD"] != 2 || l.Rules["web"] != 2 || l.Rules["INPUT"] != 0 {
		t.Errorf("the numbers of rules are %v", l.Rules)
	}
	l, err = Merge(hostListing, func(chain string, number int) Counts {
		switch {
		case chain == "FORWARD" && number == 0:
			return Counts{99993, 1}
		case chain == "web" && number == 1:
			return Counts{2, 100}
		}
		return Counts{}
	})
	if err != nil || l.Text != mergedListing {
		t.Errorf("got %v\n%s\nwant\n%s", err, l.Text, mergedListing)
	}
	for _, bad := range []string{"x", "Chain A (policy ACCEPT 1 packets, 2 bytes)\nx", "Chain A (policy ACCEPT 99999999999999999999 packets, 2 bytes)"} {
		if _, err := Merge(bad, nothing); !errors.Is(err, errListing) {
			t.Errorf("%q: got %v", bad, err)
		}
	}
}
