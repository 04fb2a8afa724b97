// SPDX-License-Identifier: Apache-2.0

package simpleforwarder

// The configuration in Go, and the entry of the kernel's table.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// Config is the decoded configuration.
type Config struct {
	Ports   []cube.Port `json:"ports"`
	Actions []Entry     `json:"actions"`
}

// Entry of the list `actions`: what happens to packets from a port.
type Entry struct {
	Inport  string `json:"inport"`
	Action  Action `json:"action"`
	Outport string `json:"outport,omitempty"`
}

// Action is the leaf `action`; its values are those of enum simpleforwarder_action.
type Action uint16

// The actions. The zero value is for a port without an entry.
const (
	None Action = iota
	Drop
	Slowpath
	Forward
	// forwardNowhere is FORWARD without an outport; the model has no name for it.
	forwardNowhere
)

// UnmarshalText parses the model's name of an action.
func (a *Action) UnmarshalText(text []byte) error {
	known := map[string]Action{"DROP": Drop, "SLOWPATH": Slowpath, "FORWARD": Forward}
	value, ok := known[string(text)]
	if !ok {
		return fmt.Errorf("action %q: %w", text, cube.ErrInvalid)
	}
	*a = value
	return nil
}

// entry is struct simpleforwarder_entry of the program; a test compares the two.
type entry struct {
	Action  Action
	Outport uint16
}
