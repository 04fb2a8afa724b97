// SPDX-License-Identifier: Apache-2.0

package nat

// The model's actions: appending rules, switching masquerade, and deleting sessions.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	ctsession "github.com/polycube/polycube/conntrack/session"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/commands"
)

// Action runs the actions of the model.
func (n *nat) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	words := strings.Join(path, " ")
	switch words {
	case "rule snat append":
		return appendRule(listSnat, n.rules.snat, input)
	case "rule dnat append":
		return appendRule(listDnat, n.rules.dnat, input)
	case "rule port-forwarding append":
		return appendRule(listForward, n.rules.forward, input)
	case "rule masquerade enable":
		if !n.hasAddress() {
			return cube.ActionResult{Output: result{false}}, nil
		}
		return switchMasquerade(true), nil
	case "rule masquerade disable":
		return switchMasquerade(false), nil
	case "run":
		return n.run(input)
	case "delete-sessions":
		return n.deleteSessions(input)
	}
	return cube.ActionResult{}, fmt.Errorf("action %s: %w", words, cube.ErrNotFound)
}

// run carries out a command of iptables on the table nat.
func (n *nat) run(input json.RawMessage) (cube.ActionResult, error) {
	in, err := commands.ReadRequest(input)
	if err != nil {
		return cube.ActionResult{}, err
	}
	if in.Program == commands.ImportProgram {
		return cube.ActionResult{}, fmt.Errorf("%s: the cube iptables imports rules: %w", in.Program, cube.ErrUnsupported)
	}
	r, family, err := commands.Views(n.chains.view).Run(in.Program, in.Args, in.Input)
	if err != nil {
		failed, err := commands.Failure(err)
		if err != nil {
			return cube.ActionResult{}, err
		}
		return cube.ActionResult{Output: failed}, nil
	}
	is := r.Answer()
	out := cube.ActionResult{Output: is}
	// A table without rules stays: connections that it has translated go on.
	text, changed := r.Tables[commands.NAT]
	if r.Test && changed {
		_, err := n.chains.prepare(n.config.with(family, text))
		return out, err
	}
	if changed && text != n.config.text(family) {
		out.Edits = []cube.Edit{{Path: []string{"table", familyNames[family]}, Value: map[string]string{"text": text}}}
	}
	if counts := commands.CountedBy(r.Edits); len(counts) > 0 && !r.Test {
		out.Rest = func(context.Context) (any, error) {
			var failed error
			if err := n.env.Do(func() { failed = n.chains.set(family, counts) }); err != nil {
				return nil, err
			}
			return is, failed
		}
	}
	return out, nil
}

// result is the output of `enable` and `disable`.
type result struct {
	Result bool `json:"result"`
}

func switchMasquerade(on bool) cube.ActionResult {
	return cube.ActionResult{Output: result{true},
		Edits: []cube.Edit{{Path: []string{"rule", "masquerade"}, Value: map[string]bool{"enabled": on}}}}
}

// hasAddress reports whether masquerade has an address to use.
func (n *nat) hasAddress() bool {
	return addressOfParent(n.parent, true).IsValid() || addressOfParent(n.parent, false).IsValid()
}

// appendRule returns the edit that adds an entry with a number after all others.
func appendRule[E any](list string, entries map[uint32]E, input json.RawMessage) (cube.ActionResult, error) {
	id := free(entries)
	var value map[string]any
	if err := json.Unmarshal(input, &value); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the rule: %w", err)
	}
	return cube.ActionResult{Output: map[string]uint32{"id": id},
		Edits: []cube.Edit{{Path: []string{"rule", list, "entry", strconv.FormatUint(uint64(id), 10)}, Value: value}}}, nil
}

// conditions is the input of `delete-sessions`.
type conditions struct {
	InternalSrc   *inet.Prefix `json:"internal-src"`
	InternalDst   *inet.Prefix `json:"internal-dst"`
	InternalSport *uint16      `json:"internal-sport"`
	InternalDport *uint16      `json:"internal-dport"`
	Proto         string       `json:"proto"`
	State         string       `json:"state"`
}

// filter returns the filter for sessions as seen from behind the NAT.
func (c *conditions) filter() (*ctsession.Filter, error) {
	f := &ctsession.Filter{Src: c.InternalSrc, Dst: c.InternalDst, SPort: c.InternalSport, DPort: c.InternalDport, State: c.State}
	if c.Proto == "" {
		return f, nil
	}
	proto, ok := protocols.Parse(strings.ToLower(c.Proto))
	if !ok {
		return nil, fmt.Errorf("protocol %.20q: %w", c.Proto, cube.ErrInvalid)
	}
	f.L4Proto = &proto
	return f, nil
}

// deleteSessions ends some sessions: packets from outside are stopped first. A sweep ends the mappings that were theirs.
func (n *nat) deleteSessions(input json.RawMessage) (cube.ActionResult, error) {
	var c conditions
	if len(input) > 0 {
		if err := json.Unmarshal(input, &c); err != nil {
			return cube.ActionResult{}, fmt.Errorf("decode the conditions: %w", err)
		}
	}
	f, err := c.filter()
	if err != nil {
		return cube.ActionResult{}, err
	}
	selects := func(e *conns.Entry) bool {
		is := sessionOf(e)
		if is.is(flagMapping) || is.Key.Zone&zoneOutside != 0 {
			return false
		}
		is.adopt()
		internal, remote := is.internal(), is.remote()
		if !f.Selects(ctsession.Session{Src: netip.AddrPortFrom(internal.addr, internal.port), Dst: netip.AddrPortFrom(remote.addr, remote.port),
			Protocol: is.Key.Proto, State: stateOf(&is.Progress)}) {
			return false
		}
		n.end(is)
		return true
	}
	return ctsession.Delete(n.env, n.tables.sessions, selects, n.sweep.sweepNow), nil
}
