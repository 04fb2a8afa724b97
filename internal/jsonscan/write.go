// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"unicode/utf8"
)

// Writer writes an object whose values are text already.
type Writer struct{ buf []byte }

// NewWriter returns a writer for an object of about size bytes.
func NewWriter(size int) *Writer { return &Writer{buf: make([]byte, 0, size)} }

// Add adds a member. A nil value adds nothing.
func (w *Writer) Add(name string, value []byte) {
	if value == nil {
		return
	}
	w.buf = append(AppendString(append(w.buf, w.separator()), name), ':')
	w.buf = append(w.buf, value...)
}

// Extend adds the members of an object.
func (w *Writer) Extend(object []byte) {
	members := bytes.TrimSuffix(bytes.TrimPrefix(object, []byte("{")), []byte("}"))
	if len(members) == 0 {
		return
	}
	w.buf = append(append(w.buf, w.separator()), members...)
}

func (w *Writer) separator() byte {
	if len(w.buf) == 0 {
		return '{'
	}
	return ','
}

// Bytes is the object. Nothing is added after that.
func (w *Writer) Bytes() []byte {
	if len(w.buf) == 0 {
		return []byte("{}")
	}
	return append(w.buf, '}')
}

// AppendString appends a JSON string without the escapes that only HTML needs.
func AppendString(buf []byte, s string) []byte {
	const hex = "0123456789abcdef"
	buf = append(buf, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			buf = append(buf, '\\', byte(r))
		case r == '\n':
			buf = append(buf, '\\', 'n')
		case r == '\t':
			buf = append(buf, '\\', 't')
		case r == '\r':
			buf = append(buf, '\\', 'r')
		case r < ' ':
			buf = append(buf, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			buf = utf8.AppendRune(buf, r)
		}
	}
	return append(buf, '"')
}
