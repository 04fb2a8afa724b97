// SPDX-License-Identifier: Apache-2.0

// Log lines of eBPF programs: they send a format and up to four integers, and are formatted here. Data from the fast
// path is not trusted: a line stays one line of printable text of limited length.

package slowpath

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"unicode"
)

// struct pcn_log_args: level, count, four arguments of 8 bytes, and the format, which ends with a zero byte or at the
// end of its array.
const (
	logArgsSize = 128
	logArgsMax  = 4
	logFormatAt = 40
	maxLogWidth = 32
)

var errLogSize = errors.New("its log arguments have the wrong size")

// formatLog formats struct pcn_log_args.
func formatLog(b []byte) (level uint32, line string, err error) {
	if len(b) != logArgsSize {
		return 0, "", errLogSize
	}
	e := binary.NativeEndian
	args := make([]uint64, min(e.Uint32(b[4:]), logArgsMax))
	for i := range args {
		args[i] = e.Uint64(b[8+8*i:])
	}
	format, _, _ := bytes.Cut(b[logFormatAt:], []byte{0})
	return e.Uint32(b), printable(expand(string(format), args)), nil
}

// expand replaces the conversions of a format like printf, and %I, %M and %P. A conversion that is unknown, or has no
// argument, is unchanged.
func expand(format string, args []uint64) string {
	var out strings.Builder
	for format != "" {
		text, rest, found := strings.Cut(format, "%")
		out.WriteString(text)
		if !found {
			break
		}
		c, n := parseConversion(rest)
		switch {
		case n > 0 && c.verb == '%':
			out.WriteByte('%')
		case n > 0 && len(args) > 0:
			out.WriteString(c.format(args[0]))
			args = args[1:]
		default:
			out.WriteByte('%')
			out.WriteString(rest[:n])
		}
		format = rest[n:]
	}
	return out.String()
}

// conversion is what follows a percent sign.
type conversion struct {
	left, zero bool
	width      int
	size       int // bytes of the integer
	verb       byte
}

// parseConversion parses a conversion and returns its length, 0 if it is none.
func parseConversion(s string) (c conversion, n int) {
	c.size = 4
	for ; n < len(s) && (s[n] == '-' || s[n] == '0'); n++ {
		c.left = c.left || s[n] == '-'
		c.zero = c.zero || s[n] == '0'
	}
	for ; n < len(s) && s[n] >= '0' && s[n] <= '9'; n++ {
		c.width = min(c.width*10+int(s[n]-'0'), maxLogWidth)
	}
	switch mod := s[n:]; {
	case strings.HasPrefix(mod, "ll"), strings.HasPrefix(mod, "hh"):
		c.size = map[byte]int{'l': 8, 'h': 1}[mod[0]]
		n += 2
	case strings.HasPrefix(mod, "l"), strings.HasPrefix(mod, "h"):
		c.size = map[byte]int{'l': 8, 'h': 2}[mod[0]]
		n++
	}
	if n == len(s) || !strings.Contains("diuxXIMP%", s[n:n+1]) {
		return c, 0
	}
	c.verb = s[n]
	return c, n + 1
}

// format converts an argument; addresses and ports are integers in network byte order.
func (c conversion) format(arg uint64) string {
	shift := 64 - 8*c.size
	unsigned, signed := arg<<shift>>shift, int64(arg<<shift)>>shift
	var wire [8]byte
	binary.NativeEndian.PutUint64(wire[:], arg)
	var s string
	switch c.verb {
	case 'd', 'i':
		s = strconv.FormatInt(signed, 10)
	case 'u':
		s = strconv.FormatUint(unsigned, 10)
	case 'x':
		s = strconv.FormatUint(unsigned, 16)
	case 'X':
		s = strings.ToUpper(strconv.FormatUint(unsigned, 16))
	case 'I':
		binary.NativeEndian.PutUint32(wire[:], uint32(arg))
		return c.pad(netip.AddrFrom4([4]byte(wire[:4])).String(), false)
	case 'M':
		return c.pad(net.HardwareAddr(wire[:6]).String(), false)
	case 'P':
		binary.NativeEndian.PutUint16(wire[:], uint16(arg))
		s = strconv.Itoa(int(binary.BigEndian.Uint16(wire[:])))
	}
	return c.pad(s, c.zero && !c.left)
}

func (c conversion) pad(s string, zero bool) string {
	switch {
	case c.left:
		return fmt.Sprintf("%-*s", c.width, s)
	case zero && len(s) < c.width:
		sign := ""
		if s[0] == '-' {
			sign, s = "-", s[1:]
		}
		return sign + strings.Repeat("0", c.width-len(sign)-len(s)) + s
	}
	return fmt.Sprintf("%*s", c.width, s)
}

// printable keeps a log readable, whatever a program put into its format.
func printable(s string) string {
	s = strings.TrimRight(s, "\r\n")
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}
