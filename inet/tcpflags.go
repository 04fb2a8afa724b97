// SPDX-License-Identifier: Apache-2.0

package inet

// TCP flags (RFC 9293).

import (
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
)

// The flags of a TCP segment: bits of the 14th byte of its header.
const (
	FIN uint8 = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
	ECE
	CWR
)

// flagNames are the names of the bits, the lowest first.
var flagNames = []string{"FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"}

// TCPFlags are the flags that a rule compares: the type `tcp-flags-match`. A flag in Mask must be as in Value.
type TCPFlags struct{ Value, Mask uint8 }

// UnmarshalText parses comma-separated flags; one after a ! must be 0: SYN,!ACK.
func (f *TCPFlags) UnmarshalText(text []byte) error {
	var is TCPFlags
	for word := range strings.SplitSeq(string(text), ",") {
		name, clear := strings.CutPrefix(word, "!")
		bit := flag(name)
		if bit == 0 {
			return fmt.Errorf("TCP flags %q: %w", text, cube.ErrInvalid)
		}
		if is.Mask&bit != 0 {
			return fmt.Errorf("TCP flags %q: %s is given twice: %w", text, name, cube.ErrInvalid)
		}
		is.Mask |= bit
		if !clear {
			is.Value |= bit
		}
	}
	*f = is
	return nil
}

// flag returns the bit of a flag, 0 if there is none of that name.
func flag(name string) uint8 {
	for i, known := range flagNames {
		if known == name {
			return 1 << i
		}
	}
	return 0
}

// String returns the form of the models, the lowest bit first.
func (f TCPFlags) String() string {
	var words []string
	for i, name := range flagNames {
		switch bit := uint8(1) << i; {
		case f.Mask&bit == 0:
		case f.Value&bit != 0:
			words = append(words, name)
		default:
			words = append(words, "!"+name)
		}
	}
	return strings.Join(words, ",")
}

// MarshalText returns the form in models.
func (f TCPFlags) MarshalText() ([]byte, error) { return []byte(f.String()), nil }
