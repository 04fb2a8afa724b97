// SPDX-License-Identifier: Apache-2.0

package yang

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A bulk list answers every edit as the same list in libyang's tree does.
func TestBulkListsAreListsLikeAnyOther(t *testing.T) {
	text := modelText(t, "bulk")
	apart, whole := loadText(t, text), loadText(t, strings.ReplaceAll(text, "polycube-base:bulk;", ""))
	if n := len(apart.BulkLists()); n != 9 || len(whole.BulkLists()) != 0 {
		t.Fatalf("%d bulk lists", n)
	}
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	for seed := range uint64(rounds) {
		bulkRound(t, seed, apart, whole)
		if t.Failed() {
			return
		}
	}
}

func bulkRound(t *testing.T, seed uint64, apart, whole *Schema) {
	r := bulkRandom{rand.New(rand.NewPCG(seed, 1))}
	a, b := apart.NewTree(), whole.NewTree()
	defer a.Close()
	defer b.Close()
	var changesA, changesB []*Change
	log := func(op Op, p Path, body string) string { return fmt.Sprintf("seed %d: %s %s %s", seed, op, p, body) }
	for i := range 60 {
		op, p, body := Create, Path(nil), r.cube()
		if i > 0 {
			op, p, body = r.edit()
		}
		ca, errA := a.edit(t.Context(), op, p, []byte(body), editMode{})
		cb, errB := b.edit(t.Context(), op, p, []byte(body), editMode{})
		if !sameFault(errA, errB) {
			t.Errorf("%s:\napart: %v\nwhole: %v", log(op, p, body), errA, errB)
			return
		}
		if i == 0 && errA != nil {
			return // no cube, nothing to edit
		}
		if errA == nil {
			changesA, changesB = append(changesA, ca), append(changesB, cb)
			if ca.Empty() != cb.Empty() {
				t.Errorf("%s: empty is %v apart, %v whole", log(op, p, body), ca.Empty(), cb.Empty())
			}
		}
		for r.IntN(6) == 0 && len(changesA) > 1 {
			last := len(changesA) - 1
			if err := errors.Join(changesA[last].Revert(), changesB[last].Revert()); err != nil {
				t.Fatal(log(op, p, body), err)
			}
			changesA, changesB = changesA[:last], changesB[:last]
		}
		sameTrees(t, log(op, p, body), a, b)
		if t.Failed() {
			return
		}
	}
}

// incomplete are the faults of validation that may come before or after that of a leafref.
var incomplete = regexp.MustCompile(`is mandatory|too (few|many)`)

// sameFault compares what a person sees. Of several faults in one body either may be first.
func sameFault(a, b error) bool {
	var ya, yb *Error
	if a == nil || b == nil || !errors.As(a, &ya) || !errors.As(b, &yb) {
		return a == nil && b == nil
	}
	if len(ya.Errs) > 1 || len(yb.Errs) > 1 {
		return true
	}
	refersA, refersB := strings.Contains(ya.Message, "refers to"), strings.Contains(yb.Message, "refers to")
	switch {
	case refersA && refersB: // of several references that lead nowhere either may be named
		return ya.Tag == yb.Tag
	case refersA || refersB:
		return incomplete.MatchString(ya.Message) || incomplete.MatchString(yb.Message)
	}
	if ya.Tag != yb.Tag && inNested.MatchString(yb.Path) {
		return true // an entry exists or not against the request, and the body is wrong in a large list below an entry
	}
	spelled := func(a, b string) bool { // keys are as the user spells them, or as the model does
		return strings.EqualFold(strings.ReplaceAll(a, "02", "2"), strings.ReplaceAll(b, "02", "2"))
	}
	return ya.Tag == yb.Tag && spelled(ya.Path, yb.Path) && spelled(ya.Message, yb.Message)
}

// inNested matches paths into large lists below other lists.
var inNested = regexp.MustCompile(`^zone/\w+/in/site|^side/\w+/rule|^host/\w+/\w+/(disk|nic)`)

func sameTrees(t *testing.T, what string, a, b *Tree) {
	t.Helper()
	for _, o := range []JSONOptions{{}, {Defaults: true}} {
		for _, words := range []string{"", "table", "table/entry", "flat", "table/entry/1/RED", "table/entry/1/red/sub", "table/other/x/note",
			"zone", "zone/x", "zone/x/in", "zone/x/in/site", "zone/x/in/site/1", "side", "side/left/rule", "side/RIGHT/rule/2/note",
			"host", "host/x/1", "host/x/1/disk", "host/x/01/disk/a", "host/y/1/disk/A/part", "host/x/1/disk/B/part/1", "host/x/1/disk/A/part/1/kind",
			"host/x/2/deep", "host/y/1/nic/1/port", "host/y/2/weight"} {
			p := at(t, a.schema, strings.ReplaceAll(words, "/", " "))
			ja, errA := a.JSON(p, o)
			jb, errB := b.JSON(p, o)
			if !sameFault(errA, errB) || sortedJSON(t, ja) != sortedJSON(t, jb) {
				t.Errorf("%s: at %q (%+v):\napart: %s %v\nwhole: %s %v", what, words, o, ja, errA, jb, errB)
				return
			}
		}
	}
}

// sortedJSON forgets the order of entries: those of a bulk list are in that of their keys.
func sortedJSON(t *testing.T, raw []byte) string {
	if raw == nil {
		return ""
	}
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	out, _ := json.Marshal(sortLists(v))
	return string(out)
}

func sortLists(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = sortLists(v[k])
		}
	case []any:
		for i := range v {
			v[i] = sortLists(v[i])
		}
		slices.SortFunc(v, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return v
}

// bulkRandom makes edits of the model bulk.
type bulkRandom struct{ *rand.Rand }

func (r bulkRandom) pick(from ...string) string { return from[r.IntN(len(from))] }

func (r bulkRandom) some(members ...string) string {
	var out []string
	for _, m := range members {
		if r.IntN(2) == 0 {
			out = append(out, m)
		}
	}
	return strings.Join(out, ",")
}

func (r bulkRandom) array(n int, item func() string) string {
	var out []string
	for range r.IntN(n + 1) {
		out = append(out, item())
	}
	return "[" + strings.Join(out, ",") + "]"
}

func (r bulkRandom) id() string   { return r.pick("-2", "0", "1", "2", "1", "9") }
func (r bulkRandom) kind() string { return r.pick("RED", "blue", "Red") }
func (r bulkRandom) port() string { return r.pick("p1", "p2", "p3") }

func (r bulkRandom) members() string {
	needed := `"needed":` + r.pick("1", "2", "300")
	if r.IntN(12) == 0 {
		needed = `"weight":3`
	}
	rest := r.some(`"port":"`+r.port()+`"`, `"also":"`+r.pick("s1", "s2")+`"`, `"fixed":"`+r.pick("f", "g")+`"`,
		`"tag":`+r.array(3, func() string { return r.pick(`"a"`, `"b"`, `"ccc"`) }),
		`"deep":{`+r.some(`"on":true`, `"name":"n"`)+`}`, `"here":{`+r.some(`"x":"y"`)+`}`,
		`"sub":`+r.array(2, func() string {
			return `{"n":` + r.pick("1", "2") + `,` + r.pick(`"must-have":"m"`, `"must-have":"k","v":"w"`, `"v":"w"`) + `}`
		}))
	if rest == "" {
		return needed
	}
	return needed + "," + rest
}

func (r bulkRandom) item() string {
	return `{"id":` + r.id() + `,"kind":"` + r.kind() + `",` + r.members() + `}`
}

func (r bulkRandom) other() string {
	return `{"name":"` + r.pick("x", "y", "z") + `"` + r.pick("", `,"note":"n"`) + `}`
}

func (r bulkRandom) flat() string {
	return `{"name":"` + r.pick("x", "y") + `","port":"` + r.port() + `"}`
}

func (r bulkRandom) site() string {
	return `{"id":` + r.pick("1", "2", "3") + r.pick("", `,"port":"`+r.port()+`"`, `,"weight":9`) + `}`
}

func (r bulkRandom) zone() string {
	in := r.pick("", `,"in":{"site":`+r.array(3, r.site)+`}`, `,"in":{}`)
	return `{"name":"` + r.pick("x", "y") + `"` + r.pick("", `,"note":"n"`) + in + `}`
}

func (r bulkRandom) rule() string {
	return `{"id":` + r.pick("1", "2", "3") + r.pick("", `,"note":"n"`) + `}`
}

func (r bulkRandom) side() string { return r.pick("LEFT", "left", "RIGHT") }

func (r bulkRandom) sideItem() string {
	return `{"name":"` + r.side() + `"` + r.pick("", `,"size":9`) + r.pick("", `,"rule":`+r.array(3, r.rule)) + `}`
}

// nested is an edit of lists in lists.
func (r bulkRandom) nested() (Path, string) {
	zone, side := Path{{Name: "zone", Keys: []string{r.pick("x", "y")}}}, Path{{Name: "side", Keys: []string{r.side()}}}
	sites := zone.With("in").With("site")
	rule := side.With("rule", r.pick("1", "2", "3"))
	switch r.IntN(10) {
	case 0:
		return Path{{Name: "zone"}}, r.array(2, r.zone)
	case 1:
		return zone, r.pick(`{}`, `{"note":"m"}`, `{"in":{"site":[{"id":7}]}}`, `{"in":{"site":null}}`)
	case 2:
		return zone.With("in"), r.pick(`{}`, `{"site":`+r.array(2, r.site)+`}`)
	case 3:
		return sites, r.array(3, r.site)
	case 4, 5:
		return zone.With("in").With("site", r.pick("1", "2", "3")), r.pick(`{}`, `{"weight":3}`, `{"port":"`+r.port()+`"}`)
	case 6:
		return Path{{Name: "side"}}, r.array(2, r.sideItem)
	case 7:
		return side, r.pick(`{}`, `{"size":3}`, `{"rule":`+r.array(3, r.rule)+`}`)
	case 8:
		return side.With("rule"), r.array(3, r.rule)
	}
	return r.pickPath(rule, rule.With("note"), rule.With("weight")), r.pick(`{}`, `"n"`, `5`, `{"note":"m"}`)
}

func (r bulkRandom) part() string {
	return `{"id":` + r.pick("1", "2", "3") + r.pick(`,"kind":"k"`, `,"kind":"k"`, `,"kind":"l","port":"`+r.port()+`"`, ``) + `}`
}

func (r bulkRandom) disk() string {
	return `{"id":"` + r.pick("A", "b", "B") + `"` + r.pick("", `,"size":1`) + r.pick("", `,"part":`+r.array(2, r.part)) + r.pick("", `,"label":"l"`) + `}`
}

func (r bulkRandom) nic() string {
	return `{"id":` + r.pick("1", "2") + r.pick("", `,"port":"`+r.port()+`"`) + `}`
}

func (r bulkRandom) hostMembers() string {
	return r.some(`"note":"n"`, `"weight":`+r.pick("1", "8"), `"deep":{"on":true}`, `"disk":`+r.array(2, r.disk), `"nic":`+r.array(2, r.nic))
}

func (r bulkRandom) host() string {
	out := `{"name":"` + r.pick("x", "y") + `","nr":` + r.pick("1", "2")
	if rest := r.hostMembers(); rest != "" {
		out += "," + rest
	}
	return out + "}"
}

// inner is an edit of bulk lists in bulk lists.
func (r bulkRandom) inner() (Path, string) {
	host := Path{{Name: "host", Keys: []string{r.pick("x", "y"), r.pick("1", "2", "02")}}}
	disk := host.With("disk", r.pick("A", "a", "B", "C"))
	part := disk.With("part", r.pick("1", "2"))
	switch r.IntN(12) {
	case 0, 1:
		return Path{{Name: "host"}}, r.array(3, r.host)
	case 2, 3:
		return host, `{` + r.hostMembers() + `}`
	case 4:
		return host, r.pick(`{"nic":null}`, `{"disk":null,"note":null}`, `{"disk":7}`, `{"weight":"x","nic":[{"id":1}]}`)
	case 5:
		return host.With("disk"), r.array(2, r.disk)
	case 6, 7:
		return disk, r.pick(`{}`, `{"size":3}`, `{"part":`+r.array(2, r.part)+`}`, `{"label":"m","part":`+r.array(2, r.part)+`}`)
	case 8:
		return disk.With("part"), r.array(3, r.part)
	case 9:
		return part, r.pick(`{"kind":"k"}`, `{}`, `{"port":"`+r.port()+`","kind":"m"}`)
	case 10:
		return r.pickPath(host.With("weight"), host.With("deep"), disk.With("label"), part.With("kind"), part.With("port")), r.pick(`{}`, `"p1"`, `5`, `{"on":true}`)
	}
	return host.With("nic", r.pick("1", "2")), r.pick(`{}`, `{"port":"`+r.port()+`"}`)
}

func (r bulkRandom) pickPath(from ...Path) Path { return from[r.IntN(len(from))] }

func (r bulkRandom) table() string {
	return `{` + r.some(`"size":9`, `"entry":`+r.array(3, r.item), `"other":`+r.array(3, r.other)) + `}`
}

func (r bulkRandom) cube() string {
	return `{"spare":"s1","ports":[{"name":"p1"},{"name":"p2"}]` + r.pick("", `,"table":`+r.table(), `,"flat":[{"name":"x","port":"p1"}]`,
		`,"zone":`+r.array(2, r.zone), `,"side":`+r.array(2, r.sideItem), `,"host":`+r.array(3, r.host)) + `}`
}

func (r bulkRandom) edit() (Op, Path, string) {
	op := Op(r.IntN(4))
	entry := Path{{Name: "table"}, {Name: "entry", Keys: []string{r.id(), r.kind()}}}
	in := func(p Path, name string, keys ...string) Path { return p.With(name, keys...) }
	table := Path{{Name: "table"}}
	var body string
	var p Path
	switch r.IntN(30) {
	case 22, 23, 24, 25, 26, 27, 28, 29:
		p, body = r.inner()
	case 16, 17, 18, 19, 20, 21:
		p, body = r.nested()
	case 0:
		if op == Delete || op == Create {
			op = Merge
		}
		body = r.cube()
	case 1:
		p, body = table, r.table()
	case 2:
		p, body = in(table, "entry"), r.array(3, r.item)
	case 3, 4, 5, 6:
		p, body = entry, `{`+r.members()+`}`
	case 7:
		name := r.pick("weight", "port", "also", "needed", "fixed", "id")
		p, body = in(entry, name), r.pick(`3`, `"p1"`, `"p2"`, `"s1"`, `"f"`, `""`, ``)
	case 8:
		p, body = in(entry, "sub", r.pick("1", "2")), r.pick(`{"must-have":"z"}`, `{"v":"z"}`, `{}`)
	case 9:
		p, body = in(entry, r.pick("deep", "here")), r.pick(`{}`, `{"on":true}`, `{"x":"z"}`)
	case 10:
		p, body = in(entry, "tag"), r.pick(`["a"]`, `["b","a"]`, `[]`, `["a","b","c"]`)
	case 11:
		p, body = Path{{Name: "ports", Keys: []string{r.port()}}}, `{}`
	case 12:
		p, body = Path{{Name: "spare"}}, r.pick(`"s1"`, `"s2"`)
	case 13:
		p, body = Path{{Name: "flat", Keys: []string{r.pick("x", "y")}}}, `{"port":"`+r.port()+`"}`
	case 14:
		p, body = Path{{Name: "flat"}}, r.array(2, r.flat)
	default:
		p, body = in(table, "other", r.pick("x", "y", "z")), r.pick(`{}`, `{"note":"m"}`, `{"name":"x"}`, `[]`, `{"none":1}`)
	}
	return op, p, body
}

func TestWhatABulkListCannotHave(t *testing.T) {
	text := modelText(t, "bulk")
	for _, c := range []struct{ name, old, with, want string }{
		{"must in it", `leaf note { type string; }`, `leaf note { type string; must ". != 'x'"; }`, "table/other/note: must is not supported here"},
		{"when in it", `leaf note { type string; }`, `leaf note { type string; when "../name = 'x'"; }`, "table/other/note: when is not supported here"},
		{"unique", `key "name";
      leaf name { type string; }
      leaf note`, `key "name"; unique "note";
      leaf name { type string; }
      leaf note`, "table/other: unique is not supported here"},
		{"choice in it", `leaf note { type string; }`, `choice c { leaf note { type string; } }`, "table/other/note: a choice is not supported here"},
		{"ordered by the user", `list other {`, `list other { ordered-by user;`, "table/other is marked bulk: its entries must be ordered-by system"},
		{"max-elements", `list other {`, `list other { min-elements 3;`, "min-elements is not supported here"},
		{"state", `list other {`, `list other { config false;`, "only a configuration list can be"},
		{"a mark for state on it", `list other {`, `list other { polycube-base:paged;`, "table/other is marked paged: only a state list with keys can be"},
		{"a mark for a list on a leaf", `leaf size { type`, `leaf size { polycube-base:add-replaces; type`, "table/size is marked add-replaces: only a configuration list"},
		{"a mark for state on a leaf", `leaf size { type`, `leaf size { polycube-base:deletable; type`, "table/size is marked deletable: only a state list"},
		{"not a list", `leaf size { type`, `leaf size { polycube-base:bulk; type`, "table/size is marked bulk: only a configuration list"},
		{"a container with presence above", `container table {`, `container table { presence "x";`, "its ancestor table must be a container without presence"},
		{"a container of a large list", `container deep { leaf on { type boolean; default "false"; } }
    leaf hits`, `container deep { list too { polycube-base:bulk; key "id"; leaf id { type uint8; } } }
    leaf hits`, "host/deep/too is marked bulk: in a list that is marked bulk, it must be a member of the entries"},
		{"positions in a large list", `list nic {
      polycube-base:bulk;
      key "id";
      leaf id { type uint8; }`, `list nic {
      polycube-base:bulk;
      polycube-base:positions;
      key "id";
      leaf id { type uint32; }`, "host/nic is marked bulk: in a list that is marked bulk, it must be a member of the entries, and neither have positions"},
		{"positions without the mark bulk", `leaf size { type`, `leaf size { polycube-base:positions; type`, "table/size is marked positions: only a list that is marked bulk"},
		{"positions of names", `list flat {`, `list flat { polycube-base:positions;`, "it is marked positions, so its first leaf must be its only key, a uint32"},
		{"a list ordered by the user above", `list side {
    polycube-base:system-created;`, `list side { ordered-by user;`, "its ancestor side must be a container without presence, or a list ordered-by system"},
		{"an action in it", `leaf note { type string; }`, `leaf note { type string; } action a;`, "table/other/a: actions are not supported here"},
		{"a leafref into another list of two keys", `path "../../../ports/name"`, `path "../../entry/id"`, "the target must be a leaf outside the list"},
		{"a leafref into it", `leaf spare { type string; }`, `leaf spare { type leafref { path "/bulk:flat/bulk:name"; } }`, "spare: a leafref cannot look into flat"},
		{"a condition that looks into it", `leaf spare { type string; }`, `leaf spare { type string; must "count(../flat) < 3"; }`, "spare: the condition count(../flat) < 3 may look into flat"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.with, 1)
			if changed == text {
				t.Fatalf("%q is not in the model", c.old)
			}
			s, err := Load(changed)
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func BenchmarkBulk(b *testing.B) {
	for _, n := range []int{100, 10_000, 100_000} {
		s := load(b, "bulk")
		tree := cube(b, s, `{"ports":[{"name":"p1"}]}`)
		var body strings.Builder
		for i := range n {
			fmt.Fprintf(&body, `,{"name":"n%d","port":"p1"}`, i)
		}
		whole := []byte(`[` + body.String()[1:] + `]`)
		b.Run(fmt.Sprintf("create %d", n), func(b *testing.B) {
			for b.Loop() {
				c, err := tree.Edit(b.Context(), Replace, Path{{Name: "flat"}}, whole)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := c.Revert(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
		if _, err := tree.Edit(b.Context(), Replace, Path{{Name: "flat"}}, whole); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("one beside %d", n), func(b *testing.B) {
			p := Path{{Name: "flat", Keys: []string{"other"}}}
			for b.Loop() {
				if _, err := tree.Edit(b.Context(), Create, p, []byte(`{"port":"p1"}`)); err != nil {
					b.Fatal(err)
				}
				if _, err := tree.Edit(b.Context(), Delete, p, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
