// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"strings"
	"sync"
)

// Texts is a small set of texts: most of many entries refer to the same ones, and a query of libyang takes a
// microsecond.
type Texts struct {
	mu  sync.Mutex
	set map[string]bool
}

// Limits of the set: when full it is cleared, and long texts are not kept, because clients control them.
const (
	maxTexts = 1024
	maxText  = 64 // bytes
)

// Has reports whether the set has a text.
func (t *Texts) Has(text string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.set[text]
}

// Add adds a text, if it is short.
func (t *Texts) Add(text string) {
	if len(text) > maxText {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.set == nil || len(t.set) >= maxTexts {
		t.set = map[string]bool{}
	}
	t.set[strings.Clone(text)] = true
}
