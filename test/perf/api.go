// SPDX-License-Identifier: Apache-2.0

package perf

// The API by the size of what it manages: many cubes and ports, and many entries in one list of one cube.

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/report"
)

const (
	portsOfOne = 10
	pageSize   = 100
)

// apiSizes are the numbers of cubes, and of entries of one list, that are measured; the promises apply to the last.
func apiSizes(quick bool) (cubes, entries []int) {
	if quick {
		return []int{5, 20}, []int{100, 1000}
	}
	return []int{10, 100, 1000}, []int{100, 10_000, 100_000}
}

const apiText = "bin/polycubed as installed, with persistence and the audit record, and one client that keeps " +
	"its connection to the Unix socket. Wall time, from the request to the end of the answer: by then a change is " +
	"checked, in effect in the kernel and on disk. The last line is the ratio of the largest to the smallest size."

// figures are the measurements at one size, by column.
type figures struct {
	size   int
	values []float64
}

// api is the part "api".
func api(ctx context.Context, r *Run) error {
	cubes, entries := apiSizes(r.Quick)
	ofCubes, err := r.eachSize(ctx, "cubes", cubes, manyCubes)
	if err != nil {
		return err
	}
	ofEntries, err := r.eachSize(ctx, "entries", entries, manyEntries)
	if err != nil {
		return err
	}
	byCubes := sizeTable("By number of cubes", "cubes", cubeColumns, ofCubes)
	byCubes.Notes = []string{fmt.Sprintf("simplebridges of type TC with %d ports each, one of which has a netdev; %d addresses at most. *all at once* is one "+
		"request with all cubes. A leaf: `fdb aging-time` of one cube after the other, a constant of its program, which is relinked and reloaded. "+
		"Pages have %d cubes. *restart* is from exec to the first answer with all cubes restored.", portsOfOne, 64, pageSize)}
	byEntries := sizeTable("By number of entries", "entries", entryColumns, ofEntries)
	byEntries.Notes = []string{fmt.Sprintf("Configured addresses of one simplebridge, in one request. An entry: one of them, spread over the list, gets "+
		"another port. A page has %d entries.", pageSize)}
	most, many := ofCubes[len(ofCubes)-1], ofEntries[len(ofEntries)-1]
	checks := []report.Check{
		report.AtMost(fmt.Sprintf("changing a leaf among %d cubes, p99", most.size), "%.1f ms", most.values[changeP99], 10),
		report.AtMost(fmt.Sprintf("changing an entry among %d, p99", many.size), "%.1f ms", many.values[changeP99], 10),
		report.AtMost(fmt.Sprintf("changing a leaf, %d cubes against %d", most.size, ofCubes[0].size), "%.1f times",
			most.values[changeP50]/ofCubes[0].values[changeP50], 2),
		report.AtMost(fmt.Sprintf("changing an entry, %d against %d", many.size, ofEntries[0].size), "%.1f times",
			many.values[changeP50]/ofEntries[0].values[changeP50], 2),
	}
	for _, f := range ofEntries {
		if f.size == 10_000 {
			checks = append(checks, report.AtMost("10,000 entries in one request", "%.2f s", f.values[loadAll], 2))
		}
	}
	r.add(Section{Title: "The API by size", Text: apiText, Tables: []*report.Table{byCubes, byEntries}}, checks...)
	return nil
}

// Columns that both tables have, by their place.
const (
	loadAll = iota
	changeP50
	changeP99
)

var (
	cubeColumns = []string{"all at once, s", "a leaf, p50, ms", "p99", "a cube more, ms", "read a cube, ms", "read all in pages, s",
		"export, s", "restart, s", "resident, MB", "delete all, s"}
	entryColumns = []string{"all at once, s", "an entry, p50, ms", "p99", "an entry more, ms", "read an entry, ms", "read a page, ms", "read all, s",
		"export, s", "restart, s", "resident, MB", "delete all, s"}
)

// sizeTable writes the figures and, in the last line, their growth.
func sizeTable(title, what string, columns []string, all []figures) *report.Table {
	t := &report.Table{Title: title, Columns: append([]string{what}, columns...)}
	for _, f := range all {
		row := []string{fmt.Sprint(f.size)}
		for i, v := range f.values {
			decimals := 2
			switch {
			case strings.HasSuffix(columns[i], "MB"):
				decimals = 0
			case strings.HasSuffix(columns[i], " s"):
				decimals = 3
			}
			row = append(row, fmt.Sprintf("%.*f", decimals, v))
		}
		t.Add(row...)
	}
	first, last := all[0], all[len(all)-1]
	row := []string{fmt.Sprintf("× %d", last.size/first.size)}
	for i := range columns {
		row = append(row, fmt.Sprintf("× %.1f", last.values[i]/first.values[i]))
	}
	t.Add(row...)
	return t
}

// eachSize measures every size with a separate daemon.
func (r *Run) eachSize(ctx context.Context, what string, sizes []int, measure func(*apiRig, int) error) (out []figures, err error) {
	for _, n := range sizes {
		r.progress("api: %d %s", n, what)
		f := figures{size: n}
		err := lab.With(ctx, func(rig *lab.Rig) error {
			w, err := rig.NewWire(1)
			if err != nil {
				return err
			}
			d, err := rig.NewDaemon(w.Machine.Namespace, filepath.Join(r.Root, "bin"))
			if err != nil {
				return err
			}
			if _, err := d.Start(); err != nil {
				return err
			}
			a := &apiRig{wire: w, daemon: d, client: d.Client(), rounds: r.rounds(200, 10), figures: &f}
			return measure(a, n)
		})
		if err != nil {
			return nil, fmt.Errorf("%d %s: %w", n, what, err)
		}
		r.progress("api: %d %s: %.2f", n, what, f.values)
		out = append(out, f)
	}
	return out, nil
}

// apiRig is a daemon that is measured.
type apiRig struct {
	wire    *lab.Wire
	daemon  *lab.Daemon
	client  *lab.Client
	rounds  int
	figures *figures
	err     error
}

func (a *apiRig) note(v float64) { a.figures.values = append(a.figures.values, v) }

// do sends a request and returns its time; after an error, nothing is sent any more.
func (a *apiRig) do(method, path, body string) time.Duration {
	if a.err != nil {
		return 0
	}
	var took time.Duration
	took, _, _, a.err = a.client.Do(method, path, body)
	return took
}

// once records the time of a request, in s.
func (a *apiRig) once(method, path, body string) { a.note(a.do(method, path, body).Seconds()) }

// again sends a request per round and returns the times, in ms.
func (a *apiRig) again(request func(i int) (method, path, body string)) (s report.Sample) {
	for i := range a.rounds {
		s = append(s, ms(a.do(request(i))))
	}
	return s
}

// pages reads an array in pages, records the time in s, and counts the entries.
func (a *apiRig) pages(path string, want int) {
	count, start := 0, time.Now()
	for next := fmt.Sprintf("%s?limit=%d", path, pageSize); next != "" && a.err == nil; {
		var answer []byte
		var link string
		var page []json.RawMessage
		if _, answer, link, a.err = a.client.Do("GET", next, ""); a.err == nil {
			a.err = json.Unmarshal(answer, &page)
		}
		count, next = count+len(page), nextPage(link)
	}
	a.note(time.Since(start).Seconds())
	if a.err == nil && count != want {
		a.err = fmt.Errorf("pages of %s have %d entries, want %d", path, count, want)
	}
}

// nextPage returns the path of the next page in a Link header, "" if there is none.
func nextPage(header string) string {
	for part := range strings.SplitSeq(header, ", ") {
		if target, ok := strings.CutSuffix(part, `>; rel="next"`); ok {
			return strings.TrimPrefix(target, "</polycube/v1")
		}
	}
	return ""
}

// restart records the time of a start with the stored configuration, in s, and the memory after it, in MB.
func (a *apiRig) restart() {
	if a.err != nil {
		return
	}
	if a.err = a.daemon.Kill(); a.err != nil {
		return
	}
	took, err := a.daemon.Start()
	a.note(took.Seconds())
	m, memErr := a.daemon.Memory()
	a.note(float64(m.Resident) / (1 << 20))
	if a.err = err; err == nil {
		a.err = memErr
	}
}

// cubeBody is cube i.
func cubeBody(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"name":"b%d","fdb":{"max-entries":64},"ports":[{"name":"p0","peer":"n%d"}`, i, i)
	for p := 1; p < portsOfOne; p++ {
		fmt.Fprintf(&b, `,{"name":"p%d"}`, p)
	}
	return b.String() + "]}"
}

// manyCubes measures a daemon with n cubes.
func manyCubes(a *apiRig, n int) error {
	bodies := make([]string, n)
	for i := range n {
		if bodies[i] = cubeBody(i); a.err == nil {
			a.err = a.wire.Spare(fmt.Sprintf("n%d", i))
		}
	}
	a.once("POST", "/simplebridge", "["+strings.Join(bodies, ",")+"]")
	a.settled()
	change := a.again(func(i int) (string, string, string) {
		return "PATCH", fmt.Sprintf("/simplebridge/b%d/fdb/aging-time", i*7919%n), fmt.Sprint(100 + i)
	})
	a.note(change.Median())
	a.note(change.Quantile(0.99))
	more := report.Sample{}
	for i := range min(a.rounds, 20) {
		more = append(more, ms(a.do("POST", fmt.Sprintf("/simplebridge/more%d", i), `{"fdb":{"max-entries":64}}`)))
		a.do("DELETE", fmt.Sprintf("/simplebridge/more%d", i), "")
	}
	a.note(more.Median())
	a.note(a.again(func(i int) (string, string, string) { return "GET", fmt.Sprintf("/simplebridge/b%d", i*7919%n), "" }).Median())
	a.pages("/simplebridge", n)
	a.once("GET", "/config", "")
	a.restart()
	a.once("PUT", "/config", `{"cubes":[]}`)
	return a.err
}

// settled waits until the daemon has no background work left, such as inlining: until it has hardly used a CPU for some
// time, because on a busy machine it may just not have been scheduled.
func (a *apiRig) settled() {
	const pause, quiet, inARow = 200 * time.Millisecond, 5 * time.Millisecond, 5
	var before time.Duration
	calm := 0
	for end := time.Now().Add(2 * time.Minute); a.err == nil && calm < inARow && time.Now().Before(end); {
		time.Sleep(pause)
		var now time.Duration
		if now, a.err = a.daemon.CPU(); now-before < quiet {
			calm++
		} else {
			calm = 0
		}
		before = now
	}
}

// address is the i-th station.
func address(i int) string {
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", i>>24&0xff, i>>16&0xff, i>>8&0xff, i&0xff)
}

// manyEntries measures a cube with n entries.
func manyEntries(a *apiRig, n int) error {
	a.do("POST", "/simplebridge/b0", fmt.Sprintf(`{"fdb":{"max-entries":%d},"ports":[{"name":"p0"},{"name":"p1"}]}`, n+a.rounds+64))
	entries := make([]string, n)
	for i := range n {
		entries[i] = fmt.Sprintf(`{"address":%q,"port":"p0"}`, address(i))
	}
	const list = "/simplebridge/b0/fdb/entry"
	a.once("POST", list, "["+strings.Join(entries, ",")+"]")
	a.settled()
	change := a.again(func(i int) (string, string, string) {
		return "PATCH", list + "/" + address(i*7919%n), fmt.Sprintf(`{"port":"p%d"}`, 1-i/n%2)
	})
	a.note(change.Median())
	a.note(change.Quantile(0.99))
	a.note(a.again(func(i int) (string, string, string) { return "POST", list + "/" + address(n+i), `{"port":"p1"}` }).Median())
	for i := range a.rounds {
		a.do("DELETE", list+"/"+address(n+i), "")
	}
	a.note(a.again(func(i int) (string, string, string) { return "GET", list + "/" + address(i*7919%n), "" }).Median())
	a.note(a.again(func(i int) (string, string, string) {
		return "GET", fmt.Sprintf("%s?limit=%d&after=%s", list, pageSize, address(i*7919%n)), ""
	}).Median())
	a.once("GET", list, "")
	a.once("GET", "/config", "")
	a.restart()
	a.once("DELETE", list, "")
	return a.err
}
