// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

// deleteSets asks for the deletion of sets.
func (b *bench) deleteSets(m *smf.SMF, sets ...*ie.IE) error {
	got, err := m.Exchange(b.context(), message.NewSessionSetDeletionRequest(0, m.NodeID(), nil, sets...))
	if err != nil {
		return err
	}
	if _, ok := got.(*message.SessionSetDeletionResponse); !ok {
		return fmt.Errorf("%T is no Session Set Deletion Response", got)
	}
	return nil
}

// ofNode is an FQ-CSID with a node type.
func ofNode(kind byte, set *ie.IE) *ie.IE { return ie.New(ie.FQCSID, append(set.Payload, kind)) }

// TestASetOfSessionsIsDeleted, and no other session, also after a restart of this end.
func TestASetOfSessionsIsDeleted(t *testing.T) {
	const mme, gateway = 0, 2
	for _, tt := range []struct {
		name string
		sets []*ie.IE
		left string // the sessions
	}{
		{"of a node", []*ie.IE{ie.NewFQCSID("192.0.2.50", 1)}, "BCDE"},
		{"several", []*ie.IE{ie.NewFQCSID("192.0.2.50", 7, 2), ie.NewFQCSID("2001:db8::50", 3)}, "AE"},
		{"of another node", []*ie.IE{ie.NewFQCSID("192.0.2.51", 1)}, "ABCDE"},
		{"of another number", []*ie.IE{ie.NewFQCSID("192.0.2.50", 3)}, "ABCDE"},
		{"that a modification gave", []*ie.IE{ofNode(mme, ie.NewFQCSID("192.0.2.60", 9))}, "ABCE"},
		{"that a modification took", []*ie.IE{ofNode(mme, ie.NewFQCSID("192.0.2.60", 8))}, "ABCDE"},
		{"of another type of node", []*ie.IE{ofNode(gateway, ie.NewFQCSID("192.0.2.60", 9))}, "ABCDE"},
		{"that a modification left, and one without a type", []*ie.IE{ofNode(gateway, ie.NewFQCSID("2001:db8::50", 3))}, "ABE"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := start(t, nil)
			m, other := b.smf(), b.smf()
			sessions := map[byte]*smf.Session{}
			for i, of := range [][]*ie.IE{
				{ie.NewFQCSID("192.0.2.50", 1)},
				{ie.NewFQCSID("192.0.2.50", 2, 4)},
				{ie.NewFQCSID("192.0.2.50", 5), ie.NewFQCSID("2001:db8::50", 3)},
				{ofNode(mme, ie.NewFQCSID("192.0.2.60", 8)), ofNode(gateway, ie.NewFQCSID("2001:db8::50", 3))},
				nil,
			} {
				sessions['A'+byte(i)] = b.establish1(m, append(plainAt(manyAddress(i)), of...)...)
			}
			b.establish1(other, append(plainAt(base), ie.NewFQCSID("192.0.2.50", 1, 2))...)
			if _, err := m.Modify(b.context(), sessions['D'], ofNode(mme, ie.NewFQCSID("192.0.2.60", 9))); err != nil {
				t.Fatal(err)
			}
			b.restart()
			if err := b.deleteSets(m, tt.sets...); err != nil {
				t.Fatal(err)
			}
			left := ""
			for name := byte('A'); name <= 'E'; name++ {
				var r *smf.RefusedError
				_, err := m.Modify(b.context(), sessions[name])
				if err == nil {
					left += string(name)
				} else if !errors.As(err, &r) || r.Cause != ie.CauseSessionContextNotFound {
					t.Error(err)
				}
			}
			if n, _ := b.data.size(); left != tt.left || n != len(left)+1 {
				t.Errorf("%s are left, and %d in all, want %s and one of another SMF", left, n, tt.left)
			}
		})
	}
}

func TestSetsThatCannotBeReadAreRefused(t *testing.T) {
	b := start(t, nil)
	m := b.smf()
	b.establish1(m, append(plain(), ie.NewFQCSID("192.0.2.50", 1))...)
	raw := func(text string) *ie.IE {
		v, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return ie.New(ie.FQCSID, v)
	}
	var many []*ie.IE
	for i := range maxSetIEs + 1 {
		many = append(many, ie.NewFQCSID("192.0.2.50", uint16(i)))
	}
	for name, tt := range map[string]struct {
		cause uint8
		sets  []*ie.IE
	}{
		"none":                 {67, nil},
		"an empty one":         {69, []*ie.IE{raw("")}},
		"no number":            {69, []*ie.IE{raw("00c0000232")}},
		"a short address":      {69, []*ie.IE{raw("01c00002")}},
		"a short number":       {69, []*ie.IE{raw("02c0000232000100")}},
		"a short IPv6 address": {69, []*ie.IE{raw("1120010db800000000000000000000000001")}},
		"an unknown type":      {69, []*ie.IE{raw("31c00002320001")}},
		"too many":             {69, many},
	} {
		err := b.deleteSets(m, tt.sets...)
		if r := refused(t, err); r.Cause != tt.cause {
			t.Errorf("%s: cause %d, want %d", name, r.Cause, tt.cause)
		}
		if len(tt.sets) > 0 {
			if _, err := m.Establish(b.context(), 99, append(plainAt(base), tt.sets...)...); refused(t, err).Cause != tt.cause {
				t.Errorf("%s, in an establishment: %v", name, err)
			}
		}
	}
	thief := b.stranger(netip.AddrPortFrom(loopback(), Port))
	thief.Node = m.Node
	err := b.deleteSets(thief, ie.NewFQCSID("192.0.2.50", 1))
	if r := refused(t, err); r.Cause != ie.CauseNoEstablishedPFCPAssociation {
		t.Errorf("a stranger: %v", r)
	}
	if n, _ := b.data.size(); n != 1 {
		t.Errorf("%d sessions are left, want 1", n)
	}
}

// TestSessionsAreEstablishedWhileASetIsDeleted: only those of the set leave. An association that is released then waits for all.
func TestSessionsAreEstablishedWhileASetIsDeleted(t *testing.T) {
	b := start(t, slow)
	m := b.smf()
	b.many(m, 0, 8*maxBatch, ie.NewFQCSID("192.0.2.50", 1))
	b.many(m, 8*maxBatch, 10)
	g := b.gate(m)
	deleted, released := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- b.deleteSets(m, ie.NewFQCSID("192.0.2.50", 1)) }()
	g.next(t)
	steps, err := b.answers(t, g, func() error {
		_, err := m.Establish(b.context(), 1<<40, plainAt(base)...)
		return err
	})
	if err != nil || steps > 2 {
		t.Errorf("a session is established after %d batches: %v", steps, err)
	}
	go func() { released <- m.Release(b.context()) }()
	eventually(t, "the release", func() bool { return len(b.inbox) > 0 })
	g.open()
	if err := errors.Join(<-deleted, <-released); err != nil {
		t.Error(err)
	}
	if n, _ := b.data.size(); n != 0 || b.status().Sessions != 0 {
		t.Errorf("%d sessions are left", n)
	}
}
