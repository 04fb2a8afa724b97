// SPDX-License-Identifier: Apache-2.0

package inet

// ICMP messages and EtherTypes that rules match.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// ICMPMatch is a type of ICMP, and a range of codes, all of them if the model names none: the type `icmp-match`.
type ICMPMatch struct{ Type, FirstCode, LastCode uint8 }

// UnmarshalJSON parses a type, or TYPE/CODE.
func (i *ICMPMatch) UnmarshalJSON(data []byte) error {
	kind, code, some := strings.Cut(string(bytes.Trim(data, `"`)), "/")
	number, err := strconv.ParseUint(kind, 10, 8)
	is := ICMPMatch{Type: uint8(number), LastCode: 255}
	if some && err == nil {
		number, err = strconv.ParseUint(code, 10, 8)
		is.FirstCode, is.LastCode = uint8(number), uint8(number)
	}
	if err != nil {
		return fmt.Errorf("ICMP type %s: %w", data, cube.ErrInvalid)
	}
	*i = is
	return nil
}

// String returns the form of the models.
func (i ICMPMatch) String() string {
	if i.FirstCode != i.LastCode {
		return strconv.Itoa(int(i.Type))
	}
	return fmt.Sprintf("%d/%d", i.Type, i.FirstCode)
}

// EtherType is the type of a frame: the type `ethertype-match`.
type EtherType uint16

// UnmarshalText parses hexadecimal digits after 0x.
func (e *EtherType) UnmarshalText(text []byte) error {
	number, err := strconv.ParseUint(strings.TrimPrefix(string(text), "0x"), 16, 16)
	if err != nil {
		return fmt.Errorf("EtherType %q: %w", text, cube.ErrInvalid)
	}
	*e = EtherType(number)
	return nil
}

// String returns the form of the models.
func (e EtherType) String() string { return fmt.Sprintf("0x%04x", uint16(e)) }
