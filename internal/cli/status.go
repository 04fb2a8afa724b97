// SPDX-License-Identifier: Apache-2.0

// The health of the daemon and its cubes on one screen, and as one line with an exit status for monitoring systems.

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/suggest"
)

// planDaemon is the generic plan, with show as the default.
func planDaemon(c command) (plan, error) {
	if c.verb == verbNone && len(c.pairs) == 0 {
		c.verb = verbShow
	}
	if c.verb != verbShow && c.verb != verbSet {
		return plan{}, usagef("daemon takes show or set, not %q", c.verb)
	}
	return genericPlan(c, true)
}

// checkStatuses are the exit statuses of status --check.
var checkStatuses = map[string]Exit{"ok": ExitOK, "warning": ExitWarning, "critical": ExitCritical}

// health is the daemon's response.
type health struct {
	Status   string
	Troubles []struct{ Severity, Where, What, Remedy string }
	More     int `json:"more-troubles"`
	Daemon   struct {
		Version, Instance, Kernel, Loglevel string
		Pid                                 int
		Uptime                              int64  `json:"uptime-seconds"`
		Memory                              uint64 `json:"memory-bytes"`
	}
	Cubes struct {
		Revision                      uint64
		Total, Degraded, Broken, Held int
	}
	Ports    struct{ Total, Up, Down, Free int }
	Programs struct {
		Total, Inline, Call int
		Reasons             []struct {
			Cube   string
			Cubes  int
			Reason string
		}
	}
	SlowPath struct {
		Packets     uint64
		RingBytes   uint64 `json:"ring-bytes"`
		RingUsed    uint64 `json:"ring-used-bytes"`
		Waiting     int
		Shed        uint64
		ShedByCubes uint64 `json:"shed-by-cubes"`
	} `json:"slow-path"`
	Drops []struct {
		Cube, Reason string
		PerSecond    uint64 `json:"per-second"`
	}
	Store *struct {
		JournalBytes   int64      `json:"journal-bytes"`
		JournalRecords int        `json:"journal-records"`
		StateBytes     int64      `json:"state-bytes"`
		LastSnapshot   *time.Time `json:"last-snapshot"`
	}
	Services []struct {
		Name  string
		Cubes int
	}
}

// health executes the command status.
func (s *session) health(words []string) error {
	check, raw := false, false
	for _, w := range words {
		switch w {
		case "--check":
			check = true
		case "-json":
			raw = true
		case "show":
		default:
			return &usageError{message: fmt.Sprintf("status: unknown word %q%s", w, suggest.Question(suggest.Near(w, append(flagsOf("status"), "show")))), usage: aliases["status"].Usage}
		}
	}
	body, err := s.fetch(request{method: "GET", path: []string{"status"}})
	var h health
	if err == nil {
		if e := json.Unmarshal(body, &h); e != nil {
			err = fmt.Errorf("cannot parse the daemon's response: %w", e)
		} else if _, known := checkStatuses[h.Status]; check && !known {
			err = fmt.Errorf("cannot parse the daemon's response: its status is %q", h.Status)
		}
	}
	switch {
	case check && err != nil:
		// Always one line on standard output, whatever happened.
		if e := s.put("POLYCUBE UNKNOWN - " + output.Clean(err.Error())); e != nil {
			return e
		}
		return &exitError{code: exitOf(err)}
	case err != nil:
		return err
	case raw:
		err = output.Print(s.stdout, body, output.Options{Form: output.FormJSON}, false)
	case check:
		err = s.put(h.line())
	default:
		err = h.screen(s)
	}
	if err != nil || !check {
		return err
	}
	if code := checkStatuses[h.Status]; code != ExitOK {
		return &exitError{code: code}
	}
	return nil
}

// fetch is demand for callers that need only the body.
func (s *session) fetch(r request) ([]byte, error) {
	a, err := s.demand(r)
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// line is the health in the format of monitoring plug-ins.
func (h *health) line() string {
	text := fmt.Sprintf("%d cubes, %d of %d ports up", h.Cubes.Total, h.Ports.Up, h.Ports.Total)
	if len(h.Troubles) > 0 {
		text = h.Troubles[0].Where + " " + h.Troubles[0].What
		if more := len(h.Troubles) - 1 + h.More; more > 0 {
			text += fmt.Sprintf(" (and %d more)", more)
		}
	}
	text = strings.ReplaceAll(output.Clean(text), "|", "/") // what is behind a bar is figures
	return fmt.Sprintf("POLYCUBE %s - %s | cubes=%d degraded=%d broken=%d ports=%d up=%d down=%d", output.Clean(strings.ToUpper(h.Status)), text,
		h.Cubes.Total, h.Cubes.Degraded, h.Cubes.Broken, h.Ports.Total, h.Ports.Up, h.Ports.Down)
}

// screen prints the health for people.
func (h *health) screen(s *session) error {
	t := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t%s\n", name, output.Clean(fmt.Sprintf(format, args...)))
	}
	name := h.Daemon.Version
	if h.Daemon.Instance != "" {
		name += ", instance " + h.Daemon.Instance
	}
	row("status", "%s", h.Status)
	row("daemon", "%s, pid %d, up %s, %s, kernel %s, loglevel %s", name, h.Daemon.Pid, time.Duration(h.Daemon.Uptime)*time.Second,
		size(h.Daemon.Memory), h.Daemon.Kernel, h.Daemon.Loglevel)
	row("cubes", "%d%s, revision %d", h.Cubes.Total, h.services(), h.Cubes.Revision)
	if h.Cubes.Degraded+h.Cubes.Broken > 0 {
		row("", "%d degraded, %d broken (%d of these still forward)", h.Cubes.Degraded, h.Cubes.Broken, h.Cubes.Held)
	}
	row("ports", "%d: %d up, %d down, %d without a peer", h.Ports.Total, h.Ports.Up, h.Ports.Down, h.Ports.Free)
	row("programs", "%d: %d inline, %d in call mode", h.Programs.Total, h.Programs.Inline, h.Programs.Call)
	for _, p := range h.Programs.Reasons {
		row("", "%s (%d cubes) in call mode: %s", p.Cube, p.Cubes, p.Reason)
	}
	row("slow path", "%d packets, ring %s of %s, %d waiting, %d shed", h.SlowPath.Packets, size(h.SlowPath.RingUsed), size(h.SlowPath.RingBytes),
		h.SlowPath.Waiting, h.SlowPath.Shed+h.SlowPath.ShedByCubes)
	if len(h.Drops) == 0 {
		row("drops", "none recently")
	}
	for i, d := range h.Drops {
		row([]string{"drops", ""}[min(i, 1)], "%s %s: %d per second", d.Cube, d.Reason, d.PerSecond)
	}
	if h.Store != nil {
		snapshot := "none since the start"
		if h.Store.LastSnapshot != nil {
			snapshot = h.Store.LastSnapshot.Local().Format(time.DateTime)
		}
		row("store", "%s, journal %s in %d records, last snapshot %s", size(uint64(max(0, h.Store.StateBytes))),
			size(uint64(max(0, h.Store.JournalBytes))), h.Store.JournalRecords, snapshot)
	}
	if err := t.Flush(); err != nil {
		return writeError("write the output", err)
	}
	return h.troubles(s)
}

// troubles prints the problems, each with its remedy below.
func (h *health) troubles(s *session) error {
	if len(h.Troubles) == 0 {
		return nil
	}
	var errs []error
	say := func(format string, args ...any) {
		_, err := s.stdout.WriteString(output.Clean(fmt.Sprintf(format, args...)) + "\n")
		errs = append(errs, err)
	}
	say("")
	for _, x := range h.Troubles {
		say("%s: %s: %s", x.Severity, x.Where, x.What)
		if x.Remedy != "" {
			say("  %s", x.Remedy)
		}
	}
	if h.More > 0 {
		say("and %d more", h.More)
	}
	return errors.Join(errs...)
}

// services are the numbers of cubes by service.
func (h *health) services() string {
	var parts []string
	for _, v := range h.Services {
		parts = append(parts, fmt.Sprintf("%d %s", v.Cubes, v.Name))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// size is a number of bytes for people.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d B", n)
}
