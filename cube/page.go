// SPDX-License-Identifier: Apache-2.0

package cube

// State may be large: the sessions of a NAT are a million. A list that the model marks `paged` is read in pages, each of
// which costs what it shows, and never as a whole.

import (
	"encoding/json"
)

// PageQuery says which part of a list is wanted.
type PageQuery struct {
	// After is the Next of the page before, "" for the first page.
	After string
	// Limit is how many entries there may be, at least 1.
	Limit int
	// Matches leaves entries out; nil takes all.
	Matches func(entry json.RawMessage) bool
}

// Page is a part of a list.
type Page struct {
	// Entries are objects of the model.
	Entries []json.RawMessage
	// Next is the After of the page behind this one, "" when there is none. It is text without spaces, that goes into
	// addresses and command lines.
	Next string
}
