// SPDX-License-Identifier: Apache-2.0

package router

import (
	"os"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestX(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("router", "r1", `{"ports":[{"name":"p1","peer":"veth1","ip":"10.0.1.1/24"},{"name":"p2","peer":"veth2","ip":"10.0.2.1/24"}],"route":[{"network":"10.3.0.0/16","nexthop":"10.0.2.2"}]}`)
		t.Log(l.Read("r1"))
		t.Log(l.Mode("r1"))
	})
}
