// SPDX-License-Identifier: Apache-2.0

package topology

// Documents: what they change and what they leave alone.

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/document"
)

// export returns the configuration as a document.
func (l *lab) export() string {
	l.t.Helper()
	var b bytes.Buffer
	if err := l.Configuration().Export(context.Background(), &b); err != nil {
		l.t.Fatal(err)
	}
	return b.String()
}

// apply applies a document; options are dry and whole.
func (l *lab) apply(doc string, options ...string) (*Applied, error) {
	return l.Apply(context.Background(), []byte(doc), ApplyOptions{
		DryRun: slices.Contains(options, "dry"), Whole: slices.Contains(options, "whole")})
}

// shown prints differences, one per line.
func shown(d document.Difference) string {
	var b strings.Builder
	for _, c := range d.Cubes {
		fmt.Fprintf(&b, "%s %s %s", c.Action, c.Service, c.Name)
		if c.Reason != "" {
			fmt.Fprintf(&b, " (%s)", c.Reason)
		}
		b.WriteByte('\n')
		for _, ch := range c.Changes {
			fmt.Fprintf(&b, "  %s %s %s > %s\n", ch.Action, ch.Path, ch.Old, ch.New)
		}
	}
	for _, n := range d.Netdevs {
		fmt.Fprintf(&b, "netdev %s %v > %v\n", n.Name, n.Old, n.New)
	}
	return b.String()
}

// site is a topology with some of everything.
const site = `{"cubes":[
 {"name":"br1","service-name":"toybridge","note":"first","ports":[
  {"name":"p1","peer":"veth1","tcubes":["th1","th2"]},{"name":"p2","peer":"br2:p1","mac":"m"}]},
 {"name":"br2","service-name":"toybridge","fdb":{"aging-time":60,"entry":[{"address":"aa","port":"p1"}]},"ports":[{"name":"p1","peer":"br1:p2"}]},
 {"name":"th1","service-name":"toyfilter","ingress-action":"DROP"},{"name":"th2","service-name":"toyfilter"},
 {"name":"th3","service-name":"toyfilter"},{"name":"th4","service-name":"toyfilter"}],
 "netdevs":[{"name":"veth2","tcubes":["th4","th3"]}]}`

func TestAnExportIsWhatWasApplied(t *testing.T) {
	l := newLab(t, "veth1", "veth2", "veth3")
	if _, err := l.apply(site); err != nil {
		t.Fatal(err)
	}
	l.must(`act br1 fdb learn <<< {"address":"bb","port":"p2"}`, `patch br1 <<< {"loglevel":"debug"}`)
	want := `{"cubes":[{"name":"br1","service-name":"toybridge","loglevel":"DEBUG","ports":[` +
		`{"name":"p1","peer":"veth1","tcubes":["th1","th2"]},{"name":"p2","peer":"br2:p1","mac":"m"}],` +
		`"fdb":{"entry":[{"address":"bb","port":"p2"}]},"note":"learned bb"},` +
		`{"name":"br2","service-name":"toybridge","ports":[{"name":"p1","peer":"br1:p2"}],"fdb":{"aging-time":60,"entry":[{"address":"aa","port":"p1"}]}},` +
		`{"name":"th1","service-name":"toyfilter","ingress-action":"DROP"},{"name":"th2","service-name":"toyfilter"},` +
		`{"name":"th3","service-name":"toyfilter"},{"name":"th4","service-name":"toyfilter"}],"netdevs":[{"name":"veth2","tcubes":["th4","th3"]}]}`
	got := l.export()
	if got != want {
		t.Errorf("exports\n%s\nwant\n%s", got, want)
	}
	l.restart()
	if again := l.export(); again != got {
		t.Errorf("after a restart it exports\n%s\nwas\n%s", again, got)
	}
	fresh := newLab(t, "veth1", "veth2", "veth3")
	if _, err := fresh.apply(got); err != nil {
		t.Fatal(err)
	}
	if again := fresh.export(); again != got {
		t.Errorf("applied elsewhere it exports\n%s\nwas\n%s", again, got)
	}
	for _, option := range []string{"", "dry", "whole"} {
		before := fresh.state()
		a, err := fresh.apply(got, option)
		if err != nil || a.Changed {
			t.Errorf("applied again (%s): %+v, %v; nothing is to change", option, a, err)
		}
		fresh.wantState(before)
	}
}

func TestDifferencesThatDocumentsMake(t *testing.T) {
	part := func(name string) string { // the site without one cube
		var doc struct{ Cubes, Netdevs []map[string]any }
		if err := json.Unmarshal([]byte(site), &doc); err != nil {
			t.Fatal(err)
		}
		doc.Cubes = slices.DeleteFunc(doc.Cubes, func(c map[string]any) bool { return c["name"] == name })
		out, _ := json.Marshal(map[string]any{"cubes": doc.Cubes, "netdevs": doc.Netdevs})
		return string(out)
	}
	cases := []struct{ name, doc, options, want string }{
		{"a leaf, one that is unset, and one that is set", `[{"name":"br2","service-name":"toybridge","note":"x","fdb":{"entry":[{"address":"aa","port":"p9"}]},"ports":[{"name":"p1","peer":"br1:p2"}]}]`, "",
			"change toybridge br2\n  delete fdb/aging-time 60 > \n  change fdb/entry/aa/port \"p1\" > \"p9\"\n  add note  > \"x\"\n"},
		{"a port that comes, and one that goes with its peer's", `[{"name":"br2","service-name":"toybridge","fdb":{"aging-time":60,"entry":[{"address":"aa","port":"p1"}]},"ports":[{"name":"q","peer":"veth3"}]}]`, "",
			"change toybridge br1\n  delete ports/p2/peer \"br2:p1\" > \n" +
				"change toybridge br2\n  delete ports/p1 {\"peer\":\"br1:p2\"} > \n  add ports/q  > {\"peer\":\"veth3\"}\n"},
		{"a cube more", `[{"name":"br3","service-name":"toybridge","type":"xdp_skb"}]`, "", "add toybridge br3\n  add type  > \"XDP_SKB\"\n"},
		{"what is fixed at creation", `[{"name":"br2","service-name":"toybridge","type":"XDP_SKB"}]`, "",
			"change toybridge br1\n  delete ports/p2/peer \"br2:p1\" > \n" +
				"replace toybridge br2 (type is fixed at creation)\n  add type  > \"XDP_SKB\"\n  delete ports/p1 {\"peer\":\"br1:p2\"} > \n  delete fdb/aging-time 60 > \n  delete fdb/entry/aa {\"port\":\"p1\"} > \n"},
		{"another service", `[{"name":"th3","service-name":"toybridge"}]`, "",
			"replace toybridge th3 (it is a toyfilter)\nnetdev veth2 [th4 th3] > [th4]\n"},
		{"a filter that moves by its parent", `[{"name":"th1","service-name":"toyfilter","parent":"veth2"}]`, "",
			"change toybridge br1\n  change ports/p1/tcubes [\"th1\",\"th2\"] > [\"th2\"]\nchange toyfilter th1\n  delete ingress-action \"DROP\" > \nnetdev veth2 [th4 th3] > [th4 th3 th1]\n"},
		{"a filter that stays by its parent", `[{"name":"th4","service-name":"toyfilter","parent":"veth2"}]`, "", ""},
		{"a filter without a place", `[{"name":"th4","service-name":"toyfilter"}]`, "", "netdev veth2 [th4 th3] > [th3]\n"},
		{"another order", `{"netdevs":[{"name":"veth2","tcubes":["th3","th4"]}]}`, "", "netdev veth2 [th4 th3] > [th3 th4]\n"},
		{"two that change places", `{"netdevs":[{"name":"veth2","tcubes":["th1","th3"]},{"name":"veth3","tcubes":["th4"]}]}`, "",
			"change toybridge br1\n  change ports/p1/tcubes [\"th1\",\"th2\"] > [\"th2\"]\nnetdev veth2 [th4 th3] > [th1 th3]\nnetdev veth3 [] > [th4]\n"},
		{"others are left alone", part("br2"), "", ""},
		{"a document of nothing", `[]`, "", ""},
		{"the whole of nothing", `[]`, "whole", "delete toybridge br1\n  delete ports/p1 {\"peer\":\"veth1\",\"tcubes\":[\"th1\",\"th2\"]} > \n  delete ports/p2 {\"mac\":\"m\",\"peer\":\"br2:p1\"} > \n  delete note \"first\" > \n" +
			"delete toybridge br2\n  delete ports/p1 {\"peer\":\"br1:p2\"} > \n  delete fdb/aging-time 60 > \n  delete fdb/entry/aa {\"port\":\"p1\"} > \n" +
			"delete toyfilter th1\n  delete ingress-action \"DROP\" > \ndelete toyfilter th2\ndelete toyfilter th3\ndelete toyfilter th4\nnetdev veth2 [th4 th3] > []\n"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "veth1", "veth2", "veth3")
			if _, err := l.apply(site); err != nil {
				t.Fatal(err)
			}
			before := l.state()
			dry, err := l.apply(c.doc, "dry", c.options)
			if err != nil {
				t.Fatalf("dry run: %v", err)
			}
			l.wantState(before)
			if got := shown(dry.Difference); got != c.want || dry.Changed != (c.want != "") {
				t.Errorf("the dry run shows\n%swant\n%s", got, c.want)
			}
			done, err := l.apply(c.doc, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if got := shown(done.Difference); got != c.want || done.Revision != l.Revision() {
				t.Errorf("it shows\n%s at revision %d, want\n%s at %d", got, done.Revision, c.want, l.Revision())
			}
			l.wantSound()
			if again, err := l.apply(c.doc, c.options); err != nil || again.Changed {
				t.Errorf("a second time: %+v, %v; nothing is to change", again, err)
			}
			after := l.export()
			l.restart()
			if is := l.export(); is != after {
				t.Errorf("a restart makes of\n%s\n%s", after, is)
			}
		})
	}
}

func TestDocumentsThatAreRefused(t *testing.T) {
	cases := []struct {
		name, doc, options string
		want               []string
		kind               error
	}{
		{"no document", `7`, "", []string{"expected a list of cubes"}, nil},
		{"unknown parts", `{"cube":[],"netdevs":7}`, "", []string{`unknown member "cube", valid members are cubes and netdevs`, "netdevs: must be a list"}, nil},
		{"several faults", `[{"name":"a"},{"name":"br1","service-name":"toybridge","bogus":1,"fdb":{"aging-time":-1}},{"name":"b","service-name":"toybrige"}]`, "",
			[]string{"cubes[0] a: service-name is missing"}, nil},
		{"several faults of models", `[{"name":"br1","service-name":"toybridge","bogus":1,"fdb":{"aging-time":-1}},{"name":"b","service-name":"toybrige"}]`, "",
			[]string{`cubes[0] br1: unknown member "bogus"`, "cubes[0] br1: fdb aging-time: ", `cubes[1] b: service-name: no service "toybrige"`}, nil},
		{"one name twice", `[{"name":"a","service-name":"toybridge"},{"name":"a","service-name":"toyfilter"}]`, "", []string{"cubes[1] a: the name is given twice, also by cubes[0] a"}, cube.ErrInvalid},
		{"peers that are not there", `[{"name":"x","service-name":"toybridge","ports":[{"name":"a","peer":"nodev0"},{"name":"b","peer":"br9:p1"}]}]`, "",
			[]string{"cubes[0] x: port a of x: peer nodev0: netdev nodev0: not found", "cubes[0] x: port b of x: peer br9:p1: cube br9: not found"}, cube.ErrNotFound},
		{"a peer that is another's", `[{"name":"x","service-name":"toybridge","ports":[{"name":"a","peer":"veth1"}]}]`, "", []string{"cubes[0] x: port a of x: peer veth1: already the peer of br1:p1"}, cube.ErrInUse},
		{"a peer that goes", `[{"name":"br1","service-name":"toybridge","ports":[{"name":"p2","peer":"br2:p1"}]}]`, "whole", []string{`cubes[0] br1: ports p2 peer "br2:p1": the other side does not exist`}, cube.ErrInvalid},
		{"two places for one", `{"cubes":[{"name":"th1","service-name":"toyfilter","parent":"veth3"}],"netdevs":[{"name":"veth2","tcubes":["th1"]}]}`, "", []string{"cubes[0] th1: parent: parent veth3: th1 is also attached to veth2"}, cube.ErrInvalid},
		{"a filter that is not there", `{"netdevs":[{"name":"veth2","tcubes":["th9"]}]}`, "", []string{"netdevs[0] veth2: tcubes of veth2: cube th9: not found"}, cube.ErrNotFound},
		{"a netdev that is not there", `{"netdevs":[{"name":"nodev0","tcubes":["th1"]}]}`, "", []string{"netdevs[0] nodev0: tcubes of nodev0: netdev nodev0: not found"}, cube.ErrNotFound},
		{"a bridge as a filter", `{"netdevs":[{"name":"veth2","tcubes":["br1"]}]}`, "", []string{"br1 is not a transparent cube"}, cube.ErrInvalid},
		{"a parent for a bridge", `[{"name":"br1","service-name":"toybridge","parent":"veth3"}]`, "", []string{"cubes[0] br1: parent: a toybridge cannot be attached"}, nil},
		{"a name that is a word", `[{"name":"show","service-name":"toybridge"}]`, "", []string{"cubes[0] show: cube name"}, cube.ErrInvalid},
		{"too many ports", `[{"name":"x","service-name":"toybridge","ports":[{"name":"1"},{"name":"2"},{"name":"3"},{"name":"4"},{"name":"5"},{"name":"6"},{"name":"7"},{"name":"8"},{"name":"9"}]}]`, "", []string{"9 ports, the maximum is 8"}, cube.ErrFull},
	}
	l := newLab(t, "veth1", "veth2", "veth3")
	if _, err := l.apply(site); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		for _, dry := range []string{"", "dry"} {
			before := l.state()
			_, err := l.apply(c.doc, c.options, dry)
			if err == nil {
				t.Fatalf("%s: accepted", c.name)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: says %q, want %q in it", c.name, err, want)
				}
			}
			if c.kind != nil && !errors.Is(err, c.kind) {
				t.Errorf("%s: %v is no %v", c.name, err, c.kind)
			}
			l.wantState(before)
		}
	}
}

func TestADocumentIsAppliedToTheRevisionThatWasLookedAt(t *testing.T) {
	l := newLab(t, "veth1", "veth2")
	if _, err := l.apply(site); err != nil {
		t.Fatal(err)
	}
	seen := l.Revision()
	l.must(`patch br1 <<< {"note":"changed meanwhile"}`)
	before := l.state()
	_, err := l.Apply(context.Background(), []byte(`[]`), ApplyOptions{Whole: true, Revision: &seen})
	if !errors.Is(err, cube.ErrStale) {
		t.Errorf("a late document: %v, want %v", err, cube.ErrStale)
	}
	l.wantState(before)
	seen = l.Revision()
	if _, err := l.Apply(context.Background(), []byte(`[]`), ApplyOptions{Whole: true, Revision: &seen}); err != nil || len(l.Cubes()) != 0 {
		t.Errorf("%v, %d cubes are left", err, len(l.Cubes()))
	}
}

// Whichever step fails, the configuration is unchanged.
func TestADocumentThatFailsHalfwayChangesNothing(t *testing.T) {
	next := `{"cubes":[{"name":"br1","service-name":"toybridge","type":"XDP_SKB","ports":[{"name":"p1","peer":"veth3"}]},` +
		`{"name":"br2","service-name":"toybridge","note":"n","ports":[{"name":"p9","peer":"veth1","tcubes":["th2","th3"]}]},` +
		`{"name":"br7","service-name":"toybridge"},{"name":"th2","service-name":"toyfilter","ingress-action":"DROP"},{"name":"th3","service-name":"toyfilter"}]}`
	steps := 0
	for fail := 1; ; fail++ {
		l := newLab(t, "veth1", "veth2", "veth3")
		if _, err := l.apply(site); err != nil {
			t.Fatal(err)
		}
		before, exported := l.state(), l.export()
		left, tripped := fail, false
		trip := func(string) error {
			if left--; left == 0 {
				tripped = true
				return errInjected
			}
			return nil
		}
		l.plane.setFail(trip)
		l.b.setFail(func(call string) error {
			if strings.Contains(call, "Prepare") || strings.Contains(call, "Commit") || strings.Contains(call, "New") {
				return trip(call)
			}
			return nil
		})
		_, err := l.apply(next, "whole")
		l.plane.setFail(nil)
		l.b.setFail(nil)
		if !tripped {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
		steps++
		if !errors.Is(err, errInjected) {
			t.Errorf("step %d fails and it says %v", fail, err)
		}
		l.wantState(before)
		l.wantSound()
		if is := l.export(); is != exported {
			t.Errorf("after step %d failed it exports\n%s\nwas\n%s", fail, is, exported)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	if steps < 8 {
		t.Errorf("%d steps can fail, there are more", steps)
	}
}

// A document leads to the same configuration from any other as from an empty one.
func TestADocumentLeadsToTheSameFromAnywhere(t *testing.T) {
	const rounds = 16
	var docs []string
	for seed := range uint64(rounds) {
		r := rand.New(rand.NewPCG(seed, 7))
		l := newLab(t, "veth1", "veth2", "veth3")
		for range 150 {
			line := randomLine(r)
			if strings.HasPrefix(line, "de") && r.IntN(8) > 0 {
				continue // deleting and detaching less often leaves more to compare
			}
			if err := l.do(line); err != nil {
				continue // some requests are refused
			}
		}
		l.wantSound()
		docs = append(docs, l.export())
	}
	if all := strings.Join(docs, ""); strings.Count(all, "tcubes") < rounds || strings.Count(all, `"peer"`) < rounds || strings.Count(all, "XDP") == 0 {
		t.Errorf("the documents have too little in them to prove anything: %s", all)
	}
	for i, doc := range docs {
		l := newLab(t, "veth1", "veth2", "veth3")
		for _, other := range []string{docs[(i+1)%rounds], doc, docs[(i+7)%rounds], doc} {
			was := l.export()
			if _, err := l.apply(other, "whole"); err != nil {
				t.Fatalf("round %d: %v\nfrom\n%s\nto\n%s", i, err, was, other)
			}
			if is := l.export(); is != other {
				t.Fatalf("round %d: from\n%s\ncame\n%s\nwant\n%s", i, was, is, other)
			}
			l.wantSound()
		}
		l.restart()
		if is := l.export(); is != doc {
			t.Fatalf("round %d: a restart makes\n%s\nof\n%s", i, is, doc)
		}
		l.wantSound()
	}
}

func TestAnExportCanBeCreatedAsArraysOfCubesAre(t *testing.T) {
	l := newLab(t, "veth1", "veth2", "veth3")
	if _, err := l.apply(site); err != nil {
		t.Fatal(err)
	}
	fresh, want := newLab(t, "veth1", "veth2", "veth3"), l.export()
	fresh.must("many <<< " + want)
	if is := fresh.export(); is != want {
		t.Errorf("it is\n%s\nwant\n%s", is, want)
	}
	before := fresh.state()
	for line, want := range map[string]string{
		"many <<< " + want: "the name is in use by a toybridge",
		`many <<< {"cubes":[],"netdevs":[{"name":"veth3","tcubes":["th9"]}]}`: "cube th9",
		`many <<< {"cubes":[],"netdev":[]}`:                                   `unknown member "netdev"`,
		`many <<< {"netdevs":[]}`:                                             "expected an array of cubes",
	} {
		if err := fresh.do(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
	fresh.wantState(before)
}

// A cube that could not be restored is part of the configuration: it is exported, left unchanged if a document contains it
// unchanged, and deleted if a whole configuration does not contain it.
func TestDocumentsAndCubesThatCouldNotBeRestored(t *testing.T) {
	l := newLab(t, "veth1", "veth2", "veth3")
	if _, err := l.apply(site); err != nil {
		t.Fatal(err)
	}
	want := l.export()
	l.stop()
	l.b.setFail(func(call string) error {
		if call == "br2 Prepare" {
			return errInjected
		}
		return nil
	})
	l.start()
	l.b.setFail(nil)
	if broken := l.Broken(); len(broken) != 1 {
		t.Fatalf("broken are %v", broken)
	}
	if is := l.export(); is != want {
		t.Errorf("it exports\n%s\nwant\n%s", is, want)
	}
	before := l.state()
	for _, options := range []string{"", "whole"} {
		if a, err := l.apply(want, options); err != nil || a.Changed {
			t.Errorf("its own export (%s): %+v, %v", options, a, err)
		}
	}
	if _, err := l.apply(`[{"name":"br2","service-name":"toybridge"}]`); err == nil || !strings.Contains(err.Error(), "cubes[0] br2: it could not be restored") {
		t.Errorf("another configuration for it: %v", err)
	}
	l.wantState(before)
	a, err := l.apply(`[{"name":"th1","service-name":"toyfilter","ingress-action":"DROP"}]`, "whole")
	if err != nil || len(l.Broken()) != 0 || !strings.Contains(shown(a.Difference), "delete toybridge br2\n") {
		t.Errorf("%v, broken are %v, %s", err, l.Broken(), shown(a.Difference))
	}
	l.restart()
	if is := l.export(); is != `{"cubes":[{"name":"th1","service-name":"toyfilter","ingress-action":"DROP"}]}` {
		t.Errorf("after a restart it exports %s", is)
	}
	l.wantSound()
}

// Whatever a document contains, a dry run changes nothing, and what is exported after it was applied can be applied again.
func FuzzDocument(f *testing.F) {
	for _, seed := range []string{site, `[]`, `{"cubes":null}`, `[{"name":"br1","service-name":"toybridge","type":"XDP_DRV"}]`,
		`{"netdevs":[{"name":"veth2","tcubes":["th1","th1"]}]}`, `[{"name":"th1","service-name":"toyfilter","parent":"br1:p2"}]`,
		`[{"name":"br1","service-name":"toybridge","ports":[{"name":"p1","tcubes":["br1",7]}],"fdb":{"entry":[{"address":"a"},{}]}}]`} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	f.Fuzz(func(t *testing.T, doc string, whole bool) {
		l := newLab(t, "veth1", "veth2", "veth3")
		if _, err := l.apply(site); err != nil {
			t.Fatal(err)
		}
		option := ""
		if whole {
			option = "whole"
		}
		before := l.state()
		_, tried := l.apply(doc, "dry", option)
		l.wantState(before)
		_, err := l.apply(doc, option)
		if (err == nil) != (tried == nil) {
			t.Errorf("a dry run says %v, and in earnest it is %v", tried, err)
		}
		if err != nil {
			l.wantState(before)
		}
		l.wantSound()
		want := l.export()
		if a, err := l.apply(want, "whole"); err != nil || a.Changed {
			t.Errorf("its own export: %+v, %v\n%s", a, err, want)
		}
	})
}
