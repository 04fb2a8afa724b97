// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

// toyChains is a cube with chains of rules, which it keeps by their order, like a classifier in the kernel.
type toyChains struct {
	toy
	rules *map[string]map[uint32]string // by chain
}

type toyRule struct {
	ID   uint32
	Note string
}

func (c *toyChains) Prepare(ctx context.Context, change cube.Change) (plan cube.Plan, err error) {
	if change.New != nil {
		if plan, err = c.toy.Prepare(ctx, change); err != nil {
			return plan, err
		}
	}
	decoded, err := cube.DecodeEntries[toyRule](change.Entries)
	if err != nil {
		return cube.Plan{}, err
	}
	before := *c.rules
	after := map[string]map[uint32]string{"UP": maps.Clone(before["UP"]), "DOWN": maps.Clone(before["DOWN"])}
	for _, d := range decoded {
		if d.Old == nil {
			continue
		}
		rules := after[d.Above[0]]
		if rules[d.Old.ID] != d.Old.Note {
			return cube.Plan{}, fmt.Errorf("chain %v: order %d was %q, not %q", d.Above, d.Old.ID, rules[d.Old.ID], d.Old.Note)
		}
		delete(rules, d.Old.ID)
	}
	for _, d := range decoded {
		if d.New == nil {
			continue
		}
		if after[d.Above[0]] == nil {
			after[d.Above[0]] = map[uint32]string{}
		}
		if note, ok := after[d.Above[0]][d.New.ID]; ok {
			return cube.Plan{}, fmt.Errorf("chain %v: order %d is both %q and %q", d.Above, d.New.ID, note, d.New.Note)
		}
		after[d.Above[0]][d.New.ID] = d.New.Note
	}
	plan.Before = append(plan.Before, cube.Effect(func() (func() error, error) {
		if err := c.b.call(c.env.Name(), "CommitEntries"); err != nil {
			return nil, err
		}
		*c.rules = after
		return func() error { *c.rules = before; return nil }, nil
	}))
	return plan, nil
}

// Action inserts a rule, at a position in the path of the action's chain.
func (c *toyChains) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	var in struct {
		At    int
		Notes []string
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, err
	}
	var result cube.ActionResult
	for _, note := range in.Notes {
		result.Edits = append(result.Edits, cube.Edit{Insert: true, Path: []string{"chain", path[1], "rule", strconv.Itoa(in.At)},
			Value: map[string]any{"note": note}})
	}
	return result, nil
}

const toyChainsModel = `
  list chain {
    polycube-base:system-created;
    key "name";
    leaf name { type enumeration { enum UP; enum DOWN; } }
    leaf note { type string; }
    list rule {
      polycube-base:bulk;
      polycube-base:positions;
      polycube-base:add-replaces;
      key "id";
      leaf id { type uint32; }
      leaf note { type string; }
    }
    action put { input { leaf at { type uint32; } leaf-list notes { type string; } } }
  }
  container fdb {`

// chainsLab is a lab with a cube c1 of chains, and what its rules should be.
type chainsLab struct {
	*lab
	rules map[string]map[uint32]string
	want  map[string][]string
}

func newChainsLab(t *testing.T) *chainsLab {
	l := &chainsLab{lab: newLab(t), want: map[string][]string{}}
	model := strings.Replace(strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "toychains"), "\n  container fdb {", toyChainsModel, 1)
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&toyChains{toy{e, l.b}, &l.rules}), nil
	}}}
	l.restart()
	l.must(`create toychains c1`)
	return l
}

// check compares the cube's rules and what a read shows with the rules that should be there.
func (l *chainsLab) check(after string) {
	l.t.Helper()
	for _, chain := range []string{"UP", "DOWN"} {
		want := l.want[chain]
		var has, shown []string
		for _, order := range slices.Sorted(maps.Keys(l.rules[chain])) {
			has = append(has, l.rules[chain][order])
		}
		path := yang.Path{{Name: "chain", Keys: []string{chain}}, {Name: "rule"}}
		err := l.Entries(context.Background(), "", "c1", path, nil, func(keys []string, raw json.RawMessage) bool {
			if is := fmt.Sprintf(`{"id":%d,"note":%q}`, len(shown), raw[strings.Index(string(raw), `"note":`)+8:len(raw)-2]); is != string(raw) || keys[0] != strconv.Itoa(len(shown)) {
				l.t.Errorf("after %s: entry %q reads %s", after, keys, raw)
			}
			shown = append(shown, string(raw[strings.Index(string(raw), `"note":`)+8:len(raw)-2]))
			return true
		})
		if err != nil && !errors.Is(err, yang.ErrNotFound) {
			l.t.Fatal(err)
		}
		if !slices.Equal(has, want) || !slices.Equal(shown, want) {
			l.t.Fatalf("after %s: the rules of %s are %q, a read shows %q; want %q", after, chain, has, shown, want)
		}
	}
}

// change makes one random change; it returns the request, and the rules after it, nil if it is to be refused.
func (l *chainsLab) change(r *rand.Rand, i int) (string, []string) {
	chain := []string{"UP", "DOWN"}[r.IntN(2)]
	is, note := slices.Clone(l.want[chain]), fmt.Sprint("n", i)
	at := r.IntN(len(is) + 1)
	switch kind := r.IntN(10); {
	case kind < 5 || at == len(is):
		at = min(at, 1+r.IntN(2)) // at one place, until orders run out
		return fmt.Sprintf(`act c1 chain %s put <<< {"at":%d,"notes":[%q]}`, chain, at, note), slices.Insert(is, at, note)
	case kind == 5:
		return fmt.Sprintf("del c1 chain %s rule %d", chain, at), slices.Delete(is, at, at+1)
	case kind == 6:
		is[at] = note
		return fmt.Sprintf(`patch c1 chain %s rule %d <<< {"note":%q}`, chain, at, note), is
	case kind == 7:
		is[at] = note
		return fmt.Sprintf(`post c1 chain %s rule %d <<< {"note":%q}`, chain, at, note), is
	case kind == 8:
		return fmt.Sprintf(`put c1 chain %s rule <<< [{"note":"a"},{"note":%q}]`, chain, note), []string{"a", note}
	}
	return fmt.Sprintf(`post c1 chain %s rule %d <<< {"note":"far"}`, chain, len(is)+1), nil
}

// Whatever is changed, refused or restored, the rules of a chain are in their order, for the cube and for readers.
func TestRulesOfChainsKeepTheirOrder(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 7))
			l := newChainsLab(t)
			for i := range 200 {
				line, want := l.change(r, i)
				failing := want != nil && r.IntN(6) == 0
				if failing {
					at := []string{"store", "c1 CommitEntries"}[r.IntN(2)]
					fail := func(step string) error {
						if step == at {
							return errInjected
						}
						return nil
					}
					l.plane.setFail(fail)
					l.b.setFail(fail)
				}
				err := l.do(line)
				l.plane.setFail(nil)
				l.b.setFail(nil)
				if (err == nil) != (want != nil && !failing) {
					t.Fatalf("%s: %v", line, err)
				}
				if err == nil {
					l.want[strings.Fields(line)[3]] = want
				}
				l.check(line)
				if r.IntN(25) == 0 {
					l.stop()
					l.rules = nil
					l.start()
					l.check("a restart")
				}
			}
		})
	}
}

// One request inserts several rules; deleting a chain deletes its rules.
func TestRulesGoWithTheirChain(t *testing.T) {
	l := newChainsLab(t)
	l.must(`act c1 chain UP put <<< {"at":0,"notes":["c","b","a"]}`, `act c1 chain DOWN put <<< {"at":0,"notes":["x"]}`)
	l.want = map[string][]string{"UP": {"a", "b", "c"}, "DOWN": {"x"}}
	l.check("an action with three edits")
	l.wantRead(`[{"name":"UP","rule":[{"id":0,"note":"a"},{"id":1,"note":"b"},{"id":2,"note":"c"}]},{"name":"DOWN","rule":[{"id":0,"note":"x"}]}]`, "c1", "chain")
	l.wantRead(`{"id":1,"note":"b"}`, "c1", "chain", "up", "rule", "1")
	l.must("del c1 chain UP")
	l.want["UP"] = nil
	l.check("deleting the chain")
	l.stop()
	l.rules = nil
	l.start()
	l.check("a restart")
}
