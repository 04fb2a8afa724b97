// SPDX-License-Identifier: Apache-2.0

package classifier_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// BenchmarkPackets measures the time of a packet through a classifier on a netdev at XDP, the framework included: of nobody
// without rules, of a subscriber among many, and of one whose packets match the last of some flows, or none.
func BenchmarkPackets(b *testing.B) {
	l := bpftest.New(b, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	l.Create("classifier", "k", `{"max-subscribers":100000}`)
	l.Attach("k", "veth1")
	packet := tcp("10.1.0.1", "192.0.2.1", 1000, 80)
	b.Run("nobody", func(b *testing.B) { l.Time(b, "veth1", packet) })
	for _, n := range []int{1, 10_000, 100_000} {
		var all strings.Builder
		for i := range n {
			fmt.Fprintf(&all, `%s{"address":"10.%d.%d.%d","class":%d}`, map[bool]string{true: ",", false: "["}[i > 0], 1+i>>16, i>>8&0xff, i&0xff, i)
		}
		l.Set("PUT", "k subscriber", all.String()+"]")
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) { l.Time(b, "veth1", tcp("10.1.0.0", "192.0.2.1", 1000, 80)) })
	}
	for _, n := range []int{1, 8, 32} {
		var flows strings.Builder
		for i := range n {
			fmt.Fprintf(&flows, `%s{"precedence":%d,"l4proto":"TCP","remote":"192.0.2.0/24","remote-port":"%d","class":%d}`, map[bool]string{true: ",", false: ""}[i > 0], i, 80+n-1-i, i)
		}
		l.Set("PUT", "k subscriber", `[{"address":"10.1.0.1","class":1,"flow":[`+flows.String()+`]}]`)
		b.Run(fmt.Sprintf("flows=%d", n), func(b *testing.B) { l.Time(b, "veth1", packet) })
		b.Run(fmt.Sprintf("flows=%d,none", n), func(b *testing.B) { l.Time(b, "veth1", tcp("10.1.0.1", "192.0.2.1", 1000, 443)) })
	}
	l.Set("POST", "k traffic-class", `[{"id":1,"srcip":"10.9.0.0/16"},{"id":2,"dport":"443"}]`)
	b.Run("rules=2", func(b *testing.B) { l.Time(b, "veth1", tcp("10.8.0.1", "192.0.2.1", 1000, 443)) })
}

// TestTimedFlowsAreCheap: 32 flows, the last of which matches, add at most 60 ns to the packet of a subscriber.
func TestTimedFlowsAreCheap(t *testing.T) {
	const most = 60
	var flows strings.Builder
	for i := range 32 {
		fmt.Fprintf(&flows, `%s{"precedence":%d,"l4proto":"TCP","remote":"192.0.2.0/24","remote-port":"%d","class":%d}`, map[bool]string{true: ",", false: ""}[i > 0], i, 111-i, i)
	}
	l := bpftest.New(t, bpftest.Options{Hosts: 1, Type: cube.TypeXDPDRV})
	l.Create("classifier", "k", `{"subscriber":[{"address":"10.1.0.1","class":1},{"address":"10.1.0.2","class":1,"flow":[`+flows.String()+`]}]}`)
	l.Attach("k", "veth1")
	fastest := func(subscriber string) float64 {
		return testing.Benchmark(func(b *testing.B) { l.Time(b, "veth1", tcp(subscriber, "192.0.2.1", 1000, 80)) }).Extra["ns/fastest"]
	}
	without, with := math.Inf(1), math.Inf(1)
	for range 3 { // one after the other, as the speed of the machine changes
		without, with = min(without, fastest("10.1.0.1")), min(with, fastest("10.1.0.2"))
	}
	t.Logf("%.0f ns without flows, %.0f with 32", without, with)
	if with-without > most || with < without {
		t.Errorf("32 flows add %.0f ns, want at most %d", with-without, most)
	}
}
