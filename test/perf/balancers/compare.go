// SPDX-License-Identifier: Apache-2.0

package balancers

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/test/perf/report"
)

// compare adds the table and the checks of requests or connections.
func compare(out *Result, what string, promised float64, all []way, results map[string]*talked) {
	t := &report.Table{
		Title:   what,
		Columns: []string{"", "per second of CPU", "× HAProxy", "× forwarding", "per second", "balancer's own ns"},
	}
	ratio := func(a, b string) float64 { return results[a].cpu.Over(results[b].cpu).Median() }
	for _, y := range all {
		r, self := results[y.name], ""
		if y.name != forwarding {
			self = r.own.Spread(0)
		}
		t.Add(y.name, r.cpu.Spread(0), fmt.Sprintf("%.2f", ratio(y.name, haproxy)), fmt.Sprintf("%.2f", ratio(y.name, forwarding)), r.wall.Spread(0), self)
	}
	out.Tables = append(out.Tables, t)
	if results[lbrpTCX] == nil {
		return
	}
	what = strings.ToLower(what)
	out.Checks = append(out.Checks,
		report.AtLeast(lbrpTCX+" against "+haproxy+", "+what+" per second of CPU", "%.2f ×", ratio(lbrpTCX, haproxy), promised),
		report.AtLeast(lbrpTCX+" against "+forwarding+", "+what+" per second of CPU", "%.2f ×", ratio(lbrpTCX, forwarding), 0.95),
		report.AtMost("own CPU time of "+lbrpTCX+" against "+haproxy+", "+what, "%.3f ×", results[lbrpTCX].own.Over(results[haproxy].own).Median(), 0.1))
}
