// SPDX-License-Identifier: Apache-2.0

// Package bulk keeps the entries of large lists of a configuration: those that the model marks `bulk`. Each list has a
// table, or one for each entry of the lists above it. Entries are text; package yang checks them.
package bulk

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// Entry is an entry of a list. It is never changed.
type Entry struct {
	// Keys are the keys in canonical form, in model order.
	Keys []string
	// Full and Saved are the entry as JSON with all members in model order: Full with defaults, Saved only with what
	// was set. They share memory if equal.
	Full, Saved string
	// Refs are what the leafrefs of the entry refer to, in the form of whoever makes the entry.
	Refs []string

	// order and serial are of an entry of a list of positions: see positions.go.
	order  uint32
	serial uint64
}

// Change is an entry that was added (Old is nil), removed (New is nil) or changed.
type Change struct {
	// At are the keys of the entry as users knew it when it was changed.
	At []string
	// Old and New have the keys under which they are stored.
	Old, New *Entry
}

// Moved reports whether the entry only got another key in the store: for users, nothing has changed.
func (c *Change) Moved() bool {
	return c.Old != nil && c.New != nil && c.Old.order != c.New.order
}

// Shown returns both versions as users know them.
func (c *Change) Shown() (was, is *Entry) {
	shown := func(e *Entry) *Entry {
		if at, ok := position(c.At); ok && e != nil && e.serial != 0 {
			return e.keyed(uint64(at))
		}
		return e
	}
	return shown(c.Old), shown(c.New)
}

// Identity is the same for all versions of an entry in a table, and different from those of the others.
func (e *Entry) Identity() string {
	if e.serial != 0 {
		return strconv.FormatUint(e.serial, 10)
	}
	return fmt.Sprintf("%q", e.Keys)
}

// serials numbers the entries of lists of positions.
var serials atomic.Uint64

// keyed returns the entry with another number as its only key, which is the first member of its text.
func (e *Entry) keyed(number uint64) *Entry {
	key := strconv.FormatUint(number, 10)
	if e.Keys[0] == key {
		return e
	}
	out := *e
	out.Keys = []string{key}
	out.Full = withKey(e.Full, key)
	out.Saved = out.Full
	if e.Saved != e.Full {
		out.Saved = withKey(e.Saved, key)
	}
	return &out
}

// withKey replaces the value of the first member of an object, which is a number.
func withKey(text, key string) string {
	from := strings.IndexByte(text, ':') + 1
	to := from + strings.IndexAny(text[from:], ",}")
	return text[:from] + key + text[to:]
}

// Same reports whether two versions of an entry have the same text.
func (e *Entry) Same(as *Entry) bool {
	return e.Full == as.Full && e.Saved == as.Saved && slices.Equal(e.Keys, as.Keys)
}
