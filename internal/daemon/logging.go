// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"time"
)

// Log lines have the format that scripts of the first Polycube split into fields:
//
//	[date time] [polycubed] [level] message key=value …
//	[date time] [Service] [cube] [level] message key=value …
//
// One record is one line whatever it contains: log text of a packet or a name from a request must not forge another
// line.

// lineHandler writes records as lines. Loggers with the attributes service and cube, as the topology creates them, are
// cubes' loggers: those have their own level and are not filtered here.
type lineHandler struct {
	out           *logFile
	level         slog.Leveler
	service, cube string
	group         string
	attrs         string
}

// Formats of the log.
const (
	logText = "text"
	logJSON = "json"
)

// newLogger creates the daemon's logger, of lines as above or of JSON.
func newLogger(out *logFile, level slog.Leveler, format string) *slog.Logger {
	if format == logJSON {
		return slog.New(newJSONHandler(out, level))
	}
	return slog.New(&lineHandler{out: out, level: level})
}

// Enabled implements slog.Handler.
func (h *lineHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.cube != "" || l >= h.level.Level() && h.level.Level() < levelOff
}

// WithAttrs implements slog.Handler.
func (h *lineHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	var service, cube string
	for _, a := range attrs {
		switch a.Key {
		case "service":
			service = a.Value.String()
		case "cube":
			cube = a.Value.String()
		}
	}
	var b strings.Builder
	for _, a := range attrs {
		if service != "" && cube != "" && h.group == "" && (a.Key == "service" || a.Key == "cube") {
			c.service, c.cube = service, cube
			continue
		}
		appendAttr(&b, h.group, a)
	}
	c.attrs += b.String()
	return &c
}

// WithGroup implements slog.Handler.
func (h *lineHandler) WithGroup(name string) slog.Handler {
	c := *h
	c.group += name + "."
	return &c
}

// Handle implements slog.Handler.
func (h *lineHandler) Handle(_ context.Context, r slog.Record) error {
	at := r.Time
	if at.IsZero() {
		at = time.Now()
	}
	var b strings.Builder
	b.WriteString(at.Format("[2006-01-02 15:04:05.000] "))
	if h.cube != "" {
		b.WriteString("[" + oneLine(h.service) + "] [" + oneLine(h.cube) + "] ")
	} else {
		b.WriteString("[polycubed] ")
	}
	b.WriteString("[" + levelName(r.Level) + "] " + oneLine(r.Message) + h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		appendAttr(&b, h.group, a)
		return true
	})
	b.WriteByte('\n')
	_, err := h.out.Write([]byte(b.String()))
	return err
}

// appendAttr writes " key=value", quoted if it would not be one word.
func appendAttr(b *strings.Builder, group string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		for _, inner := range v.Group() {
			appendAttr(b, group+a.Key+".", inner)
		}
		return
	}
	if a.Key == "" {
		return
	}
	text := v.String()
	if text == "" || strings.ContainsAny(text, " \"=") || oneLine(text) != text {
		text = strconv.Quote(text)
	}
	b.WriteString(" " + oneLine(group+a.Key) + "=" + text)
}

// oneLine escapes control characters.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, isControl) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if isControl(r) {
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func isControl(r rune) bool {
	return r < ' ' || (r >= 0x7f && r < 0xa0) || r == '\u2028' || r == '\u2029'
}
