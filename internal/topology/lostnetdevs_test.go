// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/world"
)

// TestANetdevGoesWithinAChange: a step in the data plane finds that a netdev is gone, and the change is made without it. Its
// port is down, and the reason is logged once; when it is back, the port is bound again.
func TestANetdevGoesWithinAChange(t *testing.T) {
	for _, step := range []string{"Prepare", "Commit"} {
		for _, change := range []string{
			`connect br:p2 veth2`,                                // to the netdev that has gone
			`patch br fdb aging-time <<< 20`,                     // of a cube whose other port has it
			`create toybridge br2 <<< {"ports":[{"name":"p1"}]}`, // of somebody else
		} {
			t.Run(step+", "+change, func(t *testing.T) {
				l := newLab(t, "veth1", "veth2", "veth3")
				l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
				gone := "veth2"
				if !strings.Contains(change, gone) {
					l.must(`connect br:p2 veth2`)
				}
				info, err := l.devs.Get(gone)
				if err != nil {
					t.Fatal(err)
				}
				found := false
				l.plane.setFail(func(at string) error {
					if at != step || found {
						return nil
					}
					found = true
					return &datapath.GoneError{Netdevs: map[string]int{gone: info.Index}, Err: errors.New("no such device")}
				})
				l.must(change)
				l.plane.setFail(nil)
				l.wantRead(`"DOWN"`, "br", "ports", "p2", "status")
				if got := reason(l, "br", "p2"); !strings.Contains(got, "netdev veth2 no longer exists, "+world.Deleted) {
					t.Errorf("the reason is %q", got)
				}
				l.wantRead(`"UP"`, "br", "ports", "p1", "status")
				if !found {
					t.Fatal("the data plane was not asked")
				}
				l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: info})
				l.wantGraph()
				info.Index += 100
				l.devs.set(info)
				l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: info})
				l.wantRead(`"UP"`, "br", "ports", "p2", "status")
				l.wantGraph()
			})
		}
	}
}

// TestANetdevThatIsGoneAgainAndAgain does not repeat a change forever: a netdev that is not in the graph is no reason to try
// again.
func TestANetdevThatIsGoneAgainAndAgain(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1"}]}`)
	times := 0
	l.plane.setFail(func(at string) error {
		if at != "Commit" {
			return nil
		}
		times++
		return &datapath.GoneError{Netdevs: map[string]int{"veth9": 77}, Err: errors.New("no such device")}
	})
	if err := l.do(`connect br:p1 veth1`); err == nil || !strings.Contains(err.Error(), "veth9 was deleted: no such device") {
		t.Errorf("the change ends with %v", err)
	}
	l.plane.setFail(nil)
	if times != 1 {
		t.Errorf("it was stated %d times", times)
	}
	l.wantGraph()
	l.must(`connect br:p1 veth1`)
}
