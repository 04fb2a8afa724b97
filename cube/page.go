// SPDX-License-Identifier: Apache-2.0

package cube

// State may be large: a NAT may have a million sessions. A list that the model marks `paged` is read in pages, whose
// cost depends on their own size, and never as a whole.

import (
	"encoding/json"
)

// PageQuery selects a part of a list.
type PageQuery struct {
	// After is the Next of the previous page, "" for the first page.
	After string
	// Limit is the maximum number of entries, at least 1.
	Limit int
	// Matches filters entries; nil accepts all.
	Matches func(entry json.RawMessage) bool
}

// Page is a part of a list.
type Page struct {
	// Entries are objects of the model.
	Entries []json.RawMessage
	// Next is the After of the next page, "" if there is none. It is text without spaces, for use in URLs and
	// command lines.
	Next string
}
