// SPDX-License-Identifier: Apache-2.0

// Package output keeps what a process or a logger writes, for a test that reads it meanwhile.
package output

import (
	"bytes"
	"sync"
)

// Buffer holds what was written so far. The zero value is empty; any goroutine may write and read.
type Buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer; it never fails.
func (b *Buffer) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(text)
}

// String returns what was written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
