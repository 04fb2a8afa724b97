// SPDX-License-Identifier: Apache-2.0

// Package output collects the output of a process or a logger, for a test that reads it concurrently.
package output

import (
	"bytes"
	"sync"
)

// Buffer contains the output so far. The zero value is empty; any goroutine may write and read.
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

// String returns the output so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
