// SPDX-License-Identifier: Apache-2.0

// Package moduletext checks the text of a YANG module before libyang parses it: whoever registers a service chooses it.
package moduletext

import (
	"errors"
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/fault"
)

// Limits of a module.
const (
	// Max is how long it may be, in bytes.
	Max      = 4 << 20
	maxDepth = 64
	// most is how much of it is checked at once, in bytes.
	most = 1 << 20
)

// Check limits size and nesting: libyang's parser recurses.
func Check(text string) error {
	if len(text) > Max {
		return fmt.Errorf("the module is longer than %d bytes", Max)
	}
	if err := checkBytes(text); err != nil {
		return err
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch rest := text[i:]; {
		case rest[0] == '{':
			depth++
			if depth > maxDepth {
				return fmt.Errorf("the module is nested deeper than %d statements", maxDepth)
			}
		case rest[0] == '}':
			depth--
		case rest[0] == '"' || rest[0] == '\'':
			i += quoted(rest)
		case strings.HasPrefix(rest, "//"):
			i += skipTo(rest, "\n")
		case strings.HasPrefix(rest, "/*"):
			i += skipTo(rest, "*/")
		}
	}
	return nil
}

// checkBytes refuses bytes that no YANG module contains.
func checkBytes(text string) error {
	for len(text) > 0 {
		n := min(len(text), most)
		if n < len(text) {
			for n > 0 && text[n]&0xc0 == 0x80 {
				n--
			}
			if n == 0 {
				return errors.New("is not valid UTF-8")
			}
		}
		if err := fault.Text(text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// quoted returns the offset of the quote that ends the string at the start of text.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch {
		case text[0] == '"' && text[i] == '\\':
			i++
		case text[i] == text[0]:
			return i
		}
	}
	return len(text)
}

// skipTo returns the offset of the last byte of end in text.
func skipTo(text, end string) int {
	i := strings.Index(text, end)
	if i < 0 {
		return len(text)
	}
	return i + len(end) - 1
}
