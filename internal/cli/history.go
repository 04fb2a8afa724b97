// SPDX-License-Identifier: Apache-2.0

// The history of the configuration: a line for each revision, or what one did.

package cli

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

func (s *session) history(f filing) error {
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
		return printAnswer(s.stdout, a.body, showOptions{form: formJSON}, false)
	}
	v, err := decodeJSON(a.body)
	if err != nil {
		return fmt.Errorf("the daemon's answer is not understood: %w", err)
	}
	if f.revision != "" {
		s.revision(v)
		return nil
	}
	s.revisions(v)
	return nil
}

// revisions prints a list, with what is missing of it.
func (s *session) revisions(v value) {
	list, _ := v.get("revisions")
	rows := [][]string{{"REVISION", "TIME", "WHO", "FROM", "WHAT"}}
	last := uint64(0)
	for _, r := range list.items {
		number := r.string("revision")
		n, _ := strconv.ParseUint(number, 10, 64)
		if last > n+1 {
			rows = append(rows, []string{fmt.Sprintf("(%d to %d are lost)", n+1, last-1)})
		}
		last = n
		who, from, request := requesters(r)
		rows = append(rows, []string{number, moment(r), who, from, strings.TrimSpace(cmp.Or(r.string("note"), request) + " " + touched(r))})
	}
	widths := make([]int, 4)
	for _, row := range rows {
		for i := range min(len(row)-1, len(widths)) {
			widths[i] = max(widths[i], len([]rune(clean(row[i]))))
		}
	}
	for _, row := range rows {
		var b strings.Builder
		for i, cell := range row {
			cell = clean(cell)
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-len([]rune(cell))+2))
			}
		}
		fmt.Fprintln(s.stdout, strings.TrimRight(b.String(), " "))
	}
	if oldest := v.string("oldest"); oldest != "" && len(list.items) > 0 {
		fmt.Fprintf(s.stdout, "\nThe oldest that can be returned to is %s.\n", clean(oldest))
	}
	notes, _ := v.get("notes")
	for _, n := range notes.items {
		fmt.Fprintf(s.stdout, "When the daemon started: %s.\n", clean(n.text))
	}
}

// revision prints what one did.
func (s *session) revision(v value) {
	who, from, request := requesters(v)
	for _, line := range [][2]string{{"revision", v.string("revision")}, {"time", moment(v)}, {"who", who}, {"from", from},
		{"request", request}, {"note", v.string("note")}} {
		if line[1] != "" {
			fmt.Fprintf(s.stdout, "%s: %s\n", line[0], clean(line[1]))
		}
	}
	fmt.Fprintln(s.stdout)
	difference, _ := v.get("difference")
	s.differencePrinter().print(difference)
}

// moment is when a revision was made, in the time of the place.
func moment(r value) string {
	t, err := time.Parse(time.RFC3339Nano, r.string("time"))
	if err != nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02 15:04:05")
}

// requesters are those whose requests made a revision, most often one.
func requesters(r value) (who, from, request string) {
	list, _ := r.get("by")
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
	for _, by := range list.items {
		add(&whos, by.string("who"))
		add(&froms, by.string("from"))
		add(&requests, strings.Replace(by.string("what"), " /polycube/v1/", " /", 1))
	}
	if len(whos) == 0 {
		whos = []string{"polycubed"}
	}
	return strings.Join(whos, ","), strings.Join(froms, ","), some(requests)
}

// some joins the first of a list, and says how many more there are.
func some(list []string) string {
	const most = 3
	text := strings.Join(list[:min(len(list), most)], ", ")
	if more := len(list) - most; more > 0 {
		text += fmt.Sprintf(", ... (%d more)", more)
	}
	return text
}

// touched names the cubes of a revision, with the marks of a difference.
func touched(r value) string {
	var parts []string
	for _, kind := range [][2]string{{"added", "+"}, {"changed", "~"}, {"deleted", "-"}, {"netdevs", "netdev "}} {
		list, _ := r.get(kind[0])
		var names []string
		for _, name := range list.items {
			names = append(names, kind[1]+name.text)
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
