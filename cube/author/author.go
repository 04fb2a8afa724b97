// SPDX-License-Identifier: Apache-2.0

// Package author lets a cube change its own configuration, and announce events.
package author

import (
	"fmt"

	"github.com/polycube/polycube/cube"
)

// Author is an Env whose cube does both. Those of external services do neither.
type Author interface {
	// EditLater makes edits of the cube's configuration, in a transaction of its own. It returns at once. Then wanted
	// is called, in turn with the functions of the instance and while no other change is made, and returns the edits;
	// none, if nothing is to change any more. done is called in turn with the result, unless the cube is deleted.
	EditLater(wanted func() ([]cube.Edit, error), done func(error))
	// Announce adds an event of type `cube`. state is one word, what a sentence.
	Announce(state, what string)
	// AnnounceSession adds an event of type `session`, likewise.
	AnnounceSession(state, what string)
}

// EditLater asks an Env to make edits; for one that cannot, done is called with an error that wraps cube.ErrUnsupported.
func EditLater(env cube.Env, wanted func() ([]cube.Edit, error), done func(error)) {
	if a, ok := env.(Author); ok {
		a.EditLater(wanted, done)
		return
	}
	done(fmt.Errorf("a cube of an external service does not change its own configuration: %w", cube.ErrUnsupported))
}

// Announce adds an event, if the Env can.
func Announce(env cube.Env, state, what string) {
	if a, ok := env.(Author); ok {
		a.Announce(state, what)
	}
}

// AnnounceSession adds an event of a session, if the Env can.
func AnnounceSession(env cube.Env, state, what string) {
	if a, ok := env.(Author); ok {
		a.AnnounceSession(state, what)
	}
}
