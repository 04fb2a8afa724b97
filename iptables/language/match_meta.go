// SPDX-License-Identifier: Apache-2.0

package language

// The matches on what comes with a packet: its mark, its owner, and comments.

import (
	"errors"
	"fmt"
	"math"
	"os/user"
	"strconv"
	"strings"
)

// Mark is -m mark: Value is compared with the mark of the packet AND Mask.
type Mark struct {
	Value, Mask uint32
	Not         bool
}

// Comment is -m comment.
type Comment struct{ Text string }

// Owner is -m owner. An option that was not given is nil or false.
type Owner struct {
	UID, GID     *Range
	SupplGroups  bool
	SocketExists bool
	// SocketNot is `! --socket-exists`.
	SocketNot bool
}

// mark reads VALUE or VALUE/MASK.
func (v value) mark() (n, mask uint32, err error) {
	text, maskText, masked := strings.Cut(v.text, "/")
	a, ok := number(text, math.MaxUint32)
	b := uint64(math.MaxUint32)
	if masked && ok {
		b, ok = number(maskText, math.MaxUint32)
	}
	if !ok {
		return 0, 0, v.bad("it is a number of 32 bits, alone or with a mask")
	}
	return uint32(a), uint32(b), nil
}

func newMark(Family) *builder {
	var m Mark
	return &builder{
		name: "mark",
		options: []option{{names: []string{"--mark"}, arity: oneValue, not: true, set: func(v value) (err error) {
			m.Value, m.Mask, err = v.mark()
			m.Not = v.not
			return err
		}}},
		required: "--mark",
		match:    func() Match { return m },
	}
}

// Name returns mark.
func (Mark) Name() string { return "mark" }

func (m Mark) String() string {
	text := fmt.Sprintf("--mark 0x%x", m.Value)
	if m.Mask != math.MaxUint32 {
		text += fmt.Sprintf("/0x%x", m.Mask)
	}
	return bang(m.Not, text)
}

func newComment(Family) *builder {
	var m Comment
	return &builder{
		name: "comment",
		options: []option{{names: []string{"--comment"}, arity: oneValue, set: func(v value) (err error) {
			m.Text, err = v.line(255)
			return err
		}}},
		required: "--comment",
		match:    func() Match { return m },
	}
}

// Name returns comment.
func (Comment) Name() string { return "comment" }

func (m Comment) String() string { return "--comment " + quoted(m.Text) }

func newOwner(Family) *builder {
	var m Owner
	b := &builder{name: "owner"}
	id := func(to **Range, name string, lookUp func(string) (string, error)) option {
		return option{names: []string{name}, arity: oneValue, not: true, set: func(v value) error {
			r, err := ids(v, lookUp)
			*to = &r
			return err
		}}
	}
	b.options = []option{
		id(&m.UID, "--uid-owner", func(name string) (string, error) {
			u, err := user.Lookup(name)
			if err != nil {
				return "", err
			}
			return u.Uid, nil
		}),
		id(&m.GID, "--gid-owner", func(name string) (string, error) {
			g, err := user.LookupGroup(name)
			if err != nil {
				return "", err
			}
			return g.Gid, nil
		}),
		{names: []string{"--suppl-groups"}, set: func(v value) error {
			if m.SupplGroups = true; m.GID == nil {
				return fmt.Errorf("%s must follow --gid-owner", v.option)
			}
			return nil
		}},
		{names: []string{"--socket-exists"}, not: true, set: func(v value) error {
			m.SocketExists, m.SocketNot = true, v.not
			return nil
		}},
	}
	b.finish = func(c *context) error {
		if len(b.seen) == 0 {
			return errors.New("--uid-owner, --gid-owner or --socket-exists must be specified")
		}
		return c.only("the match", "OUTPUT", "POSTROUTING")
	}
	b.match = func() Match { return m }
	return b
}

// ids reads a user or group: a name, a number, or FIRST-LAST.
func ids(v value, lookUp func(string) (string, error)) (r Range, err error) {
	const last = math.MaxUint32 - 1
	text := v.text
	if r.Not = v.not; text != "" && (text[0] < '0' || text[0] > '9') {
		if text, err = lookUp(text); err != nil {
			return r, v.bad("there is no such user or group")
		}
	}
	low, high, ranged := strings.Cut(text, "-")
	a, ok := number(low, last)
	b := a
	if ranged && ok {
		b, ok = number(high, last)
	}
	if !ok || a > b {
		return r, v.bad("it is a name, a number, or FIRST-LAST")
	}
	r.First, r.Last = uint32(a), uint32(b)
	return r, nil
}

// Name returns owner.
func (Owner) Name() string { return "owner" }

func (m Owner) String() string {
	id := func(name string, r *Range) string {
		if r == nil {
			return ""
		}
		return bang(r.Not, name+" "+strings.Replace(r.text(), ":", "-", 1))
	}
	return joined(when(m.SocketExists, bang(m.SocketNot, "--socket-exists")), id("--uid-owner", m.UID),
		id("--gid-owner", m.GID), when(m.SupplGroups, "--suppl-groups"))
}

func (Mark) match()    {}
func (Comment) match() {}
func (Owner) match()   {}

// itoa prints a number.
func itoa[T ~uint8 | ~uint16 | ~uint32](n T) string { return strconv.FormatUint(uint64(n), 10) }
