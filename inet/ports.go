// SPDX-License-Identifier: Apache-2.0

package inet

// Ports of transport protocols.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Ports is a range of ports, both ends included: the type `port-match`.
type Ports struct{ First, Last uint16 }

// UnmarshalJSON parses a port, or the first and the last of a range.
func (p *Ports) UnmarshalJSON(data []byte) error {
	first, last, ok := strings.Cut(string(bytes.Trim(data, `"`)), "-")
	if !ok {
		last = first
	}
	var is Ports
	for _, part := range []struct {
		text string
		into *uint16
	}{{first, &is.First}, {last, &is.Last}} {
		number, ok := ParsePort(part.text)
		if !ok {
			return fmt.Errorf("ports %s: %w", data, cube.ErrInvalid)
		}
		*part.into = number
	}
	if is.First > is.Last {
		return fmt.Errorf("ports %s: the first port is greater than the last: %w", data, cube.ErrInvalid)
	}
	*p = is
	return nil
}

// String returns the form of the models: a port, or FIRST-LAST.
func (p Ports) String() string {
	if p.First == p.Last {
		return strconv.Itoa(int(p.First))
	}
	return fmt.Sprintf("%d-%d", p.First, p.Last)
}

// ParsePort parses a decimal port.
func ParsePort(text string) (port uint16, ok bool) {
	number, err := strconv.ParseUint(text, 10, 16)
	return uint16(number), err == nil
}
