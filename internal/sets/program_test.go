// SPDX-License-Identifier: Apache-2.0

package sets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// daemon answers as the daemon does: it keeps cubes as a document with a revision.
type daemon struct {
	cubes    []map[string]any
	revision int
	disturbs int      // how many changes somebody else makes between a read and a change
	used     []string // sets that rules use
	changes  int
}

func (d *daemon) ask(r Request) (Answer, error) {
	switch path := strings.Join(r.Path, "/"); {
	case r.Method == http.MethodGet && path == "config":
		body, err := json.Marshal(map[string]any{"format": 1, "cubes": d.cubes})
		tag := fmt.Sprint(d.revision)
		if d.disturbs > 0 {
			d.disturbs--
			d.revision++
		}
		return Answer{Status: http.StatusOK, Body: body, Tag: tag}, err
	case path == "config":
		return d.change(r)
	case strings.HasSuffix(path, "/uuid"):
		return Answer{Status: http.StatusOK, Body: []byte(`"uuid of ` + r.Path[1] + `"`)}, nil
	case strings.HasSuffix(path, "/run"):
		answer := `{"output":"","error":"","code":0}`
		if slices.Contains(d.used, r.Path[1]) {
			answer = `{"output":"","error":"Set cannot be destroyed: it is in use by a kernel component","code":1}`
		}
		return Answer{Status: http.StatusOK, Body: []byte(answer)}, nil
	}
	return Answer{Status: http.StatusNotFound}, errors.New("not found")
}

func (d *daemon) change(r Request) (Answer, error) {
	if r.IfMatch != fmt.Sprint(d.revision) {
		return Answer{Status: http.StatusPreconditionFailed}, errors.New("the configuration has changed")
	}
	var document struct {
		Format int
		Cubes  []map[string]any
	}
	if err := json.Unmarshal(r.Body, &document); err != nil {
		return Answer{}, err
	}
	if r.Method == http.MethodPut {
		if document.Format != 1 {
			return Answer{Status: http.StatusBadRequest}, errors.New("the rest of the document is lost")
		}
		d.cubes = nil
	}
	for _, c := range document.Cubes {
		d.cubes = slices.DeleteFunc(d.cubes, func(is map[string]any) bool { return is["name"] == c["name"] })
		d.cubes = append(d.cubes, c)
	}
	d.revision++
	d.changes++
	return Answer{Status: http.StatusNoContent}, nil
}

// cube returns a cube as JSON, "" if there is none.
func (d *daemon) cube(name string) string {
	for _, c := range d.cubes {
		if c["name"] == name {
			raw, _ := json.Marshal(c)
			return string(raw)
		}
	}
	return ""
}

// members are the sets in a list:set by their positions.
func (d *daemon) members(t *testing.T, name string) string {
	t.Helper()
	var is struct {
		Element []struct {
			Entry    string
			Position int
		}
	}
	if err := json.Unmarshal([]byte(d.cube(name)), &is); err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(is.Element))
	for _, e := range is.Element {
		if e.Position < 1 || e.Position > len(out) || out[e.Position-1] != "" {
			t.Fatalf("positions of %s: %+v", name, is.Element)
		}
		out[e.Position-1] = e.Entry
	}
	return strings.Join(out, " ")
}

func newDaemon() *daemon {
	return &daemon{revision: 7, cubes: []map[string]any{{"name": "br1", "service-name": "bridge"}, {"name": "a", "service-name": "ipset", "loglevel": "DEBUG",
		"prefixes": []any{map[string]string{"prefix": "192.0.2.1"}}}}}
}

// run runs the program with an input.
func (d *daemon) run(t *testing.T, input string, args ...string) error {
	t.Helper()
	p := Program{Ask: d.ask, Stdin: strings.NewReader(input), Stdout: &bytes.Buffer{}}
	return p.Run(args)
}

func TestARestoreIsOneChange(t *testing.T) {
	d := newDaemon()
	err := d.run(t, "create p hash:ip,port timeout 60\nadd p 192.0.2.1,tcp:80 timeout 9\nadd p 192.0.2.2-192.0.2.3,udp:1\ndel p 192.0.2.3,udp:1\n"+
		"add a 198.51.100.0/24\nflush a\nadd a 192.0.2.9\n", "restore")
	if err != nil || d.changes != 1 || len(d.cubes) != 3 {
		t.Fatalf("%v, %d changes, cubes %v", err, d.changes, d.cubes)
	}
	for name, want := range map[string]string{
		"p": `"element":[{"entry":"192.0.2.1,tcp:80","timeout":9},{"entry":"192.0.2.2,udp:1"}]`,
		"a": `"loglevel":"DEBUG","name":"a","prefixes":[{"prefix":"192.0.2.9"}]`,
	} {
		if is := d.cube(name); !strings.Contains(is, want) {
			t.Errorf("%s is %s, want %s", name, is, want)
		}
	}
}

// TestARestoreThatFailsChangesNothing and names the line.
func TestARestoreThatFailsChangesNothing(t *testing.T) {
	for input, want := range map[string]string{
		"add a 192.0.2.2\nadd b 192.0.2.2\n":                             "Error in command 2, add b: The set with the given name does not exist",
		"add a 192.0.2.1\n":                                              "Error in command 1, add a: Element cannot be added to the set: it's already added",
		"del a 192.0.2.2\n":                                              "Error in command 1, del a: Element cannot be deleted from the set: it's not added",
		"create a hash:ip\n":                                             "Error in command 1, create a: Set cannot be created: set with the same name already exists",
		"create l hash:net\nswap a nosuch\n":                             "Error in command 2, swap a: Sets cannot be swapped: the second set does not exist",
		"create l hash:mac\nswap a l\n":                                  "Error in command 2, swap a: The sets cannot be swapped: their type does not match",
		"create l hash:ip\nrename l a\n":                                 "Error in command 2, rename l: Set cannot be renamed: a set with the new name already exists",
		"add a 192.0.2.2 timeout 5\n":                                    "Error in command 1, add a: Timeout cannot be used: set was created without timeout support",
		"create l list:set size 1\ncreate b hash:ip\nadd l a\nadd l b\n": "Error in command 4, add l: Hash is full, cannot add more elements",
		"create l list:set\nadd l a before b\n":                          "Error in command 2, add l: The set b, which the element is to be next to, is not a member",
		"create l list:set\nadd l br1\n":                                 "Error in command 2, add l: Set to be added/deleted/tested as element does not exist",
		"create l list:set\ncreate k list:set\nadd l k\n":                "Error in command 3, add l: Sets with list:set type cannot be added to the set",
		"create l list:set\nadd l l\n":                                   "Error in command 2, add l: Set to be added/deleted/tested as element does not exist",
		"create b bitmap:port range 5-9\nadd b 10\n":                     "Error in command 2, add b: ",
		"create h hash:ip maxelem 1\nadd h 192.0.2.0/31\n":               "Error in command 2, add h: Hash is full, cannot add more elements",
		"create h hash:ip,port\nadd h 192.0.2.1,tcp:bad!\n":              "Error in command 2, add h: ",
	} {
		d := newDaemon()
		before := fmt.Sprint(d.cubes)
		err := d.run(t, input, "restore")
		var is *Error
		if !errors.As(err, &is) || is.Code != problem || !strings.HasPrefix(is.Text, want) {
			t.Errorf("%q: %v, want %s", input, err, want)
		}
		if d.changes != 0 || fmt.Sprint(d.cubes) != before {
			t.Errorf("%q: the configuration has changed: %v", input, d.cubes)
		}
	}
}

// TestSetsOfSetsKeepTheirOrder: as the lines of a restore say, whatever was deleted before.
func TestSetsOfSetsKeepTheirOrder(t *testing.T) {
	d := newDaemon()
	for _, c := range []struct{ lines, want string }{
		{"create v hash:ip\ncreate w hash:ip\ncreate x hash:ip\ncreate y hash:ip\ncreate z hash:ip\ncreate l list:set\nadd l x\nadd l y\nadd l z\n", "x y z"},
		{"add l v before y\n", "x v y z"},
		{"add l w after z\n", "x v y z w"},
		{"del l x\nadd l x\n", "v y z w x"},
		{"del l y\ndel l w\nadd l y after v\n", "v y z x"},
		{"add l v -exist\n", "v y z x"},
	} {
		if err := d.run(t, c.lines, "restore"); err != nil {
			t.Fatalf("%q: %v", c.lines, err)
		}
		if is := d.members(t, "l"); is != c.want {
			t.Fatalf("after %q, the members are %s, want %s", c.lines, is, c.want)
		}
	}
}

// TestAChangeIsTriedAgainIfSomebodyElseChangesTheConfiguration, but not for ever.
func TestAChangeIsTriedAgainIfSomebodyElseChangesTheConfiguration(t *testing.T) {
	for disturbs, want := range map[int]int{0: 1, 3: 1, attempts: 0} {
		d := newDaemon()
		d.disturbs = disturbs
		err := d.run(t, "", "rename", "a", "b")
		if d.changes != want || (err == nil) != (want == 1) {
			t.Errorf("%d other changes: %d changes, %v", disturbs, d.changes, err)
		}
		if want == 1 && (d.cube("a") != "" || !strings.Contains(d.cube("b"), "192.0.2.1") || d.cube("br1") == "") {
			t.Errorf("after the renaming: %v", d.cubes)
		}
	}
}

func TestSetsThatRulesUseStay(t *testing.T) {
	d := newDaemon()
	d.used = []string{"a"}
	for command, want := range map[string]string{
		"destroy a": "Set cannot be destroyed: it is in use by a kernel component", "rename a b": "Set cannot be renamed: it is in use by another system",
		"destroy nosuch": noSet,
	} {
		if err := d.run(t, "", strings.Fields(command)...); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
	if d.changes != 0 {
		t.Errorf("%d changes", d.changes)
	}
}

// TestASwapExchangesElementsAndOrigins: elements with timeouts are found by the set that they were added to.
func TestASwapExchangesElementsAndOrigins(t *testing.T) {
	d := newDaemon()
	if err := d.run(t, "create t1 hash:ip timeout 5\ncreate t2 hash:ip timeout 9\nadd t1 192.0.2.1\nadd t2 192.0.2.2\n", "restore"); err != nil {
		t.Fatal(err)
	}
	if err := d.run(t, "", "swap", "t1", "t2"); err != nil || d.changes != 2 {
		t.Fatal(err, d.changes)
	}
	for name, wants := range map[string][]string{
		"t1": {`"timeout":9`, `"entry":"192.0.2.2"`, `"elements-of":"uuid of t2"`},
		"t2": {`"timeout":5`, `"entry":"192.0.2.1"`, `"elements-of":"uuid of t1"`},
	} {
		for _, want := range wants {
			if is := d.cube(name); !strings.Contains(is, want) {
				t.Errorf("%s is %s, want %s", name, is, want)
			}
		}
	}
}
