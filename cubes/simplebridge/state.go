// SPDX-License-Identifier: Apache-2.0

package simplebridge

// State that can be read and deleted: learned addresses and the counter.

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/fdb"
	"github.com/polycube/polycube/inet"
)

// state has the structure of the model.
type state struct {
	Fdb stateFdb `json:"fdb"`
}

type stateFdb struct {
	NotLearned *uint64   `json:"not-learned,omitempty"`
	Entry      []learned `json:"entry,omitempty"`
}

type learned struct {
	Address inet.MAC `json:"address"`
	Port    string   `json:"port"`
	Age     uint32   `json:"age"`
}

// State returns the learned addresses that have not expired, in ascending order, and the counter of those that did not
// fit. The framework shows configured entries.
func (b *bridge) State(_ context.Context, path []string) (any, error) {
	if len(path) > 0 && path[0] != "fdb" {
		return nil, nil
	}
	var s state
	var err error
	if len(path) < 2 || path[1] == "not-learned" {
		if s.Fdb.NotLearned, err = b.notLearned(); err != nil {
			return nil, err
		}
	}
	switch {
	case len(path) > 2 && path[1] == "entry":
		s.Fdb.Entry, err = b.learnedEntry(path[2])
	case len(path) < 2 || path[1] == "entry":
		s.Fdb.Entry, err = b.learnedEntries()
	}
	return s, err
}

// counters are the counters of the program.
var counters = counter.Of(files, "simplebridge_counter")

func (b *bridge) notLearned() (*uint64, error) {
	sum, err := counters.In(b.env, "not_learned").Sum("not-learned")
	return &sum, err
}

func (b *bridge) learnedEntries() ([]learned, error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	var out []learned
	for a, e := range b.fdb.AllLearned(&err) {
		out = append(out, b.show(a, e, now))
	}
	// The order of the text equals that of the bytes.
	slices.SortFunc(out, func(x, y learned) int { return strings.Compare(x.Address.String(), y.Address.String()) })
	return out, err
}

func (b *bridge) learnedEntry(text string) ([]learned, error) {
	a, err := inet.ParseMAC(text)
	if err != nil {
		return nil, err
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	e, ok, err := b.fdb.Learned(a)
	if !ok {
		return nil, err
	}
	return []learned{b.show(a, e, now)}, nil
}

// show returns a learned entry as shown.
func (b *bridge) show(a inet.MAC, e fdb.Entry, now uint64) learned {
	port, _ := b.env.PortName(e.Port)
	return learned{Address: a, Port: port, Age: uint32(e.Age(now) / time.Second)}
}

// DeleteState removes a learned address.
func (b *bridge) DeleteState(_ context.Context, path []string) error {
	if len(path) != 3 || path[0] != "fdb" || path[1] != "entry" {
		return fmt.Errorf("delete %s: only learned entries can be deleted: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	found, err := b.learnedEntry(path[2])
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("fdb entry %s: %w", path[2], cube.ErrNotFound)
	}
	return b.fdb.ForgetKey(found[0].Address)
}

// Action runs `fdb flush`: learned addresses are removed at once, configured entries by the edit of the configuration
// that it returns.
func (b *bridge) Action(_ context.Context, path []string, _ json.RawMessage) (cube.ActionResult, error) {
	if !slices.Equal(path, []string{"fdb", "flush"}) {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	if err := b.fdb.Forget(nil, func(inet.MAC, fdb.Entry) bool { return true }); err != nil {
		return cube.ActionResult{}, err
	}
	result := cube.ActionResult{Output: map[string]bool{"flushed": true}}
	for range b.fdb.Configured() {
		result.Edits = []cube.Edit{{Delete: true, Path: []string{"fdb", "entry"}}}
		break
	}
	return result, nil
}
