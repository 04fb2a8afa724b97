// SPDX-License-Identifier: Apache-2.0

// Package jsonscan reads JSON from left to right without decoding it. A body is decoded in one place, where the model
// is known; code before that needs only single members, and should not build and re-encode maps, which would lose the
// order of members, and one of two with the same name.
//
// A Scanner accepts exactly the JSON that encoding/json accepts, and Why returns encoding/json's error for other text.
package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// ErrSyntax is for text that is not JSON.
var ErrSyntax = errors.New("not JSON")

// MaxDepth limits the nesting for Skip, like encoding/json.
const MaxDepth = 10000

// Scanner scans one text.
type Scanner struct {
	text []byte
	at   int
	// names are those of members that were read, because the entries of a list have the same.
	names map[string]string
	// named is the position of the current member's name.
	named int
}

// New scans from the start of a text.
func New(text []byte) *Scanner { return &Scanner{text: text, names: map[string]string{}} }

// Peek is the next byte after spaces: the start of a value, a delimiter, or 0 at the end.
func (s *Scanner) Peek() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// End reports whether only spaces are left.
func (s *Scanner) End() bool { return s.Peek() == 0 && s.at >= len(s.text) }

// Object reads an object after Peek returned its bracket. member reads the value of a member; its error ends the
// reading.
func (s *Scanner) Object(member func(name string) error) error {
	return s.each('}', func() error {
		name, err := s.name()
		if err != nil {
			return err
		}
		return member(name)
	})
}

// Array reads an array after Peek returned its bracket. element reads an element; its error ends the reading.
func (s *Scanner) Array(element func() error) error { return s.each(']', element) }

// each reads from an opening bracket to the closing one.
func (s *Scanner) each(closing byte, read func() error) error {
	s.at++
	for first := true; ; first = false {
		c := s.Peek()
		if c == closing {
			s.at++
			return nil
		}
		if !first {
			if c != ',' {
				return ErrSyntax
			}
			if s.at++; s.Peek() == closing {
				return ErrSyntax
			}
		}
		if err := read(); err != nil {
			return err
		}
	}
}

// name reads the name of a member and the colon.
func (s *Scanner) name() (string, error) {
	if s.Peek() != '"' {
		return "", ErrSyntax
	}
	s.named = s.at
	text, err := s.content()
	if err != nil || s.Peek() != ':' {
		return "", ErrSyntax
	}
	s.at++
	name, known := s.names[string(text)]
	if !known {
		name = string(text)
		s.names[name] = name
	}
	return name, nil
}

// Text reads a string after Peek returned its quote.
func (s *Scanner) Text() (string, error) {
	text, err := s.content()
	return string(text), err
}

// content reads a string. The result may be a part of the text.
func (s *Scanner) content() ([]byte, error) {
	start, escaped := s.at, false
	for s.at++; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			if escaped || !utf8.Valid(s.text[start+1:s.at-1]) {
				var decoded string
				if json.Unmarshal(s.text[start:s.at], &decoded) != nil {
					return nil, ErrSyntax
				}
				return []byte(decoded), nil
			}
			return s.text[start+1 : s.at-1], nil
		case c < ' ':
			return nil, ErrSyntax
		case c == '\\':
			escaped = true
			s.at++
		}
	}
	return nil, ErrSyntax
}

// Literal reads a number, true, false or null as written.
func (s *Scanner) Literal() (string, error) {
	rest := s.text[s.at:]
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(rest, []byte(word)) {
			s.at += len(word)
			return word, nil
		}
	}
	n := number(rest)
	if n == 0 {
		return "", ErrSyntax
	}
	s.at += n
	return string(rest[:n]), nil
}

// number is the length of the number at the start of a text, 0 for none.
func number(text []byte) int {
	i := 0
	digits := func() bool {
		start := i
		for i < len(text) && '0' <= text[i] && text[i] <= '9' {
			i++
		}
		return i > start
	}
	take := func(chars string) bool {
		found := i < len(text) && bytes.IndexByte([]byte(chars), text[i]) >= 0
		if found {
			i++
		}
		return found
	}
	take("-")
	if !take("0") && !digits() {
		return 0
	}
	if take(".") && !digits() {
		return 0
	}
	if take("eE") {
		if take("+-"); !digits() {
			return 0
		}
	}
	return i
}

// Skip skips a value and returns its text.
func (s *Scanner) Skip() ([]byte, error) {
	s.Peek()
	start := s.at
	if err := s.skip(0); err != nil {
		return nil, err
	}
	return s.text[start:s.at], nil
}

func (s *Scanner) skip(depth int) error {
	c := s.Peek()
	if (c == '{' || c == '[') && depth == MaxDepth {
		return ErrSyntax
	}
	var err error
	switch c {
	case '"':
		_, err = s.content()
	case '{':
		err = s.Object(func(string) error { return s.skip(depth + 1) })
	case '[':
		err = s.Array(func() error { return s.skip(depth + 1) })
	default:
		_, err = s.Literal()
	}
	return err
}

// Why returns encoding/json's error for text that is not a JSON value.
func Why(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	for depth, ended := 0, false; ; ended = depth == 0 {
		token, err := dec.Token()
		switch {
		case ended && !errors.Is(err, io.EOF):
			return fmt.Errorf("unexpected text after the JSON value, at byte %d", dec.InputOffset())
		case errors.Is(err, io.EOF):
			return fmt.Errorf("the body is not JSON: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return fmt.Errorf("the body is not JSON: %w", err)
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
	}
}
