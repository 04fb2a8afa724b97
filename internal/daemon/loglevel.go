// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"fmt"
	"log/slog"
	"strings"
)

// Levels beyond those of slog.
const (
	levelTrace    = slog.LevelDebug - 4
	levelCritical = slog.LevelError + 4
	levelOff      = slog.LevelError + 100
)

// levels are their names, as in the models.
var levels = []struct {
	name  string
	level slog.Level
}{
	{"TRACE", levelTrace}, {"DEBUG", slog.LevelDebug}, {"INFO", slog.LevelInfo}, {"WARN", slog.LevelWarn}, {"ERR", slog.LevelError},
	{"CRITICAL", levelCritical}, {"OFF", levelOff},
}

// parseLevel parses the option loglevel.
func parseLevel(s string) (slog.Level, error) {
	name := strings.ToUpper(s)
	switch name {
	case "WARNING":
		name = "WARN"
	case "ERROR":
		name = "ERR"
	}
	for _, l := range levels {
		if l.name == name {
			return l.level, nil
		}
	}
	return 0, fmt.Errorf("loglevel %.40q: must be one of trace, debug, info, warn, err, critical and off", s)
}

// levelName is the reverse, for lines.
func levelName(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "trace"
	case l < slog.LevelInfo:
		return "debug"
	case l < slog.LevelWarn:
		return "info"
	case l < slog.LevelError:
		return "warning"
	case l < levelCritical:
		return "error"
	}
	return "critical"
}

// daemonLevel is the daemon's own level, which can change at run time.
type daemonLevel struct{ slog.LevelVar }

func newDaemonLevel(l slog.Level) *daemonLevel {
	d := &daemonLevel{}
	d.Set(l)
	return d
}

// name is the name of the current level.
func (d *daemonLevel) name() string {
	for _, l := range levels {
		if l.level == d.LevelVar.Level() {
			return l.name
		}
	}
	return levels[len(levels)-1].name
}

// namedLevel shows a level by its name; it implements observe.LogLevel.
type namedLevel struct{ *daemonLevel }

// Level is the level's name.
func (n namedLevel) Level() string { return n.name() }

// SetLevel changes it.
func (n namedLevel) SetLevel(name string) error {
	l, err := parseLevel(name)
	if err == nil {
		n.Set(l)
	}
	return err
}
