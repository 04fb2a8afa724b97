// SPDX-License-Identifier: Apache-2.0

package zone

// What else is known of sessions: their packets and bytes, and events.

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
)

// EventLimit is the maximum number of events of sessions of a cube per second.
const EventLimit = 100

// AboutSession is the kind of messages about sessions in programs that report packets, too: PCN_REPORT_KINDS.
const AboutSession = 2

// Records is the grouping `session-records`.
type Records struct {
	Accounting Switch `json:"accounting"`
	Events
}

// Events is the grouping `session-events`.
type Events struct {
	SessionEvents Switch `json:"session-events"`
}

// Switch is a leaf that is ON or OFF.
type Switch bool

// UnmarshalText parses the model's name.
func (s *Switch) UnmarshalText(text []byte) error {
	is, err := cube.Enum[uint32]("switch", text, "OFF", "ON")
	*s = is == 1
	return err
}

// Extras returns what a cube with a zone does with its sessions.
func (r *Records) Extras(shared Name) Extras {
	return Extras{Shared: shared, Accounting: bool(r.Accounting), Announced: bool(r.SessionEvents)}
}

// AddConstants adds the values of the program's constants.
func (r *Records) AddConstants(all map[string]any) error {
	all["accounting"] = bool(r.Accounting)
	return r.Events.AddConstants(all)
}

// AddConstants adds the values of the program's constants for events.
func (e *Events) AddConstants(all map[string]any) error {
	limit, err := bucket.New(EventLimit, time.Second, EventLimit)
	if err != nil {
		return fmt.Errorf("session-events: %w", err)
	}
	all["session_events"], all["session_event_limit"] = bool(e.SessionEvents), limit
	return nil
}
