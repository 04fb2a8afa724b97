// SPDX-License-Identifier: Apache-2.0

// The history of the configuration: one line for each revision, or the changes of one.

package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
)

func (s *session) history(f fileCommand) error {
	r := request{method: "GET", path: []string{"history"}}
	if f.revision != "" {
		r.path = append(r.path, f.revision)
	}
	if f.count != "" {
		r.query = "limit=" + f.count
	}
	a, err := s.demand(r)
	if err != nil {
		return err
	}
	if f.json {
		return output.Print(s.stdout, a.body, output.Options{Form: output.FormJSON}, false)
	}
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	if f.revision != "" {
		s.revision(v)
		return nil
	}
	s.revisions(v)
	return nil
}

// revisions prints a list, with the missing revisions.
func (s *session) revisions(v output.Value) {
	list, _ := v.Get("revisions")
	rows := [][]string{{"REVISION", "TIME", "WHO", "FROM", "WHAT"}}
	last := uint64(0)
	for _, r := range list.Items {
		number := r.TextOf("revision")
		n, _ := strconv.ParseUint(number, 10, 64)
		if last > n+1 {
			rows = append(rows, []string{fmt.Sprintf("(%d to %d were not recorded)", n+1, last-1)})
		}
		last = n
		who, from, request := requesters(r)
		rows = append(rows, []string{number, localTime(r), who, from, strings.TrimSpace(cmp.Or(r.TextOf("note"), request) + " " + changedCubes(r))})
	}
	widths := make([]int, 4)
	for _, row := range rows {
		for i := range min(len(row)-1, len(widths)) {
			widths[i] = max(widths[i], len([]rune(output.Clean(row[i]))))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			cell = output.Clean(cell)
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		fmt.Fprintln(s.stdout, strings.TrimRight(b.String(), " "))
	}
	if oldest := v.TextOf("oldest"); oldest != "" && len(list.Items) > 0 {
		fmt.Fprintf(s.stdout, "\nThe oldest revision available for rollback is %s.\n", output.Clean(oldest))
	}
	notes, _ := v.Get("notes")
	for _, n := range notes.Items {
		fmt.Fprintf(s.stdout, "When the daemon started: %s.\n", output.Clean(n.Text))
	}
}

// revision prints the changes of one revision.
func (s *session) revision(v output.Value) {
	who, from, request := requesters(v)
	for _, line := range [][2]string{{"revision", v.TextOf("revision")}, {"time", localTime(v)}, {"who", who}, {"from", from},
		{"request", request}, {"note", v.TextOf("note")}} {
		if line[1] != "" {
			fmt.Fprintf(s.stdout, "%s: %s\n", line[0], output.Clean(line[1]))
		}
	}
	fmt.Fprintln(s.stdout)
	difference, _ := v.Get("difference")
	s.differencePrinter().print(difference)
}

// localTime is the time of a revision, in local time.
func localTime(r output.Value) string {
	t, err := time.Parse(time.RFC3339Nano, r.TextOf("time"))
	if err != nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// requesters are the clients whose requests made a revision, usually one.
func requesters(r output.Value) (who, from, request string) {
	list, _ := r.Get("by")
	var whos, froms, requests []string
	add := func(list *[]string, text string) {
		for _, t := range *list {
			if t == text {
				return
			}
		}
		if text != "" {
			*list = append(*list, text)
		}
	}
	for _, by := range list.Items {
		add(&whos, by.TextOf("who"))
		add(&froms, by.TextOf("from"))
		add(&requests, strings.Replace(by.TextOf("what"), " /polycube/v1/", " /", 1))
	}
	if len(whos) == 0 {
		whos = []string{"polycubed"}
	}
	return strings.Join(whos, ","), strings.Join(froms, ","), some(requests)
}

// some joins the first elements of a list, and says how many more there are.
func some(list []string) string {
	const most = 3
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(", ... (%d more)", more)
	}
	return text
}

// changedCubes names the cubes of a revision, with the marks of a difference.
func changedCubes(r output.Value) string {
	var parts []string
	for _, kind := range [][2]string{{"added", "+"}, {"changed", "~"}, {"deleted", "-"}, {"netdevs", "netdev "}} {
		list, _ := r.Get(kind[0])
		var names []string
		for _, name := range list.Items {
			names = append(names, kind[1]+name.Text)
		}
		if len(names) > 0 {
			parts = append(parts, some(names))
		}
	}
	text := strings.Join(parts, ", ")
	if text == "" {
		return ""
	}
	return "(" + text + ")"
}
