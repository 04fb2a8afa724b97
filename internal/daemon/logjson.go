// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"unicode/utf8"
)

// jsonHandler writes records as JSON, one object per line: time, level, msg, service and cube for a cube's line, and
// the other attributes. As with lines, cubes' loggers have their own level and are not filtered here.
type jsonHandler struct {
	slog.Handler
	level slog.Leveler
	cube  bool
}

func newJSONHandler(out io.Writer, level slog.Leveler) *jsonHandler {
	replace := func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) > 0 {
			return a
		}
		switch l, ok := a.Value.Any().(slog.Level); {
		case a.Key == slog.LevelKey && ok:
			return slog.String(slog.LevelKey, levelName(l))
		case a.Value.Kind() == slog.KindAny:
			if err, ok := a.Value.Any().(error); ok {
				return slog.String(a.Key, err.Error())
			}
		}
		return a
	}
	return &jsonHandler{Handler: slog.NewJSONHandler(plainWriter{out}, &slog.HandlerOptions{Level: levelTrace, ReplaceAttr: replace}), level: level}
}

// Enabled implements slog.Handler.
func (h *jsonHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.cube || l >= h.level.Level() && h.level.Level() < levelOff
}

// WithAttrs implements slog.Handler.
func (h *jsonHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var service, cube bool
	for _, a := range attrs {
		service, cube = service || a.Key == "service", cube || a.Key == "cube"
	}
	return &jsonHandler{h.Handler.WithAttrs(attrs), h.level, h.cube || service && cube}
}

// WithGroup implements slog.Handler.
func (h *jsonHandler) WithGroup(name string) slog.Handler {
	return &jsonHandler{h.Handler.WithGroup(name), h.level, h.cube}
}

// plainWriter escapes control characters that JSON allows unescaped but terminals interpret.
type plainWriter struct{ to io.Writer }

// Write writes one line.
func (w plainWriter) Write(line []byte) (int, error) {
	odd := func(r rune) bool { return r >= 0x7f && r < 0xa0 }
	if !bytes.ContainsFunc(line, odd) {
		return w.to.Write(line)
	}
	var b bytes.Buffer
	for rest := line; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		if odd(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.Write(rest[:n])
		}
		rest = rest[n:]
	}
	if _, err := w.to.Write(b.Bytes()); err != nil {
		return 0, fmt.Errorf("write the log: %w", err)
	}
	return len(line), nil
}
