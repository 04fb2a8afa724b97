// SPDX-License-Identifier: Apache-2.0

package language

// The match on bytes of the packet.

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// maxPattern is the longest pattern that is accepted. iptables accepts 128 bytes.
const maxPattern = 64

// String is -m string: a packet that contains the pattern.
type String struct {
	Pattern string
	// Algo is bm or kmp.
	Algo string
	// From and To are offsets from the network header: where a match begins at the earliest, and where it must have
	// ended. To is 65535 if it was not given.
	From, To uint16
	// IgnoreCase compares letters without regard to case.
	IgnoreCase bool
	Not        bool
}

func newString(Family) *builder {
	m := String{To: 65535}
	b := &builder{name: "string", required: "--algo"}
	offset := func(to *uint16, name string) option {
		return option{names: []string{name}, arity: oneValue, set: func(v value) error {
			n, err := v.numberOf(0, 65535)
			*to = uint16(n)
			return err
		}}
	}
	b.options = []option{
		{names: []string{"--string"}, arity: oneValue, not: true, literal: true, excludes: []string{"--hex-string"},
			set: func(v value) error { m.Pattern, m.Not = v.text, v.not; return nil }},
		{names: []string{"--hex-string"}, arity: oneValue, not: true, literal: true, excludes: []string{"--string"},
			set: func(v value) (err error) {
				m.Not = v.not
				m.Pattern, err = hexPattern(v.text)
				return err
			}},
		{names: []string{"--algo"}, arity: oneValue, set: func(v value) error {
			if m.Algo = v.text; m.Algo != "bm" && m.Algo != "kmp" {
				return v.bad("it is bm or kmp")
			}
			return nil
		}},
		offset(&m.From, "--from"), offset(&m.To, "--to"), flag(&m.IgnoreCase, "--icase"),
	}
	b.finish = func(*context) error {
		switch {
		case !b.has("--string", "--hex-string"):
			return errors.New("--string or --hex-string must be specified")
		case m.Pattern == "" || len(m.Pattern) > maxPattern:
			return fmt.Errorf("the pattern must have 1 to %d bytes", maxPattern)
		case m.From > m.To:
			return errors.New("--from must not be above --to")
		}
		return nil
	}
	b.match = func() Match { return m }
	return b
}

// hexPattern reads text with blocks of hexadecimal digits between bars. A backslash takes the next byte as it is.
func hexPattern(text string) (string, error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			if i++; i == len(text) {
				return "", errors.New("bad --hex-string: it ends with a backslash")
			}
			out.WriteByte(text[i])
		case '|':
			length := strings.IndexByte(text[i+1:], '|')
			if length < 0 {
				return "", errors.New("bad --hex-string: a block of digits has no end")
			}
			block := text[i+1 : i+1+length]
			raw, err := hexBlock(block)
			if err != nil {
				return "", err
			}
			out.Write(raw)
			i += length + 1
		default:
			out.WriteByte(text[i])
		}
	}
	return out.String(), nil
}

// hexBlock reads pairs of digits, which spaces may separate.
func hexBlock(block string) (out []byte, err error) {
	for _, digits := range strings.Fields(block) {
		raw, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("bad --hex-string: %q are not pairs of hexadecimal digits", digits)
		}
		out = append(out, raw...)
	}
	if out == nil {
		return nil, errors.New("bad --hex-string: an empty block of digits")
	}
	return out, nil
}

// Name returns string.
func (String) Name() string { return "string" }

func (m String) String() string {
	text := `--string "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(m.Pattern) + `"`
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.IndexFunc(m.Pattern, unprintable) >= 0 || strings.HasSuffix(m.Pattern, `\`) {
		text = `--hex-string "|` + hex.EncodeToString([]byte(m.Pattern)) + `|"`
	}
	return joined(bang(m.Not, text), "--algo "+m.Algo, when(m.From != 0, "--from "+itoa(m.From)),
		when(m.To != 65535, "--to "+itoa(m.To)), when(m.IgnoreCase, "--icase"))
}

func (String) match() {}
