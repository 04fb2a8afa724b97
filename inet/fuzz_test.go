// SPDX-License-Identifier: Apache-2.0

package inet

// Each parser either refuses a text with ErrInvalid, or parses it to a value whose own text parses to the same value.

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/polycube/polycube/cube"
)

// fuzz tests a parser, starting with the texts of both tables.
func fuzz[T comparable](f *testing.F, parse func(text string, into *T) error) {
	for _, tt := range texts {
		f.Add(tt.text)
	}
	for _, tt := range documents {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var got, back, none T
		if err := parse(text, &got); err != nil {
			if !errors.Is(err, cube.ErrInvalid) || got != none {
				t.Fatalf("%q: %v, and read as %v", text, err, got)
			}
			return
		}
		form := fmt.Sprint(got)
		if err := parse(form, &back); err != nil || back != got {
			t.Fatalf("%q is read as %v, and %q as %v, error %v", text, got, form, back, err)
		}
	})
}

// text is the parser of a type that parses texts, document that of one that parses JSON.
func text[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](text string, into *T) error {
	return P(into).UnmarshalText([]byte(text))
}

func document[T any, P interface {
	*T
	json.Unmarshaler
}](text string, into *T) error {
	return P(into).UnmarshalJSON([]byte(text))
}

func FuzzMAC(f *testing.F)       { fuzz(f, text[MAC]) }
func FuzzMACMatch(f *testing.F)  { fuzz(f, text[MACMatch]) }
func FuzzPrefix(f *testing.F)    { fuzz(f, text[Prefix]) }
func FuzzTCPFlags(f *testing.F)  { fuzz(f, text[TCPFlags]) }
func FuzzEtherType(f *testing.F) { fuzz(f, text[EtherType]) }
func FuzzICMPMatch(f *testing.F) { fuzz(f, document[ICMPMatch]) }
func FuzzPorts(f *testing.F)     { fuzz(f, document[Ports]) }
func FuzzProtocol(f *testing.F)  { fuzz(f, document[Protocol]) }
