// SPDX-License-Identifier: Apache-2.0

// Package session is what users can do with the connections of a cube: the action `delete-sessions` of groupings
// `session-match` and `sessions-deleted` in polycube-inet.
package session

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Filter selects sessions: those that fulfil all conditions. nil and "" are no condition.
type Filter struct {
	Src     *inet.Prefix   `json:"src"`
	Dst     *inet.Prefix   `json:"dst"`
	L4Proto *inet.Protocol `json:"l4proto"`
	SPort   *uint16        `json:"sport"`
	DPort   *uint16        `json:"dport"`
	State   string         `json:"state"`
}

// Parse decodes the input of the action.
func Parse(input json.RawMessage) (*Filter, error) {
	f := &Filter{}
	if len(input) > 0 {
		if err := json.Unmarshal(input, f); err != nil {
			return nil, fmt.Errorf("decode the conditions: %w", err)
		}
	}
	return f, nil
}

// Session is what a filter looks at: the ends of a session, as its first packet shows them, and its state.
type Session struct {
	Src, Dst netip.AddrPort
	Protocol uint8
	State    string
}

// Of returns the session of a connection in the table of all cubes.
func Of(e *table.Entry) Session {
	from := e.State.Opener()
	end := func(side uint8) netip.AddrPort {
		return netip.AddrPortFrom(e.Key.Address[side].Addr(), e.Key.Port[side].Number())
	}
	return Session{end(from), end(1 - from), e.Key.Protocol, e.State.State.String()}
}

// Selects reports whether a session fulfils all conditions.
func (f *Filter) Selects(s Session) bool {
	switch {
	case f.Src != nil && !f.Src.Contains(s.Src.Addr()),
		f.Dst != nil && !f.Dst.Contains(s.Dst.Addr()),
		f.L4Proto != nil && uint8(*f.L4Proto) != s.Protocol,
		f.SPort != nil && *f.SPort != s.Src.Port(),
		f.DPort != nil && *f.DPort != s.Dst.Port(),
		f.State != "" && f.State != s.State:
		return false
	}
	return true
}

// deleted is the output of the action.
type deleted struct {
	Deleted int `json:"deleted"`
}

// Delete returns the action that deletes what a filter of entries selects: in steps, between which the cube does other
// work, and the daemon makes other changes. done, if set, is called in the cube's turn after the last step.
func Delete(env cube.Env, t *table.Table, selects func(*table.Entry) bool, done func()) cube.ActionResult {
	return cube.ActionResult{Rest: func(ctx context.Context) (any, error) {
		d := table.Deletion{Table: t, Selects: selects}
		for more := true; more; {
			var failed error
			err := env.Do(func() {
				if failed = d.Step(); d.Next == 0 && done != nil {
					done()
				}
			})
			if err == nil {
				err = failed
			}
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return nil, fmt.Errorf("%d sessions are deleted, others may remain: %w", d.Deleted, err)
			}
			more = d.Next != 0
		}
		return deleted{d.Deleted}, nil
	}}
}

// DeleteOfZone is Delete for the connections of a zone in the table of all cubes, by the input of the action.
func DeleteOfZone(env cube.Env, t *table.Table, zone uint16, input json.RawMessage) (cube.ActionResult, error) {
	f, err := Parse(input)
	if err != nil {
		return cube.ActionResult{}, err
	}
	selects := func(e *table.Entry) bool { return e.Key.Zone == zone && f.Selects(Of(e)) }
	return Delete(env, t, selects, nil), nil
}
