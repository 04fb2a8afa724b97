// SPDX-License-Identifier: Apache-2.0

package router

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
)

// many are n routes in random-looking places, nine of ten of 24 bits and the others of 20.
func many(n int) string {
	var b strings.Builder
	for i := range n {
		x := uint32(i) * 2654435761
		network := fmt.Sprintf("%d.%d.%d.0/24", 20+x>>24%100, x>>16&255, x>>8&255)
		if i%10 == 0 {
			network = fmt.Sprintf("%d.%d.%d.0/20", 130+x>>24%80, x>>16&255, x>>8&0xf0)
		}
		fmt.Fprintf(&b, `,{"network":"%s","nexthop":"10.0.%d.2"}`, network, 1+i%2)
	}
	return "[" + b.String()[1:] + "]"
}

func timed(do func()) time.Duration {
	start := time.Now()
	do()
	return time.Since(start)
}

// One route costs about the same among many as among few.
func TestTimedManyRoutes(t *testing.T) {
	n := 10_000
	if os.Getenv("POLYCUBE_SOAK") != "" {
		n = 100_000
	}
	l := bpftest.New(t, bpftest.Options{})
	l.Create("router", "r1", bare)
	one := func() time.Duration {
		best := time.Hour
		for range 5 {
			best = min(best, timed(func() {
				l.Set("POST", "r1 route 99.0.0.0/24 10.0.1.2", "{}")
				l.Set("DELETE", "r1 route 99.0.0.0/24 10.0.1.2", "")
			}))
		}
		return best
	}
	few := one()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	load := timed(func() { l.Set("PUT", "r1 route", unique(many(n))) })
	runtime.GC()
	runtime.ReadMemStats(&after)
	if text := l.Read("r1 route"); n > maxShown && (strings.Contains(text, "static") || !strings.Contains(text, "connected")) {
		t.Errorf("of %d routes, the list says what it need not", n)
	}
	first, _, _ := strings.Cut(many(2)[1:], "}")
	var single Route
	if err := json.Unmarshal([]byte(first+"}"), &single); err != nil {
		t.Fatal(err)
	}
	if text := l.Read("r1 route " + single.Network + " " + single.Nexthop); !strings.Contains(text, `"protocol":"static"`) {
		t.Errorf("one of many routes reads %s", text)
	}
	many := one()
	t.Logf("%d routes: %v to load, one more and one less %v (%v among few), %d bytes of memory each", n, load, many, few, int(after.HeapAlloc-before.HeapAlloc)/n)
	if many > 20*few+200*time.Millisecond {
		t.Errorf("a route among %d takes %v, among few %v", n, many, few)
	}
	down := timed(func() { l.Set("PATCH", "r1 ports p2 peer", `""`) })
	up := timed(func() { l.Set("PATCH", "r1 ports p2 peer", `"veth2"`) })
	t.Logf("half of them go with their port in %v, and are back in %v", down, up)
	if took := timed(func() { l.Set("DELETE", "r1 route", "") }); true {
		t.Logf("%v to delete", took)
	}
	wantRoutes(t, l, "in the end", "10.0.1.0/24 local 0", "10.0.2.0/24 local 0")
}

// unique removes duplicates.
func unique(list string) string {
	seen := map[string]bool{}
	var out []string
	for _, e := range strings.SplitAfter(strings.Trim(list, "[]"), "}") {
		e = strings.Trim(e, ",")
		network, _, _ := strings.Cut(e, `","nexthop`)
		if e != "" && !seen[network] {
			seen[network] = true
			out = append(out, e)
		}
	}
	return "[" + strings.Join(out, ",") + "]"
}
