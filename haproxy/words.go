// SPDX-License-Identifier: Apache-2.0

package haproxy

// The words of a line: quotes, escapes and comments.

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxWords and maxLine are HAProxy's limits of a line (MAX_LINE_ARGS, LINESIZE).
	maxWords = 64
	maxLine  = 2048
)

// word is a word of a line.
type word struct {
	text     string
	variable bool // it has an environment variable, which is not expanded
}

// wordReader splits a line.
type wordReader struct {
	line    string
	at      int
	words   []word
	text    strings.Builder
	inside  bool // a word has begun
	depends bool // on a variable
	quote   byte // ' or ", or 0
}

// split returns the words of a line, without its comment.
func split(line string) ([]word, error) {
	switch {
	case len(line) >= maxLine:
		return nil, fmt.Errorf("the line is longer than %d bytes", maxLine-1)
	case strings.ContainsRune(line, 0):
		return nil, errors.New("the line has a NUL byte")
	}
	r := wordReader{line: strings.TrimSuffix(line, "\r")}
	for r.at < len(r.line) {
		done, err := r.next()
		if err != nil {
			return nil, err
		}
		if done {
			break
		}
	}
	if r.quote != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", r.quote)
	}
	r.end()
	if len(r.words) > maxWords {
		return nil, fmt.Errorf("the line has more than %d words", maxWords)
	}
	return r.words, nil
}

// next takes the next character; done says that the rest is a comment.
func (r *wordReader) next() (done bool, err error) {
	c := r.line[r.at]
	r.at++
	switch {
	case r.quote == '\'' && c != '\'':
		r.text.WriteByte(c)
	case c == '\\':
		return false, r.escape()
	case c == r.quote && c != 0:
		r.quote = 0
	case r.quote == 0 && (c == '\'' || c == '"'):
		r.quote, r.inside = c, true
	case r.quote == '"' && c == '$':
		r.depends, r.inside = true, true
		r.text.WriteByte(c)
	case r.quote == 0 && c == '#':
		return true, nil
	case r.quote == 0 && (c == ' ' || c == '\t'):
		r.end()
	default:
		r.inside = true
		r.text.WriteByte(c)
	}
	return false, nil
}

// escape takes what follows a backslash. Between double quotes, only some characters can be escaped.
func (r *wordReader) escape() error {
	r.inside = true
	if r.at == len(r.line) {
		return errors.New("the line ends with a backslash")
	}
	c := r.line[r.at]
	plain := map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', ' ': ' ', '#': '#', '\\': '\\', '\'': '\'', '"': '"'}
	is, known := plain[c]
	switch {
	case r.quote == '"' && c != '"' && c != '\\' && c != '$':
		r.text.WriteByte('\\')
	case c == 'x' && r.quote == 0:
		return r.hex()
	case known:
		r.text.WriteByte(is)
		r.at++
	case r.quote == '"':
		r.text.WriteByte(c)
		r.at++
	default:
		r.text.WriteByte('\\')
	}
	return nil
}

// hex takes the digits of \xHH.
func (r *wordReader) hex() error {
	if r.at+3 > len(r.line) {
		return errors.New(`\x needs two hexadecimal digits`)
	}
	n, err := strconv.ParseUint(r.line[r.at+1:r.at+3], 16, 8)
	if err != nil || n == 0 {
		return errors.New(`\x needs two hexadecimal digits that are not 00`)
	}
	r.text.WriteByte(byte(n))
	r.at += 3
	return nil
}

// end ends a word.
func (r *wordReader) end() {
	if r.inside {
		r.words = append(r.words, word{r.text.String(), r.depends})
	}
	r.text.Reset()
	r.inside, r.depends = false, false
}
