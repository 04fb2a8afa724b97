// SPDX-License-Identifier: Apache-2.0

package health

// The state of a server, as callers see it.

import (
	"time"

	"github.com/polycube/polycube/cube"
)

// Status says whether a server can be used: the enum `status` of polycube-health.
type Status uint32

// The values of Status.
const (
	// Unknown is before the first result, unless Check.Initial is another status.
	Unknown Status = iota
	Up
	Down
)

var statusNames = []string{"UNKNOWN", "UP", "DOWN"}

// String returns the name in models.
func (s Status) String() string { return nameOf(statusNames, int(s)) }

// MarshalText returns the name in models.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses the name in models.
func (s *Status) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Status]("status", text, statusNames...)
	return err
}

func nameOf(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "?"
}

// State is what is known of a server.
type State struct {
	Status Status
	// Since is when Status became what it is.
	Since time.Time
	// Error says why the last check failed, or could not be made; empty if it succeeded.
	Error string
	// Latency is the time from the start of the last successful check to the answer.
	Latency time.Duration
	// Checked is when the last result arrived; zero before the first.
	Checked time.Time
	// Checks and Failed count the results, and those that were failures.
	Checks, Failed uint64
}

// judge counts results in a row.
type judge struct {
	status Status
	// decided says that there was a result, here or before (Check.Known): the first one counts at once.
	decided bool
	// streak is the number of results in a row that contradict status.
	streak int
}

// result adds a result and reports whether it changes the status.
func (j *judge) result(ok bool, rise, fall int) (changed bool) {
	is, need := Down, fall
	if ok {
		is, need = Up, rise
	}
	if j.status == is {
		j.decided, j.streak = true, 0
		return false
	}
	j.streak++
	if j.decided && j.streak < need {
		return false
	}
	j.status, j.decided, j.streak = is, true, 0
	return true
}
