// SPDX-License-Identifier: Apache-2.0

// Formats against what printf makes of them.

package slowpath

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// logArgs makes struct pcn_log_args.
func logArgs(level uint32, format string, args ...uint64) []byte {
	b := make([]byte, logArgsSize)
	binary.NativeEndian.PutUint32(b, level)
	binary.NativeEndian.PutUint32(b[4:], uint32(len(args)))
	for i, a := range args {
		binary.NativeEndian.PutUint64(b[8+8*i:], a)
	}
	copy(b[logFormatAt:], format)
	return b
}

func TestLogFormats(t *testing.T) {
	minus := func(n int64) uint64 { return uint64(-n) }
	wire := func(b ...byte) uint64 {
		var w [8]byte
		copy(w[:], b)
		return binary.NativeEndian.Uint64(w[:])
	}
	for _, c := range []struct {
		format string
		args   []uint64
		want   string
	}{
		{"", nil, ""}, {"plain", nil, "plain"}, {"100%%", nil, "100%"}, {"%", nil, "%"}, {"a%", []uint64{1}, "a%"},
		{"%d %i", []uint64{minus(5), 0xfffffffe}, "-5 -2"}, {"%u", []uint64{minus(1)}, "4294967295"},
		{"%x %X", []uint64{0xbeef, 0xbeef}, "beef BEEF"}, {"%llu", []uint64{minus(1)}, "18446744073709551615"},
		{"%lld %ld", []uint64{minus(1), minus(2)}, "-1 -2"}, {"%hu %hhx", []uint64{0x12345, 0x1ff}, "9029 ff"},
		{"%5d|%-5d|%05d|%05d", []uint64{42, 42, 42, minus(42)}, "   42|42   |00042|-0042"}, {"%08x", []uint64{0xabc}, "00000abc"},
		{"%999999999999d", []uint64{1}, strings.Repeat(" ", maxLogWidth-1) + "1"},
		{"%I", []uint64{wire(10, 0, 255, 1)}, "10.0.255.1"}, {"%M", []uint64{wire(2, 0, 0, 0xab, 0xcd, 1)}, "02:00:00:ab:cd:01"},
		{"%P", []uint64{wire(0x1f, 0x90)}, "8080"}, {"%I:%P", []uint64{wire(1, 2, 3, 4), wire(0, 53)}, "1.2.3.4:53"},
		{"%d %d", []uint64{1}, "1 %d"}, {"%s %d", []uint64{7}, "%s 7"}, {"%n%p", []uint64{7, 8}, "%n%p"}, {"%lly", []uint64{1}, "%lly"},
		{"%%d", []uint64{1}, "%d"}, {"%d", []uint64{1, 2, 3, 4}, "1"}, {"end\n", nil, "end"}, {"a\nb\x1b[0m\xff", nil, "a?b?[0m?"},
	} {
		level, line, err := formatLog(logArgs(4, c.format, c.args...))
		if err != nil || level != 4 || line != c.want {
			t.Errorf("%q of %x: %q, %v, want %q", c.format, c.args, line, err, c.want)
		}
	}
}

func TestLogArgumentsOfTheWrongSizeAreRefused(t *testing.T) {
	for _, n := range []int{0, 1, logArgsSize - 1, logArgsSize + 1} {
		if _, line, err := formatLog(make([]byte, n)); err == nil {
			t.Errorf("%d bytes: %q", n, line)
		}
	}
}

func FuzzLogLine(f *testing.F) {
	f.Add(logArgs(1, "from %M on %d: %08llx %-5I", 1, 2, 3, 4))
	many := logArgs(1, strings.Repeat("%32d", 22))
	binary.NativeEndian.PutUint32(many[4:], 1<<31)
	f.Add(many)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, line, err := formatLog(b)
		if (err == nil) != (len(b) == logArgsSize) {
			t.Fatalf("%d bytes: %v", len(b), err)
		}
		if !utf8.ValidString(line) || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("not printable: %q", line)
		}
		if n := utf8.RuneCountInString(line); n > 88+logArgsMax*maxLogWidth {
			t.Errorf("%d characters", n)
		}
	})
}
